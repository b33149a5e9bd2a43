// QUOTA_EXCEEDED on both planes: writes that grow are refused, writes that shrink are not.

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import ZoneCommit

@Suite struct `Quotas of users` {
  private func operate(
    _ world: RecordPlaneWorld, _ operations: [(kind: String, name: String, byteCount: Int)], quota: Int64?,
    atomic: Bool = false, scope: DatabaseScope = .private
  ) async throws -> PlaneReply {
    let items = operations.map { operation in
      let fields =
        #","recordType":"Note","fields":{"f":{"value":"\#(String(repeating: "x", count: operation.byteCount))"}}"#
      return
        #"""
        {"operationType":"\#(operation.kind)","record":{"recordName":\#
        "\#(operation.name)"\#(operation.kind == "forceDelete" ? "" : fields)}}
        """#
    }
    let caller = Caller(userRecordName: "_alice", standing: UserStanding(quotaByteCount: quota))
    let zone = scope == .private ? "Trips" : "_defaultZone"
    return try await world.send(
      world.request("records/modify", caller: caller, scope: scope),
      #"{"operations":[\#(items.joined(separator: ","))],"zoneID":"\#(zone)","atomic":\#(atomic)}"#)
  }

  private func byteCount(_ world: RecordPlaneWorld) async throws -> Int64 {
    let id = world.request("x").database
    return try await world.store.read { try $0.database(id)?.byteCount ?? 0 }
  }

  @Test func `a save that grows is refused, one that shrinks and a deletion are not`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    #expect(
      try await operate(world, [("create", "a", 5000), ("create", "b", 4000)], quota: 10_000).records.map(\.code) == [
        nil, nil,
      ])
    let used = try await byteCount(world)
    #expect((9000...9500).contains(used))
    let refused = try await operate(world, [("create", "c", 2000), ("forceUpdate", "b", 4001)], quota: 10_000)
    #expect(refused.status == 200 && refused.records.map(\.code) == ["QUOTA_EXCEEDED", nil])
    #expect(
      refused.records[0].reason?.hasPrefix("The database holds \(used) of 10000 bytes and has no room for ") == true)
    // Over a lowered quota, shrinking writes succeed.
    #expect(try await operate(world, [("forceUpdate", "a", 4999)], quota: 1000).records[0].code == nil)
    #expect(try await operate(world, [("forceUpdate", "a", 5001)], quota: 1000).records[0].code == "QUOTA_EXCEEDED")
    #expect(try await operate(world, [("forceDelete", "b", 0)], quota: 1000).records[0].code == nil)
    #expect(try await operate(world, [("create", "c", 2000)], quota: 10_000).records[0].code == nil)
    #expect(try await operate(world, [("create", "d", 100_000)], quota: 0).records[0].code == nil)
    #expect(try await operate(world, [("create", "e", 100_000)], quota: nil).records[0].code == nil)
  }

  @Test func `an atomic batch counts as one`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await operate(world, [("create", "a", 5000)], quota: nil)
    let before = try await byteCount(world)
    let refused = try await operate(
      world, [("create", "b", 3000), ("create", "c", 3000), ("forceUpdate", "a", 4000)], quota: 10_000, atomic: true)
    #expect(
      refused.status == 400 && refused.records.map(\.code) == ["QUOTA_EXCEEDED", "QUOTA_EXCEEDED", "ATOMIC_ERROR"])
    #expect(try await byteCount(world) == before)
    // Deletions make room for saves.
    #expect(
      try await operate(
        world, [("create", "b", 4000), ("create", "c", 4000), ("forceDelete", "a", 0)], quota: 10_000, atomic: true
      ).status == 200)
    let alone = try await operate(world, [("create", "d", 3000)], quota: 10_000, atomic: true)
    #expect(alone.status == 200 && alone.records[0].code == "QUOTA_EXCEEDED")
  }

  @Test func `the public database is charged to nobody`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    #expect(try await operate(world, [("create", "a", 5000)], quota: 10, scope: .public).records[0].code == nil)
  }

  @Test(arguments: StoreKind.allCases) func `a transaction that grows is refused as a whole, and stores nothing`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      func save(_ changes: String, quota: Int64) async throws -> PlaneReply {
        var request = world.request("POST", "stores/A/transactions", query: ["wait": "export"])
        request = DatabaseRequest(
          request.route, query: request.query, database: request.database, scope: .private,
          caller: Caller(userRecordName: "_alice", standing: UserStanding(quotaByteCount: quota)),
          requestID: world.random.uuid(), baseURL: "https://host")
        return try await world.send(
          request,
          #"""
          {"transactions":[{"transactionID":"\#(world.random.uuid())","timestamp":"2026-11-20T07:33:24.123Z",\#
          "author":"app","changes":[\#(changes)]}]}
          """#
        )
      }
      func tag(_ kind: String, _ id: String, _ byteCount: Int) -> String {
        #"""
        {"changeType":"\#(kind)","entity":"Tag","objectID":"\#(id)",\#
        "attributes":{"name":"\#(String(repeating: "x", count: byteCount))"}}
        """#
      }
      #expect(try await save(tag("insert", "T", 5000), quota: 10_000).status == 200)
      let refused = try await save(tag("insert", "U", 3000) + "," + tag("insert", "V", 3000), quota: 10_000)
      #expect(refused.status == 413 && refused.code == "QUOTA_EXCEEDED")
      #expect(try await world.liveRecords().map(\.recordName) == ["T"])
      #expect(try await save(tag("update", "T", 4000), quota: 1000).status == 200)
      #expect(try await save(tag("update", "T", 4500), quota: 1000).status == 413)
      // One that is large by itself, and leaves in exchange.
      #expect(try await save(tag("insert", "W", 200_000), quota: 10_000).status == 413)
      #expect(
        try await save(
          #"{"changeType":"delete","entity":"Tag","objectID":"T"},"# + tag("insert", "U", 8000), quota: 10_000
        ).status == 200)
      #expect(try await save(#"{"changeType":"delete","entity":"Tag","objectID":"U"}"#, quota: 1).status == 200)
      #expect(try await world.liveRecords().isEmpty)
    }
  }

  @Test func `the worker's own quota holds for users without one`() {
    let (container, alice) = (RecordPlaneWorld.container, "_alice")
    let own = DatabaseID(container: container, environment: .development, owner: alice)
    let everybodys = DatabaseID(container: container, environment: .development, owner: DatabaseID.publicOwner)
    #expect(StorageQuota(of: Caller(userRecordName: alice), in: own, standard: 7)?.byteCount == 7)
    #expect(StorageQuota(of: Caller(userRecordName: alice), in: own, standard: 0) == nil)
    #expect(
      StorageQuota(of: Caller(userRecordName: alice, standing: UserStanding(roles: ["r"])), in: own, standard: 7)?
        .byteCount == 7)
    #expect(
      StorageQuota(of: Caller(userRecordName: alice, standing: UserStanding(quotaByteCount: 9)), in: own, standard: 7)?
        .byteCount == 9)
    #expect(
      StorageQuota(of: Caller(userRecordName: alice, standing: UserStanding(quotaByteCount: 0)), in: own, standard: 7)
        == nil)
    #expect(StorageQuota(of: Caller(userRecordName: alice), in: everybodys, standard: 7) == nil)
  }
}
