import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import SyncWorker

@Suite struct `records/modify and records/lookup` {
  static let zoneJSON = #"{"zoneName":"Trips","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"}"#

  @Test func `a created record is answered, looked up and stamped alike`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let created = try await world.operate("create", "a", fields: #"{"title":{"value":"A"},"n":{"value":7}}"#)
    #expect(
      created.text
        == #"{"records":[{"recordName":"a","recordType":"Note","fields":{"n":{"value":7,"type":"INT64"},"title":{"value":"A","type":"STRING"}},"#
        + #""pluginFields":{},"recordChangeTag":"2","created":{"timestamp":1700000000000,"userRecordName":"_alice","deviceID":"1"},"#
        + #""modified":{"timestamp":1700000000000,"userRecordName":"_alice","deviceID":"1"},"deleted":false,"zoneID":\#(Self.zoneJSON)}]}"#)
    #expect(try await world.lookUp(["a"]).records[0].text == created.records[0].text)
  }

  @Test func `merging and replacing keep and drop fields, and keep who created the record`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let tag = try #require(try await world.operate("create", "a", fields: #"{"title":{"value":"A"},"n":{"value":7}}"#).records[0].tag)
    world.clock.advance(by: 5)
    let updated = try await world.operate("update", "a", tag: tag, fields: #"{"n":{"value":null},"m":{"value":1}}"#).records[0]
    #expect(updated["fields"]?.text == #"{"m":{"value":1,"type":"INT64"},"title":{"value":"A","type":"STRING"}}"#)
    #expect(updated["created"]?["timestamp"]?.int64 == 1_700_000_000_000 && updated["modified"]?["timestamp"]?.int64 == 1_700_000_000_005)
    let replaced = try await world.operate("forceReplace", "a", fields: #"{"k":{"value":2}}"#).records[0]
    #expect(replaced["fields"]?.text == #"{"k":{"value":2,"type":"INT64"}}"#)
    #expect(replaced["created"]?["timestamp"]?.int64 == 1_700_000_000_000)
  }

  @Test func `a deleted record is gone, may be made again, and its tag is stale`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let tag = try #require(try await world.operate("create", "a", fields: #"{"n":{"value":1}}"#).records[0].tag)
    #expect(try await world.operate("delete", "a", tag: tag).text == #"{"records":[{"recordName":"a","deleted":true}]}"#)
    #expect(try await world.lookUp(["a"]).text == #"{"records":[{"recordName":"a","serverErrorCode":"NOT_FOUND","reason":"Record not found"}]}"#)
    #expect(try await world.operate("delete", "a", tag: tag).records[0].code == "NOT_FOUND")
    #expect(try await world.operate("update", "a", tag: tag).records[0].code == "NOT_FOUND")
    #expect(try await world.operate("forceDelete", "a").text == #"{"records":[{"recordName":"a","deleted":true}]}"#)
    let again = try await world.operate("create", "a", fields: #"{"m":{"value":2}}"#).records[0]
    #expect(again["fields"]?.text == #"{"m":{"value":2,"type":"INT64"}}"#)
    #expect(try await world.operate("update", "a", tag: tag).records[0].reason == "client oplock error updating record")
  }

  @Test(
    arguments: [
      ("create", nil, "CONFLICT", "record to insert already exists"),
      ("update", "zz", "CONFLICT", "client oplock error updating record"),
      ("update", nil, "CONFLICT", "record to update already exists with a different change tag"),
      ("update", "not a tag", "CONFLICT", "record to update already exists with a different change tag"),
      ("delete", "zz", "CONFLICT", "client oplock error updating record"),
      ("replace", nil, "CONFLICT", "record to update already exists with a different change tag"),
    ] as [(String, String?, String, String)])
  func `a failure is an item of a 200 without a uuid`(kind: String, tag: String?, code: String, reason: String) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    let reply = try await world.operate(kind, "a", tag: tag)
    #expect(reply.status == 200)
    #expect(reply.text == #"{"records":[{"recordName":"a","serverErrorCode":"\#(code)","reason":"\#(reason)"}]}"#)
  }

  // MARK: Atomicity

