// Saves, imports, resets and migrations without an end: the process that runs them is killed.

import FoundationEssentials
import MirrorWire
import ReplicaStore

/// A store whose acknowledged work is written down in a ledger: one line for each answer, synced before the next
/// begins.
struct Endless {
  enum Kind: String, CaseIterable { case saves, imports, migrates, resets, contents }

  let store: String
  let ledger: String

  /// - Parameter count: pieces of work; nil: until somebody ends the process.
  func run(_ kind: Kind, count: Int?) async throws {
    var (replica, version) = try await open()
    let ledger = Ledger(ledger)
    let first = try await largest(in: replica) + 1
    var number = first
    while count.map({ number < first + $0 }) ?? true {
      switch kind {
      case .imports: try await replica.apply(page(number), event: nil)
      case .resets:
        try await replica.beginReset(reason: "tool")
        try await replica.apply(page(number, isDone: false), event: nil)
        try await replica.apply(page(number, isDone: true), event: nil)
      case .saves, .contents: try await save(replica, number, hasPicture: kind == .contents, version)
      case .migrates:
        try await save(replica, number, hasPicture: false, version)
        await replica.close()
        version = Self.later(than: version, number)
        replica = try await Replica.open(Self.configuration(store), Self.model(version))
      }
      ledger.write("\(number)\n")
      number += 1
    }
    await replica.close()
  }

  /// Opens the file by whichever version of the model it has.
  private func open() async throws -> (Replica, version: Int) {
    for version in 1...2 {
      do {
        let model = Self.model(version)
        let alone = ManagedObjectModel(hash: model.hash, entities: model.entities)
        return (try await Replica.open(Self.configuration(store), alone), version)
      } catch StoreError.unknownModel { continue }
    }
    return (try await Replica.open(Self.configuration(store), Self.model(3)), 3)
  }

  static func configuration(_ store: String) -> ReplicaConfiguration {
    var configuration = ReplicaConfiguration(
      path: store, processID: "1", machineIdentifier: "m", now: { Date.now }, makeIdentifier: { UUID() })
    configuration.isMirrored = true
    return configuration
  }

  // MARK: Models

  /// Another version, so that files go from each version to each.
  private static func later(than version: Int, _ number: Int) -> Int { (version + number % 2) % 3 + 1 }

  /// Three versions: an attribute has another name in each, the third has an attribute, an entity and pairs more. Each
  /// counts the others as earlier ones.
  static func model(_ version: Int) -> ManagedObjectModel {
    let others = (1...3).filter { $0 != version }.map { ManagedObjectModel(hash: "tool-\($0)", entities: entities($0)) }
    return ManagedObjectModel(hash: "tool-\(version)", entities: entities(version), earlierVersions: others)
  }

  private static func entities(_ version: Int) -> [EntityDescription] {
    var attributes = [
      AttributeDescription(textName(version), .string, renamingIdentifier: "text"),
      AttributeDescription("number", .integer64), AttributeDescription("picture", .binary, .external),
    ]
    guard version == 3 else { return [EntityDescription("Note", attributes: attributes)] }
    attributes.append(AttributeDescription("stars", .integer16, .required, defaultValue: "3"))
    return [
      EntityDescription(
        "Note", attributes: attributes,
        relationships: [RelationshipDescription("labels", to: "Label", inverse: "notes", isToMany: true)]),
      EntityDescription(
        "Label", attributes: [AttributeDescription("name", .string)],
        relationships: [RelationshipDescription("notes", to: "Note", inverse: "labels", isToMany: true)]),
    ]
  }

  private static func textName(_ version: Int) -> String { ["text", "body", "words"][version - 1] }

  // MARK: Work

  /// The largest number that is stored; 0: there is none.
  func largest(in replica: Replica) async throws -> Int {
    try await replica.read { snapshot in
      guard case .integer(let number)? = try snapshot.rows("SELECT coalesce(max(number), 0) FROM e_Note", [])[0].first
      else { return 0 }
      return Int(number)
    }
  }

  /// Two objects in one save: both are there or none.
  func save(_ replica: Replica, _ number: Int, hasPicture: Bool, _ version: Int) async throws {
    _ = try await replica.save(SaveOptions()) { save in
      for half in ["a", "b"] {
        var values: [Literal] = [.text(Self.text(half)), .integer(Int64(number)), .null]
        var contents: [String: ContentSource] = [:]
        if hasPicture {
          let picture = Data("\(number)\(half)".utf8)
          let checksum = SHA256.name(of: picture)
          values[2] = .text(ContentName(checksum: checksum, byteCount: Int64(picture.count)).text)
          contents[checksum] = .data(picture)
        }
        if version == 3 { values.append(.integer(3)) }
        try save.insert(
          AnyObjectID(entityName: "Note", recordName: "\(number)\(half)"), values, contents: contents)
      }
    }
  }

  private static func text(_ half: String) -> String { String(repeating: half, count: 200) }

  /// - Parameter isDone: whether it is the last page of a reset; nil: the page is none of a reset.
  func page(_ number: Int, isDone: Bool? = nil) -> ImportPage {
    let changes = (isDone == nil ? ["a", "b"] : isDone == true ? ["b"] : ["a"]).map { half in
      ImportedChange.save(
        ImportedObject(
          entity: "Note", objectID: "\(number)\(half)", zoneID: ZoneID(zoneName: "z"),
          attributes: ["text": .string(Self.text(half)), "number": .integer(Int64(number))],
          recordChangeTag: "1"))
    }
    return ImportPage(
      changes: changes, importToken: "\(number)", reset: isDone.map { .init(reason: "tool", done: $0) })
  }
}
