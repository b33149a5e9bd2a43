// Restored records obey the rules of any write: quotas, uniqueness, subscriptions.

import History
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
import WebServices
@testable import ZoneCommit

private func tag(_ kind: String, _ id: String, _ name: String) -> String {
  #"{"changeType":"\#(kind)","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private let (low, high) = ("1A000000-0000-4000-8000-000000000001", "FB000000-0000-4000-8000-000000000002")

extension ObjectPlaneWorld {
  /// Posts as the database's owner with this quota.
  fileprivate func post(_ path: String, _ body: String = "", quota: Int64?) async throws -> PlaneReply {
    let request = DatabaseRequest(
      plane: .object, method: "POST", path: path.split(separator: "/").map(String.init), query: [:],
      database: request("GET", "stores/A").database, scope: .private,
      caller: Caller(userRecordName: "_alice", standing: UserStanding(quotaByteCount: quota)), requestID: random.uuid(),
      baseURL: "https://host")
    return try await send(request, body)
  }

  /// A's name of a tag has given way to B's: the journal has it.
  /// - Returns: the entry's number.
  fileprivate func lose(_ name: String, of id: String) async throws -> Int64 {
    let (a, b) = (try await Device("A", self), try await Device("B", self))
    try await edit("A", tag("insert", id, "start"))
    try await b.pull()
    try await a.pull()
    try await edit("A", tag("update", id, name))
    try await edit("B", tag("update", id, "short"))
    return try #require(try await conflicts("A").first?["number"]?.int64)
  }
}

@Suite struct `Restored states` {
  @Test(arguments: [true, false]) func `a conflict is restored within the quota, whoever asks`(asZone: Bool)
    async throws
  {
    try await ObjectPlaneWorld.with(.memory, keepsPastStates: true) { world in
      let number = try await world.lose(String(repeating: "x", count: 5000), of: "T")
      func restore(quota: Int64?) async throws -> PlaneReply {
        if asZone {
          return try await world.post(
            "zones/\(ReservedName.privateMirrorZone)/conflicts", #"{"number":\#(number),"action":"restore"}"#,
            quota: quota)
        }
        return try await world.post("stores/A/conflicts/\(number)/restore", quota: quota)
      }
      let refused = try await restore(quota: 1000)
      #expect(refused.status == 413 && refused.code == "QUOTA_EXCEEDED", "\(refused.text)")
      #expect(try await world.liveRecords().map { $0.fields.string("CD_name") } == ["short"])
      #expect(try await world.conflicts("A")[0]["state"]?.string == "lost", "it can be restored when there is room")
      #expect(try await restore(quota: 100_000).status == 200)
      #expect(try await world.liveRecords().map { $0.fields.string("CD_name")?.count } == [5000])
    }
  }

  @Test func `a restored conflict by which two objects are duplicates merges them`() async throws {
    try await ObjectPlaneWorld.with(.memory, keepsPastStates: true) { world in
      let number = try await world.lose("sand", of: high)
      world.schemas.declare(EnvironmentRules.Unique(entity: "Tag", attributes: ["name"], policy: .mergeLowestUUID))
      try await world.edit("B", tag("insert", low, "sand"))
      #expect(try await world.post("stores/A/conflicts/\(number)/restore", quota: nil).status == 200)
      let database = world.request("GET", "stores/A").database
      let survivor = try await world.store.read { snapshot -> String? in
        guard let row = try snapshot.database(database),
          let zone = try snapshot.zone(named: ReservedName.privateMirrorZone, in: row.key)
        else { return nil }
        return try snapshot.redirect(of: high, in: zone.key)?.survivor
      }
      #expect(survivor == low)
    }
  }

  @Test func `a zone is restored within the quota, and what makes it smaller goes on`() async throws {
    try await ObjectPlaneWorld.with(.memory, keepsPastStates: true) { world in
      try await world.setUp("A")
      func restore(_ sequence: Int64, quota: Int64?) async throws -> PlaneReply {
        try await world.post(
          "zones/\(ReservedName.privateMirrorZone)/restore", #"{"sequence":\#(sequence)}"#, quota: quota)
      }
      let database = world.request("GET", "stores/A").database
      func state() async throws -> (sequence: Int64, byteCount: Int64) {
        try await world.store.read { snapshot in
          try snapshot.database(database).map { ($0.sequence, $0.byteCount) } ?? (0, 0)
        }
      }
      try await world.edit("A", tag("insert", "T", "small"))
      let small = try await state()
      try await world.edit("A", tag("update", "T", String(repeating: "x", count: 5000)))
      let large = try await state()
      try await world.edit("A", tag("update", "T", "small again"))
      let refused = try await restore(large.sequence, quota: 4000)
      #expect(refused.status == 413 && refused.code == "QUOTA_EXCEEDED", "\(refused.text)")
      #expect(try await state().byteCount < 1000)
      #expect(try await restore(large.sequence, quota: 100_000).status == 200)
      #expect(try await state().byteCount == large.byteCount)
      // Over a lowered quota, shrinking writes succeed.
      #expect(try await restore(small.sequence, quota: 10).status == 200)
      #expect(try await state().byteCount == small.byteCount)
    }
  }

  @Test
  func
    `an import that is tried again fires subscriptions, and pings other couriers only where nobody subscribed`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      let b = try await Device("B", world)
      try await world.setUp("A")
      try await world.save("A", tag("insert", "T", "x"), query: ["wait": "export"])
      func tryAgain() async throws {
        try world.damage("record SET sum = sum + 1 WHERE name = 'T'")
        try await b.pull()
        try world.damage("record SET sum = sum - 1 WHERE name = 'T'")
        #expect(
          try await world.send(world.request("POST", "stores/B/quarantine/retry"), "{}").json["retried"]?.int64 == 1)
        _ = (world.changes.take(), world.changes.takeNotifications())
        #expect(try await b.pull().count == 1)
      }
      try await tryAgain()
      #expect(world.changes.take().map(\.hasSubscriptions) == [nil])
      #expect(world.changes.takeNotifications().isEmpty)
      let zone = #""zoneID":{"zoneName":"\#(ReservedName.privateMirrorZone)"}"#
      let subscription =
        #"""
        {"subscriptionID":"tags","subscriptionType":"query",\#(zone),"query":{"recordType":"CD_Tag","filterBy":[]},\#
        "firesOn":["create","update"]}
        """#
      let request = DatabaseRequest(
        plane: .record, method: "POST", path: ["subscriptions", "modify"], query: [:],
        database: world.request("GET", "stores/A").database, scope: .private,
        caller: Caller(userRecordName: "_alice"), requestID: world.random.uuid(), baseURL: "https://host")
      let body = Array(#"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#.utf8)
      let answer = try await world.records.respond(to: request, body: body, in: world.store, startNext: {})
      #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
      try await world.edit("A", tag("update", "T", "y"))
      try await tryAgain()
      #expect(world.changes.take().map(\.hasSubscriptions) == [true])
      #expect(try world.changes.takeNotifications().map { try $0.line } == ["_alice tags: qry T update"])
    }
  }
}