  static let mixed = #"""
    {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"new","fields":{"n":{"value":1}}}},
                   {"operationType":"create","record":{"recordType":"Note","recordName":"old"}},
                   {"operationType":"forceUpdate","record":{"recordType":"Note","recordName":"_bad"}}],
     "zoneID":{"zoneName":"Trips"}ATOMIC}
    """#

  @Test(arguments: ["", #","atomic":true"#])
  func `T-L03 an atomic batch with a culprit stores nothing, and names siblings`(atomic: String) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "old")
    let token = try await world.changes(since: nil)["syncToken"]?.string
    _ = world.changes.take()
    let request = world.request("records/modify", requestID: "_alice:R1")
    let reply = try await world.send(request, Self.mixed.replacing("ATOMIC", with: atomic))
    #expect(reply.status == 400)
    #expect(
      reply.text
        == #"{"uuid":"R1","serverErrorCode":"ATOMIC_ERROR","reason":"Atomic failure","records":[{"recordName":"new","serverErrorCode":"ATOMIC_ERROR","reason":"Atomic failure"},"#
        + #"{"recordName":"old","serverErrorCode":"CONFLICT","reason":"record to insert already exists"},"#
        + #"{"recordName":"_bad","serverErrorCode":"BAD_REQUEST","reason":"recordName '_bad' starts with '_', which is reserved"}]}"#)
    #expect(try await world.lookUp(["new"]).records[0].code == "NOT_FOUND")
    #expect(try await world.changes(since: nil)["syncToken"]?.string == token)
    #expect(world.changes.take().isEmpty)
  }

  @Test func `T-L03 without atomicity results are independent and in order`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "old")
    let reply = try await world.post("records/modify", Self.mixed.replacing("ATOMIC", with: #","atomic":false"#))
    #expect(reply.status == 200)
    #expect(reply.records.map(\.name) == ["new", "old", "_bad"])
    #expect(reply.records.map(\.code) == [nil, "CONFLICT", "BAD_REQUEST"])
    #expect(try await world.lookUp(["new"]).records[0].code == nil)
  }

  @Test func `an atomic batch of one that fails is a 200 with an item`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "records/modify", #"{"operations":[{"operationType":"delete","record":{"recordName":"x"}}],"zoneID":{"zoneName":"Trips"},"atomic":true}"#)
    #expect(reply.status == 200)
    #expect(reply.text == #"{"records":[{"recordName":"x","serverErrorCode":"NOT_FOUND","reason":"Record not found"}]}"#)
  }

  @Test func `the default zone is never atomic, and refuses to be asked`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let body = Self.mixed.replacing(#""zoneID":{"zoneName":"Trips"}"#, with: #""zoneID":null"#)
    let refused = try await world.post("records/modify", body.replacing("ATOMIC", with: #","atomic":true"#))
    #expect(refused.status == 400 && refused.reason == "atomic operations not supported in default zone")
    let reply = try await world.post("records/modify", body.replacing("ATOMIC", with: ""))
    #expect(reply.records.map(\.code) == [nil, nil, "BAD_REQUEST"])
    #expect(reply.records[0]["zoneID"]?["zoneType"]?.string == "DEFAULT_ZONE")
  }

  @Test func `T-L02 the same record twice in a request is refused`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "records/modify",
      #"{"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a"}},{"operationType":"forceDelete","record":{"recordName":"a"}}],"zoneID":{"zoneName":"Trips"}}"#
    )
    #expect(reply.status == 400)
    #expect(reply.reason == "You can't save the same record twice")
    #expect(try await world.lookUp(["a"]).records[0].code == "NOT_FOUND")
  }

  // MARK: Zones and people

  @Test func `T-P19 a missing zone and another user's zone look alike`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    for body in [
      #"{"operations":[],"zoneID":{"zoneName":"Nowhere"}}"#, #"{"operations":[],"zoneID":{"zoneName":"Nowhere","ownerRecordName":"_alice"}}"#,
    ] {
      let reply = try await world.post("records/modify", body, user: "_bob")
      #expect(reply.status == 404)
      #expect(reply.code == "ZONE_NOT_FOUND")
      #expect(reply.reason == "Zone 'Nowhere' does not exist")
    }
    let foreign = try await world.post("records/lookup", #"{"records":[],"zoneID":{"zoneName":"Trips","ownerRecordName":"_alice"}}"#, user: "_bob")
    #expect(foreign.status == 404 && foreign.reason == "Zone 'Trips' does not exist")
    #expect(try await world.lookUp(["a"], user: "_bob").code == "ZONE_NOT_FOUND")
  }

  @Test(arguments: ["_defaultOwner", "__defaultOwner__", "_alice"])
  func `the caller's own names for himself mean his zone`(owner: String) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post("records/lookup", #"{"records":[{"recordName":"a"}],"zoneID":{"zoneName":"Trips","ownerRecordName":"\#(owner)"}}"#)
    #expect(reply.status == 200)
  }

  @Test func `private databases are their owners'`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    #expect(try await world.send(world.request("records/lookup", user: "_bob", owner: "_alice"), #"{"records":[]}"#).status == 403)
    #expect(try await world.send(world.request("records/lookup", user: nil, owner: "_alice"), #"{"records":[]}"#).status == 421)
  }

  @Test func `the shared database is empty`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    #expect(try await world.post("zones/list", "", scope: .shared).text == #"{"zones":[]}"#)
    #expect(try await world.lookUp(["a"], scope: .shared).code == "ZONE_NOT_FOUND")
    #expect(try await world.operate("create", "a", scope: .shared).status == 404)
    #expect(try await world.post("records/query", #"{"query":{"recordType":"Note"},"zoneWide":true}"#, scope: .shared).text == #"{"records":[]}"#)
    let feed = try await world.post("changes/database", "{}", scope: .shared)
    #expect(feed.zones.isEmpty && feed.moreComing == false)
    #expect(try await world.post("changes/database", #"{"syncToken":"\#(feed.syncToken ?? "")"}"#, scope: .shared).syncToken == feed.syncToken)
    let change = try await world.post("zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":"X"}}]}"#, scope: .shared)
    #expect(change.status == 400)
  }

  @Test func `T-P18 zones of the shared database can't be created or deleted there`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post("zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":"Trips"}}]}"#, scope: .shared)
    #expect(reply.code == "BAD_REQUEST")
    #expect(try await world.lookUp(["a"]).status == 200)
  }

  @Test func `everybody reads the public database, signed-in users create, creators write`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let created = try await world.operate("create", "a", fields: #"{"n":{"value":1}}"#, zone: "_defaultZone", scope: .public)
    #expect(created.records[0]["zoneID"]?["ownerRecordName"]?.string == "_defaultOwner")
    let anonymous = try await world.send(world.request("records/lookup", user: nil, scope: .public), #"{"records":[{"recordName":"a"}]}"#)
    #expect(anonymous.records[0].value("n")?.int64 == 1)
    #expect(try await world.send(world.request("records/modify", user: nil, scope: .public), #"{"operations":[]}"#).status == 421)
    for kind in ["forceUpdate", "forceReplace", "forceDelete"] {
      let reply = try await world.operate(kind, "a", fields: #"{"n":{"value":2}}"#, zone: "_defaultZone", user: "_bob", scope: .public)
      #expect(reply.records[0].text == #"{"recordName":"a","serverErrorCode":"ACCESS_DENIED","reason":"WRITE operation not permitted"}"#)
    }
    #expect(try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":3}}"#, zone: "_defaultZone", scope: .public).records[0].code == nil)
    #expect(try await world.operate("create", "b", zone: "_defaultZone", user: "_bob", scope: .public).records[0].code == nil)
    #expect(try await world.lookUp(["a"], scope: .public).status == 404)
    #expect(try await world.post("zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":"X"}}]}"#, scope: .public).status == 400)
    #expect(try await world.post("changes/database", "{}", scope: .public).status == 400)
  }

  // MARK: Schema

  @Test func `T-S07 development learns types and fields from what is saved`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a", type: "Task", fields: #"{"due":{"value":1,"type":"TIMESTAMP"},"tags":{"value":[],"type":"STRING_LIST"}}"#)
    let later = try await world.operate("create", "b", type: "Task", fields: #"{"due":{"value":2},"tags":{"value":["x"]}}"#).records[0]
    #expect(later["fields"]?.text == #"{"due":{"value":2,"type":"TIMESTAMP"},"tags":{"value":["x"],"type":"STRING_LIST"}}"#)
    let schema = try await world.schemas.schema(of: RecordPlaneWorld.container, .development)
    #expect(schema.schemaIndex.fields(of: "Task") == ["due": .init(type: .timestamp, isEncrypted: false), "tags": .init(type: .stringList, isEncrypted: false)])
    let refused = try await world.operate("create", "c", type: "Task", fields: #"{"due":{"value":"soon","type":"STRING"}}"#)
    #expect(refused.records[0].reason == "Task.due: invalid attempt to set value type STRING, defined to be TIMESTAMP")
  }

  @Test func `the first of two types in one request decides`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "records/modify",
      #"{"operations":[{"operationType":"create","record":{"recordType":"Task","recordName":"a","fields":{"x":{"value":1}}}},{"operationType":"create","record":{"recordType":"Task","recordName":"b","fields":{"x":{"value":"one"}}}}],"zoneID":{"zoneName":"Trips"},"atomic":false}"#
    )
    #expect(reply.records.map(\.reason) == [nil, "Task.x: INT64 must be an integer of 64 bits"])
  }

  @Test func `T-L01 a record type has at most 256 fields`() async throws {
    let fields = (0..<255).map { Schema.Field(name: "f\($0)", type: .int64) }
    let world = try await RecordPlaneWorld.inMemory(schema: Schema(recordTypes: [Schema.RecordType(name: "Note", fields: fields, grants: [])]))
    try await world.makeZone()
    let refused = try await world.operate("create", "a", fields: #"{"x":{"value":1},"y":{"value":1}}"#)
    #expect(refused.records[0].reason == "record type 'Note' would have 257 fields, the limit is 256")
    #expect(try await world.operate("create", "a", fields: #"{"x":{"value":1}}"#).records[0].code == nil)
    #expect(try await world.operate("create", "b", fields: #"{"y":{"value":1}}"#).records[0].code == "BAD_REQUEST")
    #expect(try await world.operate("create", "c", fields: #"{"x":{"value":1},"f0":{"value":1}}"#).records[0].code == nil)
  }

  @Test(arguments: [
    ("Task", #"{"n":{"value":1}}"#, "Cannot create new type Task in production schema"),
    ("Task", "{}", "Cannot create new type Task in production schema"),
    ("Note", #"{"m":{"value":1}}"#, "Cannot create or modify field 'm' in record 'Note' in production schema"),
  ])
  func `T-S05 T-S06 production refuses what its schema lacks, and the batch with it`(type: String, fields: String, reason: String) async throws {
    let schema = Schema(recordTypes: [Schema.RecordType(name: "Note", fields: [Schema.Field(name: "n", type: .int64)], grants: [])])
    let world = try await RecordPlaneWorld.inMemory(schema: schema)
    let made = try await world.send(
      world.request("zones/modify", environment: .production), #"{"operations":[{"operationType":"create","zone":{"zoneID":"Trips"}}]}"#)
    try #require(made.status == 200)
    let reply = try await world.send(
      world.request("records/modify", environment: .production),
      #"{"operations":[{"operationType":"create","record":{"recordType":"\#(type)","recordName":"a","fields":\#(fields)}},{"operationType":"create","record":{"recordType":"Note","recordName":"b","fields":{"n":{"value":1},"gone":{"value":null}}}}],"zoneID":{"zoneName":"Trips"}}"#
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
      try await world.operate("forceUpdate", "new", type: nil, fields: #"{"at":{"value":2}}"#).records[0].reason == "recordType is missing for the new record 'new'")
    #expect(try await world.operate("forceUpdate", "a", type: "Task").records[0].reason == "record 'a' is of type Note, not Task")
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

  // MARK: Repetition

  @Test func `a repeated request is answered alike and changes nothing`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "gone")
    _ = world.changes.take()
    let body = #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":1}}}},
                     {"operationType":"forceUpdate","record":{"recordType":"Note","recordName":"b","fields":{"n":{"value":2}}}},
                     {"operationType":"forceDelete","record":{"recordName":"gone"}},
                     {"operationType":"delete","record":{"recordName":"missing","recordChangeTag":"1"}}],
       "zoneID":{"zoneName":"Trips"},"atomic":false}
      """#
    let request = world.request("records/modify", requestID: "_alice:once")
    let first = try await world.send(request, body)
    #expect(world.changes.take().count == 1)
    world.clock.advance(by: 1000)
    let second = try await world.send(request, body)
    #expect(second.text == first.text)
    #expect(first.records.map(\.code) == [nil, nil, nil, "NOT_FOUND"])
    #expect(world.changes.take().isEmpty)
  }

  @Test func `a repetition after another's change keeps its own tag, so that the next save conflicts`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let first = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#, requestID: "x:1")
    _ = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":2},"m":{"value":3}}"#)
    let second = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#, requestID: "x:1")
    #expect(second.records[0].tag == first.records[0].tag)
    #expect(second.records[0].value("n")?.int64 == 1)
    #expect(try await world.operate("update", "a", tag: second.records[0].tag).records[0].code == "CONFLICT")
    #expect(try await world.lookUp(["a"]).records[0].value("n")?.int64 == 2)
    _ = try await world.operate("forceDelete", "a")
    let third = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#, requestID: "x:1")
    #expect(third.records[0].tag == first.records[0].tag)
    #expect(try await world.lookUp(["a"]).records[0].code == "NOT_FOUND")
  }

  @Test func `a request identifier is refused for another request, and free for other people`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a", requestID: "1")
    let other = try await world.operate("create", "b", requestID: "1")
    #expect(other.status == 400 && other.reason == "The request identifier was used for another request")
    #expect(try await world.operate("create", "a", zone: "_defaultZone", user: "_bob", requestID: "1").records[0].code == nil)
  }

  @Test func `what failed or had nothing to do is not done by a repetition either`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    #expect(try await world.operate("create", "a", fields: "{}", requestID: "1").records[0].code == "CONFLICT")
    _ = try await world.operate("forceDelete", "b", requestID: "2")
    let batch = Self.mixed.replacing("ATOMIC", with: "").replacing(#""old""#, with: #""a""#)
    let failed = try await world.send(world.request("records/modify", requestID: "3"), batch)
    _ = try await world.operate("forceDelete", "a")
    _ = try await world.operate("create", "b")
    #expect(try await world.operate("create", "a", fields: "{}", requestID: "1").records[0].code == "CONFLICT")
    #expect(try await world.operate("forceDelete", "b", requestID: "2").records[0]["deleted"]?.bool == true)
    #expect(try await world.send(world.request("records/modify", requestID: "3"), batch).text == failed.text)
    #expect(try await world.lookUp(["a", "b", "new"]).records.map(\.code) == ["NOT_FOUND", nil, "NOT_FOUND"])
  }

  @Test func `outcomes are forgotten after a day, in small steps`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let keys = (0..<400).map { "k:\($0)" }
    for key in keys { _ = try await world.operate("forceUpdate", "a", zone: "_defaultZone", requestID: key) }
    func remembered() async throws -> Int {
      try await world.store.read { snapshot in
        try keys.filter { key in
          let request = DatabaseRequest(
            plane: .record, method: "POST", path: ["records", "modify"], query: [:],
            database: DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_alice"), scope: .private,
            caller: Caller(userRecordName: "_alice"), requestID: key, baseURL: "")
          let body =
            #"{"operations":[{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"Note"}}],"zoneID":{"zoneName":"_defaultZone"},"atomic":false}"#
          return try IdempotencyKey(request: request, body: Array(body.utf8)).outcome(in: snapshot) != nil
        }.count
      }
    }
    #expect(try await remembered() == 400)
    world.clock.advance(by: 24 * 60 * 60 * 1000)
    for index in 0..<200 { _ = try await world.operate("forceUpdate", "a", zone: "_defaultZone", requestID: "early:\(index)") }
    #expect(try await remembered() == 400)
    world.clock.advance(by: 1)
    for index in 0..<1000 { _ = try await world.operate("forceUpdate", "a", zone: "_defaultZone", requestID: "late:\(index)") }
    #expect(try await remembered() == 0)
  }

  // MARK: Around the commit

  @Test func `every commit is published with the zone's token, to its owner`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    let published = world.changes.take()
    #expect(published.map(\.audience) == [["_alice"]])
    #expect(published.map(\.originStore) == [nil])
    #expect(published.first?.syncToken == (try await world.changes(since: nil)["syncToken"]?.string))
    _ = try await world.operate("create", "a")
    _ = try await world.operate("forceDelete", "none")
    #expect(world.changes.take().isEmpty)
    _ = try await world.operate("create", "p", zone: "_defaultZone", scope: .public)
    #expect(world.changes.take().map(\.audience) == [[]])
  }

  @Test func `getCurrentSyncToken adds the zone's token to modify, lookup and query`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let query = ["getCurrentSyncToken": "true"]
    let zone = #""zoneID":{"zoneName":"Trips"}"#
    let modified = try await world.post(
      "records/modify", #"{"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a"}}],\#(zone)}"#, query: query)
    let token = try #require(modified.syncToken)
    #expect(try await world.changes(since: token)["records"]?.count == 0)
    #expect(try await world.post("records/lookup", #"{"records":[],\#(zone)}"#, query: query).syncToken == token)
    #expect(try await world.post("records/query", #"{"query":{"recordType":"Note"},\#(zone)}"#, query: query).syncToken == token)
    #expect(try await world.post("records/lookup", #"{"records":[],\#(zone)}"#).syncToken == nil)
  }

  @Test func `the next request may start once this one has its place`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let calls = Atomic(0)
    _ = try await world.plane.respond(
      to: world.request("records/modify"), body: Array(#"{"operations":[{"operationType":"create","record":{"recordType":"Note"}}]}"#.utf8), in: world.store
    ) { calls.add(1, ordering: .relaxed) }
    #expect(calls.load(ordering: .relaxed) == 1)
  }

  @Test(arguments: [
    (StoreError.full("disk"), 503, "TRY_AGAIN_LATER"), (.overloaded(shard: 0), 503, "TRY_AGAIN_LATER"), (.corrupt("page"), 500, "INTERNAL_ERROR"),
    (.io("disk"), 500, "INTERNAL_ERROR"),
  ])
  func `a store that refuses is an error of the whole request, and nothing is published`(failure: StoreError, status: Int, code: String) async throws {
    let store = InMemoryRecordStore(shardCount: 1, commitFailure: { _ in failure })
    let world = RecordPlaneWorld(try await store.open(shard: 0))
    let reply = try await world.operate("create", "a", zone: "_defaultZone")
    #expect(reply.status == status)
    #expect(reply.code == code)
    #expect(world.changes.take().isEmpty)
  }

  @Test func `a shard that moved is told to the host`() async throws {
    let store = InMemoryRecordStore(shardCount: 1)
    let world = RecordPlaneWorld(try await store.open(shard: 0))
    let successor = store.takeOver(shard: 0)
    let request = world.request("records/modify")
    await #expect(throws: RecordError.shardMoved) {
      try await world.plane.respond(
        to: request, body: Array(#"{"operations":[{"operationType":"create","record":{"recordType":"Note"}}]}"#.utf8), in: world.store, startNext: {})
    }
    await successor.close()
  }

  @Test(arguments: [
    ("records/resolve", "POST", 404), ("records/copy/start", "POST", 400), ("records/zip/prepare", "POST", 400), ("", "POST", 404), ("records/modify", "GET", 405),
    ("zones/list", "DELETE", 405),
  ])
  func `what is no endpoint is refused`(path: String, method: String, status: Int) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    #expect(try await world.send(world.request(path, method: method)).status == status)
  }

  @Test func `an answer that grows too long shows only what the request sent`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let text = String(repeating: "x", count: 900_000)
    for name in ["a", "b", "c", "d", "e"] { _ = try await world.operate("create", name, fields: #"{"text":{"value":"\#(text)"}}"#) }
    let operations = ["a", "b", "c", "d", "e"].map { #"{"operationType":"forceUpdate","record":{"recordType":"Note","recordName":"\#($0)","fields":{"n":{"value":1}}}}"# }
    let reply = try await world.post("records/modify", #"{"operations":[\#(operations.joined(separator: ","))],"zoneID":{"zoneName":"Trips"}}"#)
    #expect(reply.records.map { $0["fields"]?.count } == [2, 2, 2, 2, 1])
    let found = try await world.lookUp(["a", "b", "c", "d", "e", "none"])
    #expect(found.records.map(\.code) == [nil, nil, nil, nil, "BAD_REQUEST", "BAD_REQUEST"])
  }
}
