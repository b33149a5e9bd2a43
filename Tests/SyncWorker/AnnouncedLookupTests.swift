// Everyday calls announce what their bodies look up, so that PostgreSQL fetches it for all bodies of a group at once.

import Assets
import Crypto
import JSON
import PrivateCluster
import Records
import Synchronization
import Testing

@testable import RecordStore

struct AnnouncedLookupTests {
  @Test func `saving, changing and deleting records looks up nothing that was not announced`() async throws {
    let store = try await openedOnPostgreSQL(AssetFolder(directory: "/nonexistent"), keys: KeyRing())
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    // The first record teaches the writer symbols, and gets keys for a thousand.
    try await writeThrice("first", in: world)
    let count = try await lookups(store) {
      for number in 0..<5 { try await writeThrice("\(number)", in: world) }
    }
    #expect(count == 0)
    await store.close()
  }

  private func writeThrice(_ name: String, in world: RecordPlaneWorld) async throws {
    let made = try await world.operate("create", name, fields: #"{"title":{"value":"one"}}"#)
    let tag = try #require(made.records.first?["recordChangeTag"]?.string)
    let changed = try await world.operate("update", name, tag: tag, fields: #"{"title":{"value":"two"}}"#)
    #expect(changed.records.first?["recordChangeTag"]?.string ?? tag != tag)
    let deleted = try await world.operate("forceDelete", name, type: nil)
    #expect(deleted.records.first?["deleted"]?.bool == true)
  }

  @Test func `saving and exporting objects looks up nothing that was not announced`() async throws {
    try await ObjectPlaneWorld.with(.postgreSQL) { world in
      try await world.setUp("phone")
      try await world.save("phone", Self.insertion("first"))
      try await world.store.enqueue { _ in }.value
      let count = try await lookups(world.store) {
        for number in 0..<5 {
          let reply = try await world.save("phone", Self.insertion("\(number)"))
          #expect(reply.status == 200)
        }
        try await world.store.enqueue { _ in }.value
      }
      #expect(count == 0)
      #expect(try await world.liveRecords().count == 6)
    }
  }

  private static func insertion(_ name: String) -> String {
    #"""
    {"changeType":"insert","entity":"Tag","objectID":"\#(name)","attributes":{"name":"\#(name)"}}
    """#
  }

  /// The look-ups of bodies while `body` ran that cost a round trip of their own.
  private func lookups(_ store: any ShardStore, during body: () async throws -> Void) async throws -> Double {
    func count() -> Double { store.statistics.first { $0.name == "unexpected_lookups_total" }?.value ?? .nan }
    let before = count()
    try await body()
    return count() - before
  }
}

private let number = Atomic(0)

/// A new shard in PostgreSQL.
func openedOnPostgreSQL(_ assets: any AssetStore, keys: KeyRing) async throws -> any ShardStore {
  var configuration = PostgreSQLConfiguration(
    address: try PrivateCluster.shared.get().address, assets: assets, keys: keys)
  configuration.schemaPrefix = "plane_\(number.add(1, ordering: .relaxed).newValue)_"
  configuration.allowsAsynchronous = true
  // Machines that run tests are busy.
  configuration.bodyLimit = .seconds(60)
  return try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
}
