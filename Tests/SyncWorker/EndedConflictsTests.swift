// Journals of zones and databases that end: long ones go in slices, so that other saves get between.

import FixedClocks
import InMemoryRecordStore
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import WorkerHost
@testable import ZoneCommit

private let zoneName = ReservedName.privateMirrorZone

private func lose(_ count: Int, of database: DatabaseID, in store: any ShardStore) async throws {
  try await store.enqueue { transaction in
    let key = try transaction.makeDatabase(database).key
    for number in 1...count {
      let conflict = StoredConflict(
        databaseKey: key, zoneName: zoneName, recordName: "\(number)", entity: "Tag", kind: 1, state: 1,
        userRecordName: "_alice", deviceID: "", at: 1)
      _ = try transaction.appendConflict(conflict, content: [1], assets: [])
    }
  }.value
}

private func conflictCount(of database: DatabaseID, in store: any ShardStore) async throws -> Int {
  try await store.read { snapshot in
    let row = try snapshot.database(database)
    return try row.map { try snapshot.conflictUse(in: $0.key, of: "_alice").count } ?? 0
  }
}

@Suite struct `A long journal` {
  @Test(arguments: StoreKind.allCases, [true, false])
  func `of a zone that is purged goes in slices before the zone ends`(_ kind: StoreKind, byOwner: Bool) async throws {
    var counts: [Int] = []
    for count in [2, 250] {
      try await ObjectPlaneWorld.with(kind) { world in
        try await world.setUp("A")
        try await world.save("A", objectChange("insert", "Tag", "T"), query: ["wait": "export"])
        let purge = world.request("POST", "stores/A/purge")
        try await lose(count, of: purge.database, in: world.store)
        let lines = Lines()
        let store = LineShard(base: world.store, lines: lines, party: "_alice")
        let end = DatabaseRequest(
          plane: .object, method: "POST", path: ["zones", zoneName, "end"], query: [:], database: purge.database,
          scope: .private, caller: Caller(userRecordName: nil, isOperator: true), requestID: "r",
          baseURL: "https://host")
        let body = byOwner ? #"{"zoneID":{"zoneName":"\#(zoneName)"}}"# : #"{"reason":"purged"}"#
        let answer = try await world.plane.respond(
          to: byOwner ? purge : end, body: Array(body.utf8), in: store, startNext: {})
        let json = try JSONValue(parsing: answer.body)
        #expect(json[byOwner ? "purged" : "deleted"]?.int64 == 1, "\(json.text)")
        #expect(try await conflictCount(of: purge.database, in: world.store) == 0)
        #expect(try await world.liveRecords().isEmpty)
        counts.append(lines.all.count)
      }
    }
    #expect(counts[1] == counts[0] + 2, "\(counts)")
  }

  @Test func `of a database that begins anew goes in slices before its zones end`() async throws {
    let database = DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_alice")
    let store = try await InMemoryRecordStore(shardCount: 1).open(shard: 0)
    try await lose(250, of: database, in: store)
    let lines = Lines()
    let generations = EnvironmentGenerations(
      schemas: FirstGeneration(), changes: PublishedChanges(), clock: FixedClock(), log: .silent, pause: { _ in })
    try await generations.settle(database, in: LineShard(base: store, lines: lines, party: "_alice"))
    #expect(lines.all.count == 4)
    #expect(try await conflictCount(of: database, in: store) == 0)
    #expect(try await store.read { try $0.database(database)?.generation } == 1)
    await store.close()
  }

  /// A directory whose environments were reset once.
  private struct FirstGeneration: SchemaSource {
    func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema {
      EnvironmentSchema(version: 1, schema: Schema(), generation: 1)
    }
    func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError) {}
    func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async
      -> UserStanding?
    { nil }
  }
}
