// Saves, imports and migrations without an end: the process that runs them is killed.

import FoundationEssentials
import MirrorWire
import ReplicaStore

/// A store whose acknowledged work is written down in a ledger: one line for each answer, synced before the next
/// begins.
struct Endless {
  let store: String
  let ledger: String

  func run(_ kind: String) async throws {
    let versions = [Self.model(1), Self.model(2)]
    var version = 0
    var replica = try await open(versions, &version)
    let ledger = Ledger(ledger)
    var number = try await next(replica)
    while true {
      switch kind {
      case "imports": try await importPage(replica, number)
      case "migrates":
        try await save(replica, number)
        await replica.close()
        version = 1 - version
        let target = versions[version]
        let models = ManagedObjectModel(
          hash: target.hash, entities: target.entities, earlierVersions: [versions[1 - version]])
        replica = try await Replica.open(Self.configuration(store), models)
      default: try await save(replica, number)
      }
      ledger.write("\(number)\n")
      number += 1
    }
  }

  /// Opens the file by whichever version of the model it has.
  private func open(_ versions: [ManagedObjectModel], _ version: inout Int) async throws -> Replica {
    do { return try await Replica.open(Self.configuration(store), versions[0]) } catch StoreError.newerModel {
      version = 1
      return try await Replica.open(Self.configuration(store), versions[1])
    }
  }

  static func configuration(_ store: String) -> ReplicaConfiguration {
    var configuration = ReplicaConfiguration(
      path: store, processID: "1", machineIdentifier: "m", now: { Date.now }, makeIdentifier: { UUID() })
    configuration.isMirrored = true
    return configuration
  }

  /// Two versions that differ in the name of an attribute, so that files go to and fro.
  static func model(_ version: Int) -> ManagedObjectModel {
    ManagedObjectModel(
      hash: "tool-\(version)",
      entities: [
        EntityDescription(
          "Note",
          attributes: [
            AttributeDescription(
              version == 1 ? "text" : "body", .string, renamingIdentifier: version == 1 ? "body" : "text"),
            AttributeDescription("number", .integer64),
          ])
      ])
  }

  /// One more than the largest number that is stored.
  private func next(_ replica: Replica) async throws -> Int {
    try await replica.read { snapshot in
      guard case .integer(let number)? = try snapshot.rows("SELECT coalesce(max(number), 0) FROM e_Note", [])[0].first
      else { return 1 }
      return Int(number) + 1
    }
  }

  /// Two objects in one save: both are there or none.
  private func save(_ replica: Replica, _ number: Int) async throws {
    _ = try await replica.save(SaveOptions()) { save in
      for half in ["a", "b"] {
        try save.insert(
          AnyObjectID(entityName: "Note", recordName: "\(number)\(half)"),
          [.text(String(repeating: half, count: 200)), .integer(Int64(number))])
      }
    }
  }

  private func importPage(_ replica: Replica, _ number: Int) async throws {
    let changes = ["a", "b"].map { half in
      ImportedChange.save(
        ImportedObject(
          entity: "Note", objectID: "\(number)\(half)", zoneID: ZoneID(zoneName: "z"),
          attributes: ["text": .string(String(repeating: half, count: 200)), "number": .integer(Int64(number))],
          recordChangeTag: "1"))
    }
    try await replica.apply(ImportPage(changes: changes, importToken: "\(number)"), event: nil)
  }
}
