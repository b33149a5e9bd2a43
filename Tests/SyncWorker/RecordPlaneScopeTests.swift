import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices
@testable import ZoneCommit

@Suite struct `Permissions by caller and place, and the rules of schemas` {
  @Test func `T-P19 a missing zone and another user's zone look alike`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    for body in [
      #"{"operations":[],"zoneID":{"zoneName":"Nowhere"}}"#,
      #"{"operations":[],"zoneID":{"zoneName":"Nowhere","ownerRecordName":"_alice"}}"#,
    ] {
      let reply = try await world.post("records/modify", body, user: "_bob")
      #expect(reply.status == 404)
      #expect(reply.code == "ZONE_NOT_FOUND")
      #expect(reply.reason == "Zone 'Nowhere' does not exist")
    }
    let foreign = try await world.post(
      "records/lookup", #"{"records":[],"zoneID":{"zoneName":"Trips","ownerRecordName":"_alice"}}"#, user: "_bob")
    #expect(foreign.status == 404 && foreign.reason == "Zone 'Trips' does not exist")
    #expect(try await world.lookUp(["a"], user: "_bob").code == "ZONE_NOT_FOUND")
  }

  @Test(arguments: ["_defaultOwner", "__defaultOwner__", "_alice"])
  func `the caller's own names for himself mean his zone`(owner: String) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "records/lookup", #"{"records":[{"recordName":"a"}],"zoneID":{"zoneName":"Trips","ownerRecordName":"\#(owner)"}}"#
    )
    #expect(reply.status == 200)
  }

  @Test func `private databases are their owners'`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    #expect(
      try await world.send(world.request("records/lookup", user: "_bob", owner: "_alice"), #"{"records":[]}"#).status
        == 403)
    #expect(
      try await world.send(world.request("records/lookup", user: nil, owner: "_alice"), #"{"records":[]}"#).status
        == 421)
  }

  @Test func `the shared database is empty`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    #expect(try await world.post("zones/list", "", scope: .shared).text == #"{"zones":[]}"#)
    #expect(try await world.lookUp(["a"], scope: .shared).code == "ZONE_NOT_FOUND")
    #expect(try await world.operate("create", "a", scope: .shared).status == 404)
    #expect(
      try await world.post("records/query", #"{"query":{"recordType":"Note"},"zoneWide":true}"#, scope: .shared).text
        == #"{"records":[]}"#)
    let feed = try await world.post("changes/database", "{}", scope: .shared)
    #expect(feed.zones.isEmpty && feed.moreComing == false)
    #expect(
      try await world.post("changes/database", #"{"syncToken":"\#(feed.syncToken ?? "")"}"#, scope: .shared).syncToken
        == feed.syncToken)
    let change = try await world.post(
      "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":"X"}}]}"#, scope: .shared)
    #expect(change.status == 400)
  }

  @Test func `T-P18 zones of the shared database can't be created or deleted there`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":"Trips"}}]}"#, scope: .shared)
    #expect(reply.code == "BAD_REQUEST")
    #expect(try await world.lookUp(["a"]).status == 200)
  }

  @Test func `everybody reads the public database, signed-in users create, creators write`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let created = try await world.operate(
      "create", "a", fields: #"{"n":{"value":1}}"#, zone: "_defaultZone", scope: .public)
    #expect(created.records[0]["zoneID"]?["ownerRecordName"]?.string == "_defaultOwner")
    let anonymous = try await world.send(
      world.request("records/lookup", user: nil, scope: .public), #"{"records":[{"recordName":"a"}]}"#)
    #expect(anonymous.records[0].value("n")?.int64 == 1)
    #expect(
      try await world.send(world.request("records/modify", user: nil, scope: .public), #"{"operations":[]}"#).status
        == 421)
    for kind in ["forceUpdate", "forceReplace", "forceDelete"] {
      let reply = try await world.operate(
        kind, "a", fields: #"{"n":{"value":2}}"#, zone: "_defaultZone", user: "_bob", scope: .public)
      #expect(
        reply.records[0].text
          == #"{"recordName":"a","serverErrorCode":"ACCESS_DENIED","reason":"WRITE operation not permitted"}"#)
    }
    #expect(
      try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":3}}"#, zone: "_defaultZone", scope: .public)
        .records[0].code == nil)
    #expect(
      try await world.operate("create", "b", zone: "_defaultZone", user: "_bob", scope: .public).records[0].code == nil)
    #expect(try await world.lookUp(["a"], scope: .public).status == 404)
    #expect(
      try await world.post(
        "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":"X"}}]}"#, scope: .public
      ).status == 400)
    #expect(try await world.post("changes/database", "{}", scope: .public).status == 400)
  }

  // MARK: Schema

  @Test func `T-S07 development learns types and fields from what is saved`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate(
      "create", "a", type: "Task",
      fields: #"{"due":{"value":1,"type":"TIMESTAMP"},"tags":{"value":[],"type":"STRING_LIST"}}"#)
    let later = try await world.operate(
      "create", "b", type: "Task", fields: #"{"due":{"value":2},"tags":{"value":["x"]}}"#
    ).records[0]
    #expect(
      later["fields"]?.text == #"{"due":{"value":2,"type":"TIMESTAMP"},"tags":{"value":["x"],"type":"STRING_LIST"}}"#)
    let schema = try await world.schemas.schema(of: RecordPlaneWorld.container, .development)
    #expect(
      schema.schemaIndex.fields(of: "Task") == [
        "due": .init(type: .timestamp, isEncrypted: false), "tags": .init(type: .stringList, isEncrypted: false),
      ])
    let refused = try await world.operate(
      "create", "c", type: "Task", fields: #"{"due":{"value":"soon","type":"STRING"}}"#)
    #expect(refused.records[0].reason == "Task.due: invalid attempt to set value type STRING, defined to be TIMESTAMP")
  }

  @Test func `the first of two types in one request decides`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "records/modify",
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Task","recordName":"a",\#
      "fields":{"x":{"value":1}}}},{"operationType":"create","record":{"recordType":"Task","recordName":"b",\#
      "fields":{"x":{"value":"one"}}}}],"zoneID":{"zoneName":"Trips"},"atomic":false}
      """#
    )
    #expect(reply.records.map(\.reason) == [nil, "Task.x: INT64 must be an integer of 64 bits"])
  }

  @Test func `T-L01 a record type has at most 256 fields`() async throws {
    let fields = (0..<255).map { Schema.Field(name: "f\($0)", type: .int64) }
    let world = try await RecordPlaneWorld.inMemory(
      schema: Schema(recordTypes: [Schema.RecordType(name: "Note", fields: fields, grants: [])]))
    try await world.makeZone()
    let refused = try await world.operate("create", "a", fields: #"{"x":{"value":1},"y":{"value":1}}"#)
    #expect(refused.records[0].reason == "record type 'Note' would have 257 fields, the limit is 256")
    #expect(try await world.operate("create", "a", fields: #"{"x":{"value":1}}"#).records[0].code == nil)
    #expect(try await world.operate("create", "b", fields: #"{"y":{"value":1}}"#).records[0].code == "BAD_REQUEST")
    #expect(
      try await world.operate("create", "c", fields: #"{"x":{"value":1},"f0":{"value":1}}"#).records[0].code == nil)
  }

  @Test(arguments: [
    ("Task", #"{"n":{"value":1}}"#, "Cannot create new type Task in production schema"),
    ("Task", "{}", "Cannot create new type Task in production schema"),
    ("Note", #"{"m":{"value":1}}"#, "Cannot create or modify field 'm' in record 'Note' in production schema"),
  ])
  func `T-S05 T-S06 production refuses what its schema lacks, and the batch with it`(
    type: String, fields: String, reason: String
  ) async throws {
    let schema = Schema(recordTypes: [
      Schema.RecordType(name: "Note", fields: [Schema.Field(name: "n", type: .int64)], grants: [])
    ])
    let world = try await RecordPlaneWorld.inMemory(schema: schema)
    let made = try await world.send(
      world.request("zones/modify", environment: .production),
      #"{"operations":[{"operationType":"create","zone":{"zoneID":"Trips"}}]}"#)
    try #require(made.status == 200)
    let reply = try await world.send(
      world.request("records/modify", environment: .production),
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"\#(type)","recordName":"a",\#
      "fields":\#(fields)}},{"operationType":"create","record":{"recordType":"Note","recordName":"b",\#
      "fields":{"n":{"value":1},"gone":{"value":null}}}}],"zoneID":{"zoneName":"Trips"}}
      """#
    )
    #expect(reply.status == 400)
    #expect(reply.records.map(\.code) == ["BAD_REQUEST", "ATOMIC_ERROR"])
    #expect(reply.records[0].reason == reason)
  }

  @Test func `an update without a type is read with the record's own`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let tag = try await world.operate("create", "a", fields: #"{"at":{"value":1,"type":"TIMESTAMP"}}"#).records[0].tag
    let updated = try await world.operate("update", "a", tag: tag, type: nil, fields: #"{"at":{"value":2}}"#).records[0]
    #expect(updated["fields"]?.text == #"{"at":{"value":2,"type":"TIMESTAMP"}}"#)
    #expect(
      try await world.operate("forceUpdate", "new", type: nil, fields: #"{"at":{"value":2}}"#).records[0].reason
        == "recordType is missing for the new record 'new'")
    #expect(
      try await world.operate("forceUpdate", "a", type: "Task").records[0].reason
        == "record 'a' is of type Note, not Task")
  }

  @Test func `a record of 1 MB and a byte is refused, also when it grows by an update`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let half = String(repeating: "x", count: 500_000)
    #expect(try await world.operate("create", "a", fields: #"{"a":{"value":"\#(half)"}}"#).records[0].code == nil)
    let refused = try await world.operate("forceUpdate", "a", fields: #"{"b":{"value":"\#(half)"}}"#).records[0]
    #expect(refused.code == "QUOTA_EXCEEDED")
    #expect(refused.reason == "record 'a' has 1000002 bytes, the limit is 1000000")
    #expect(try await world.lookUp(["a"]).records[0].value("b") == nil)
  }
}
