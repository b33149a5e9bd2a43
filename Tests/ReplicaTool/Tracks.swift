// Migrations to and fro between two versions of a habit tracker's model, with all saves still to be sent; the process
// that runs them is killed.

import FoundationEssentials
import ReplicaStore

/// A track belongs to groups, and has ticks. The later version has other names for an entity, an attribute and a
/// relationship of many to many, and an attribute more.
struct Tracks {
  let store: String
  let ledger: String

  /// - Parameter count: saves, each with a migration after it; nil: until somebody ends the process.
  func run(count: Int?) async throws {
    var (replica, isLater) = try await open()
    let ledger = Ledger(ledger)
    let first = try await largest(in: replica, isLater) + 1
    var number = first
    while count.map({ number < first + $0 }) ?? true {
      try await save(replica, number, isLater)
      await replica.close()
      isLater.toggle()
      replica = try await Replica.open(Endless.configuration(store), Self.model(isLater: isLater))
      ledger.write("\(number)\n")
      number += 1
    }
    await replica.close()
  }

  /// Opens the file by whichever version of the model it has.
  private func open() async throws -> (Replica, isLater: Bool) {
    let model = Self.model(isLater: true)
    do {
      let alone = ManagedObjectModel(hash: model.hash, entities: model.entities)
      return (try await Replica.open(Endless.configuration(store), alone), true)
    } catch StoreError.unknownModel {
      return (try await Replica.open(Endless.configuration(store), Self.model(isLater: false)), false)
    }
  }

  private func largest(in replica: Replica, _ isLater: Bool) async throws -> Int {
    let table = isLater ? "e_Entry" : "e_Tick"
    return try await replica.read { snapshot in
      let rows = try snapshot.rows("SELECT coalesce(max(dayOffset), 0) FROM \(table)", [])
      guard case .integer(let number) = rows[0][0] else { return 0 }
      return Int(number)
    }
  }

  /// A group, a track in it, and two ticks of the track, in one save.
  private func save(_ replica: Replica, _ number: Int, _ isLater: Bool) async throws {
    _ = try await replica.save(SaveOptions()) { save in
      let group = AnyObjectID(entityName: "TrackGroup", recordName: "\(number)g")
      let track = AnyObjectID(entityName: "Track", recordName: "\(number)t")
      try save.insert(group, [.text("group \(number)")])
      try save.insert(track, [.text("track \(number)"), .integer(1)] + (isLater ? [.integer(0)] : []))
      try save.setPair(isLater ? "folders" : "groups", of: track, with: group, isLinked: true)
      for half in ["a", "b"] {
        try save.insert(
          AnyObjectID(entityName: isLater ? "Entry" : "Tick", recordName: "\(number)\(half)"),
          [.integer(2), .integer(Int64(number)), .object(track.recordName)])
      }
    }
  }

  // MARK: Models

  static func model(isLater: Bool) -> ManagedObjectModel {
    let other = ManagedObjectModel(hash: hash(!isLater), entities: entities(!isLater))
    return ManagedObjectModel(hash: hash(isLater), entities: entities(isLater), earlierVersions: [other])
  }

  private static func hash(_ isLater: Bool) -> String { isLater ? "tracks-2" : "tracks-1" }

  private static func entities(_ isLater: Bool) -> [EntityDescription] {
    let tick = isLater ? "Entry" : "Tick"
    let groups = isLater ? "folders" : "groups"
    var attributes = [
      AttributeDescription("name", .string), AttributeDescription("enabled", .boolean, .required, defaultValue: "YES"),
    ]
    if isLater { attributes.append(AttributeDescription("isArchived", .boolean, .required, defaultValue: "NO")) }
    return [
      EntityDescription(
        tick,
        attributes: [
          AttributeDescription(isLater ? "times" : "count", .integer16, renamingIdentifier: "count"),
          AttributeDescription("dayOffset", .integer64),
        ],
        relationships: [RelationshipDescription("track", to: "Track", inverse: "ticks", isToMany: false)],
        renamingIdentifier: "Tick"),
      EntityDescription(
        "Track", attributes: attributes,
        relationships: [
          RelationshipDescription("ticks", to: tick, inverse: "track", isToMany: true),
          RelationshipDescription(
            groups, to: "TrackGroup", inverse: "tracks", isToMany: true, renamingIdentifier: "groups"),
        ]),
      EntityDescription(
        "TrackGroup", attributes: [AttributeDescription("name", .string)],
        relationships: [RelationshipDescription("tracks", to: "Track", inverse: groups, isToMany: true)]),
    ]
  }
}
