// Exports quarantine changes and release them: for lack of room, for late relationships, in bulk; and report it.

import Crypto
import FixedClocks
import History
import JSON
import Mirroring
import ObjectModel

@testable import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

private func tag(_ id: String, _ byteCount: Int = 1, _ kind: String = "insert") -> String {
  #"""
  {"changeType":"\#(kind)","entity":"Tag","objectID":"\#(id)",\#
  "attributes":{"name":"\#(String(repeating: "x", count: byteCount))"}}
  """#
}

private func change(_ kind: String, _ entity: String, _ id: String, _ relationships: String = "") -> String {
  #"{"changeType":"\#(kind)","entity":"\#(entity)","objectID":"\#(id)","relationships":{\#(relationships)}}"#
}

private func held(_ world: ObjectPlaneWorld, _ store: String = "A") async throws -> [String] {
  let reply = try await world.get("\(store)/quarantine")
  return reply.json["quarantined"]?.elements.map { "\($0["objectID"]?.string ?? "") \($0["cause"]?.string ?? "")" }
    ?? []
}

@Suite struct `Objects that wait` {
  /// A save by alice with this quota.
  private func save(_ world: ObjectPlaneWorld, _ changes: String, quota: Int64) async throws -> PlaneReply {
    let request = DatabaseRequest(
      plane: .object, method: "POST", path: ["stores", "A", "transactions"], query: ["wait": "export"],
      database: world.request("GET", "x").database, scope: .private,
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

  private func waiting(_ world: ObjectPlaneWorld, _ changes: [HistoryChange]) async throws {
    try await world.appendWithoutExport(
      [HistoryTransaction(transactionID: world.random.uuid(), timestamp: 0, changes: changes)], to: "A")
  }

  private func insert(
    _ entity: String, _ id: String, _ attributes: [NamedValue<AttributeValue>] = [],
    _ relationships: [NamedValue<RelationshipValue>] = []
  )
    -> HistoryChange
  {
    HistoryChange(
      changeType: .insert, entity: entity, objectID: id, attributes: attributes, relationships: relationships)
  }

  @Test(arguments: StoreKind.allCases)
  func
    `T-E13 a change without room waits, deletions and small changes go, and it goes when there is room`(
      _ kind: StoreKind
    )
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      #expect(try await save(world, tag("old", 6000), quota: 10_000).status == 200)
      // Accepted while there was room, exported when others had filled it.
      let name = String(repeating: "x", count: 5000)
      try await waiting(
        world,
        [
          insert(
            "Photo", "P", [NamedValue(name: "displayName", value: .string(name))],
            [NamedValue(name: "ratings", value: .toMany(["R"]))]), insert("Rating", "R"),
          insert("Tag", "small"), insert("Tag", "large", [NamedValue(name: "name", value: .string(name))]),
        ])
      let event = try await save(world, tag("next"), quota: 10_000).json["event"]
      #expect(
        event?["error"]?["partialErrors"]?.elements.map {
          "\($0["objectID"]?.string ?? "") \($0["ckErrorCode"]?.int64 ?? 0)"
        } == ["P 25", "large 25"],
        "\(event?.text ?? "")")
      #expect(try await held(world) == ["P space", "large space"])
      #expect(try await world.liveRecords().map(\.recordName) == ["R", "next", "old", "small"])
      #expect(
        try await world.liveRecords().first { $0.recordName == "R" }?.fields.string("CD_photo") == "P",
        "a child is not an orphan because its parent waits")
      // Once: later tries say nothing new, and growing saves are refused at once.
      let events = try await world.get("A/events", ["type": "export", "resultType": "count"]).json["count"]?.int64
      world.clock.advance(by: 61_000)
      try await world.store.enqueue { transaction in
        let mirror = try transaction.mirrors(afterKey: 0, limit: 1)[0]
        #expect(try transaction.quarantined(of: mirror.key, dueBy: world.clock.now, limit: 9).count == 2)
      }.value
      #expect(try await save(world, tag("more", 5000), quota: 10_000).status == 413)
      #expect(
        try await world.get("A/events", ["type": "export", "resultType": "count"]).json["count"]?.int64 == events)
      #expect(
        try await world.get("A/quarantine").json["quarantined"]?.elements.map { $0["attempts"]?.int64 } == [2, 2])
      // A deletion goes, and makes room for as much as it gives back.
      #expect(
        try await save(world, #"{"changeType":"delete","entity":"Tag","objectID":"old"}"#, quota: 10_000).json[
          "event"]?["succeeded"]?.bool == true)
      #expect(try await save(world, tag("next", 2, "update"), quota: 10_000).status == 200)
      #expect(try await held(world) == ["large space"])
      #expect(
        try await world.get("A/objects/P").json["relationships"]?["ratings"]?.elements.compactMap(\.string) == ["R"])
      // More room, given by an operator.
      world.clock.advance(by: 61_000)
      #expect(try await save(world, tag("next", 3, "update"), quota: 20_000).status == 200)
      #expect(try await held(world) == [])
      #expect(try await world.liveRecords().map(\.recordName) == ["P", "R", "large", "next", "small"])
    }
  }

  @Test func `T-E13 an export that nobody asked for goes by its user's own quota, and tries again by itself`()
    async throws
  {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      world.schemas.userQuotas.withLock { $0["_alice"] = 1000 }
      try await waiting(
        world,
        [
          insert("Tag", "large", [NamedValue(name: "name", value: .string(String(repeating: "x", count: 2000)))]),
          insert("Tag", "small"),
        ])
      try await world.withExports {
        while try await held(world) != ["large space"] { await Task.yield() }
        #expect(try await world.liveRecords().map(\.recordName) == ["small"])
        world.schemas.userQuotas.withLock { $0["_alice"] = 0 }
        while try await !held(world).isEmpty { world.clock.advance(by: 5000); await Task.yield() }
        #expect(try await world.liveRecords().map(\.recordName) == ["large", "small"])
      }
    }
  }

  @Test(arguments: StoreKind.allCases, [true, false])
  func `a set that waited does not overtake what its members were told since`(
    _ kind: StoreKind, keepsPastStates: Bool
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: keepsPastStates) { world in
      try await world.setUp("A")
      let children =
        ["moved", "edited", "left"].map { change("insert", "Rating", $0) } + [
          change("insert", "Photo", "Q"), change("insert", "Tag", "T"), change("insert", "Tag", "U"),
        ]
      try await world.save("A", children.joined(separator: ","), query: ["wait": "export"])
      let blank = NamedValue(name: "displayName", value: AttributeValue.string(String(repeating: "x", count: 5000)))
      world.clock.advance(by: 1000)
      try await waiting(
        world,
        [
          insert(
            "Photo", "P", [blank],
            [
              NamedValue(name: "ratings", value: .toMany(["moved", "edited", "left"])),
              NamedValue(name: "tags", value: .toMany(["T", "U"])),
            ])
        ])
      #expect(try await save(world, tag("x"), quota: 1500).status == 200)
      #expect(try await held(world) == ["P space"])
      world.clock.advance(by: 1000)
      // Later, from the other sides: one gets another parent, one is edited, a link is removed before it was made.
      let since = [
        change("update", "Rating", "moved", #""photo":"Q""#),
        #"{"changeType":"update","entity":"Rating","objectID":"edited","attributes":{"value":3}}"#,
        change("update", "Tag", "T", #""photos":{"remove":["P"]}"#),
      ]
      #expect(try await save(world, since.joined(separator: ","), quota: 0).json["event"]?["succeeded"]?.bool == true)
      // It was named, and so it was tried with them.
      #expect(try await held(world) == [])
      let records = Dictionary(uniqueKeysWithValues: try await world.liveRecords().map { ($0.recordName, $0) })
      #expect(["moved", "edited", "left"].map { records[$0]?.fields.string("CD_photo") } == ["Q", "P", "P"])
      #expect(records.values.compactMap { $0.fields.string(ReservedName.linkRecordNames) } == ["P:U"])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a member that found another owner while its set waited keeps him`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      try await world.save(
        "A",
        ["moved", "edited"].map { change("insert", "Rating", $0) }.joined(separator: ",") + ","
          + change("insert", "Photo", "Q"), query: ["wait": "export"])
      world.clock.advance(by: 1000)
      let blank = NamedValue(name: "displayName", value: AttributeValue.string(String(repeating: "x", count: 5000)))
      try await waiting(
        world, [insert("Photo", "P", [blank], [NamedValue(name: "ratings", value: .toMany(["moved", "edited"]))])])
      #expect(try await save(world, tag("x"), quota: 1500).status == 200)
      world.clock.advance(by: 1000)
      // Nothing here names P, which is not tried with it.
      let since =
        change("update", "Rating", "moved", #""photo":"Q""#)
        + #",{"changeType":"update","entity":"Rating","objectID":"edited","attributes":{"value":3}}"#
      #expect(try await save(world, since, quota: 1900).status == 200)
      #expect(try await held(world) == ["P space"])
      world.clock.advance(by: 61_000)
      #expect(try await save(world, tag("y"), quota: 0).status == 200)
      #expect(try await held(world) == [])
      let records = Dictionary(uniqueKeysWithValues: try await world.liveRecords().map { ($0.recordName, $0) })
      #expect(records["moved"]?.fields.string("CD_photo") == "Q" && records["edited"]?.fields.string("CD_photo") == "P")
    }
  }

  @Test func `T-E10 many records of a batch that can't be written are found at once`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let bad = (0..<150).map { index -> HistoryChange in
        let content = Array("content \(index)".utf8)
        let asset = Asset(hash: SHA256.hash(content), byteCount: 1_000_000)
        return insert("PhotoData", "D\(index)", [NamedValue(name: "data", value: .asset(asset))])
      }
      try await waiting(world, bad + (0..<150).map { insert("Tag", "T\($0)") })
      let runs = Mutex(0)
      let mirror = try await world.store.read { try $0.mirrors(afterKey: 0, limit: 1)[0] }
      let schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development)
      let run = ExportRun(
        mirrorKey: mirror.key, shard: 0, database: world.request("GET", "x").database,
        model: schema.mirrorModels[mirror.modelHash]!, schema: schema,
        context: world.plane.context.object)
      let outcome = try await run.isolating { attempt in
        runs.withLock { $0 += 1 }
        return try await world.store.enqueue { transaction in try attempt.callAsFunction(transaction) }.value
      }
      #expect(runs.withLock { $0 } == 2 && outcome.exportedNumber == 1)
      #expect(try await world.liveRecords().count == 150)
      #expect(try await held(world).count == 150)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `T-E09 of a batch with a giant record all others go, and it is seen where it waits`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development).schema
      let note = Schema.RecordType(name: "CD_Photo", fields: [Schema.Field(name: "note", type: .string)], grants: [])
      world.schemas.replaceSchema(
        schema.merging(Schema(recordTypes: [note]), replacesConflicts: false), in: .development)
      try await world.setUp("A")
      try await world.save("A", change("insert", "Photo", "G"), query: ["wait": "export"])
      // A web application fills it, as no mirroring would.
      try await world.saveRecord(
        "CD_Photo", "G", #""note":{"value":"\#(String(repeating: "f", count: 999_950))"}"#,
        in: ReservedName.privateMirrorZone)
      let target = String(repeating: "D", count: 200)
      let changes =
        (0..<398).map { tag("T\($0)") } + [
          change("update", "Photo", "G", #""photoData":"\#(target)","tags":{"add":["T1"]}"#)
        ]
      let event = try await world.save("A", changes.joined(separator: ","), query: ["wait": "export"]).json["event"]
      #expect(event?["counts"]?["saved"]?.int64 == 399, "398 tags and the link")
      #expect(
        event?["error"]?["partialErrors"]?.elements.map {
          "\($0["objectID"]?.string ?? "") \($0["cocoaErrorCode"]?.int64 ?? 0)"
        } == ["G 134411"])
      #expect(try await held(world) == ["G size"])
      let object = try await world.get("A/objects/G")
      #expect(
        object.status == 200 && object.json["syncState"]?.string == "quarantined"
          && object.json["relationships"]?["photoData"]?.string == target)
      #expect(object.json["lastError"]?["reason"]?.string?.contains("the limit is") == true)
      let explained = try await world.get("A/objects/G/explain").json
      #expect(
        explained["syncState"]?.string == "quarantined"
          && explained["reasons"]?.elements.first?["code"]?.string == "quarantined", "\(explained.text)")
      try await world.saveRecord("CD_Photo", "G", #""note":{"value":"short"}"#, in: ReservedName.privateMirrorZone)
      world.clock.advance(by: 61_000)
      let later = try await world.save("A", tag("later"), query: ["wait": "export"])
      #expect(later.json["event"]?["succeeded"]?.bool == true, "\(later.text)")
      #expect(try await world.get("A/objects/G").json["syncState"]?.string == "clean")
      #expect(try await world.liveRecords().first { $0.recordName == "G" }?.fields.string("CD_photoData") == target)
    }
  }

  @Test(arguments: StoreKind.allCases) func `an object of which there is nothing but what is held back shows that`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.save("A", tag("T"), query: ["wait": "export"])
      // The name is another type's: no record can be made.
      try await waiting(
        world,
        [
          insert("Photo", "T", [NamedValue(name: "displayName", value: .string("held"))]),
          insert("Rating", "R", [NamedValue(name: "value", value: .string("no number"))]),
        ])
      try await world.save("A", tag("x"), query: ["wait": "export"])
      #expect(try await held(world).map { $0.split(separator: " ")[0] } == ["T", "R"])
      #expect(try await world.get("A/objects/T").json["entity"]?.string == "Tag", "what is there is there")
      let object = try await world.get("A/objects/R").json
      #expect(
        object["entity"]?.string == "Rating" && object["syncState"]?.string == "quarantined"
          && object["attributes"]?["value"]?.string == "no number", "\(object.text)")
    }
  }
}
