import FixedClocks
import InMemoryRecordStore
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices
@testable import ZoneCommit

@Suite struct `records/modify and records/lookup` {
  static let zoneJSON = #"{"zoneName":"Trips","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"}"#

  @Test func `a created record is answered, looked up and stamped alike`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let created = try await world.operate("create", "a", fields: #"{"title":{"value":"A"},"n":{"value":7}}"#)
    #expect(
      created.text
        == #"""
        {"records":[{"recordName":"a","recordType":"Note","fields":{"n":{"value":7,"type":"INT64"},\#
        "title":{"value":"A","type":"STRING"}},"pluginFields":{},"recordChangeTag":"2",\#
        "created":{"timestamp":1700000000000,"userRecordName":"_alice","deviceID":"1"},\#
        "modified":{"timestamp":1700000000000,"userRecordName":"_alice","deviceID":"1"},"deleted":false,\#
        "zoneID":\#(Self.zoneJSON)}]}
        """#
    )
    #expect(try await world.lookUp(["a"]).records[0].text == created.records[0].text)
  }

  @Test func `a lookup has the bytes of the feed, whatever the order, and errors between them`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let names = ["a", "n 5_-.", "7B0A6C9E-3C0F-4F6B-9A66-0A4D1A0C7B11", String(repeating: "long", count: 40)]
    for (place, name) in names.enumerated() {
      let fields = [
        #"{"title":{"value":"A \" \\ € 😀"},"bytes":{"value":"AQIDBA==","type":"BYTES"}}"#,
        #"{"list":{"value":["x","y"],"type":"STRING_LIST"},"n":{"value":-7},"d":{"value":2.5}}"#, "{}",
        #"{"at":{"value":1700000000123,"type":"TIMESTAMP"},"to":{"value":{"recordName":"a"},"type":"REFERENCE"}}"#,
      ][place]
      #expect(try await world.operate("create", name, fields: fields).records[0].code == nil)
    }
    _ = try await world.operate("create", "gone", fields: "{}")
    _ = try await world.operate("forceDelete", "gone")
    let feed = try await world.post("changes/zone", #"{"zones":[{"zoneID":{"zoneName":"Trips"},"resultsLimit":4}]}"#)
    let start = try #require(feed.text.firstRange(of: #""records":["#)?.upperBound)
    let end = try #require(feed.text.firstRange(of: #"],"syncToken""#)?.lowerBound)
    #expect(try await world.lookUp(names).text == #"{"records":["# + feed.text[start..<end] + "]}")
    let missing = ["none", "gone"].map {
      #"{"recordName":"\#($0)","serverErrorCode":"NOT_FOUND","reason":"Record not found"}"#
    }
    let mixed = try await world.lookUp(["none", names[3], "gone", names[0], names[3]])
    let records = try await world.lookUp(names).records.map(\.text)
    #expect(mixed.records.map(\.text) == [missing[0], records[3], missing[1], records[0], records[3]])
  }

  @Test func `merging and replacing keep and drop fields, and keep who created the record`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let tag = try #require(
      try await world.operate("create", "a", fields: #"{"title":{"value":"A"},"n":{"value":7}}"#).records[0].tag)
    world.clock.advance(by: 5)
    let updated = try await world.operate("update", "a", tag: tag, fields: #"{"n":{"value":null},"m":{"value":1}}"#)
      .records[0]
    #expect(updated["fields"]?.text == #"{"m":{"value":1,"type":"INT64"},"title":{"value":"A","type":"STRING"}}"#)
    #expect(
      updated["created"]?["timestamp"]?.int64 == 1_700_000_000_000
        && updated["modified"]?["timestamp"]?.int64 == 1_700_000_000_005)
    let replaced = try await world.operate("forceReplace", "a", fields: #"{"k":{"value":2}}"#).records[0]
    #expect(replaced["fields"]?.text == #"{"k":{"value":2,"type":"INT64"}}"#)
    #expect(replaced["created"]?["timestamp"]?.int64 == 1_700_000_000_000)
  }

  @Test func `a deleted record is gone, may be made again, and its tag is stale`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let tag = try #require(try await world.operate("create", "a", fields: #"{"n":{"value":1}}"#).records[0].tag)
    #expect(
      try await world.operate("delete", "a", tag: tag).text == #"{"records":[{"recordName":"a","deleted":true}]}"#)
    #expect(
      try await world.lookUp(["a"]).text
        == #"{"records":[{"recordName":"a","serverErrorCode":"NOT_FOUND","reason":"Record not found"}]}"#)
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
  func `a failure is an item of a 200 without a uuid`(kind: String, tag: String?, code: String, reason: String)
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    let reply = try await world.operate(kind, "a", tag: tag)
    #expect(reply.status == 200)
    #expect(reply.text == #"{"records":[{"recordName":"a","serverErrorCode":"\#(code)","reason":"\#(reason)"}]}"#)
  }

  // MARK: Atomicity

  static let mixed = #"""
    {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"new",\#
    "fields":{"n":{"value":1}}}},
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
        == #"""
        {"uuid":"R1","serverErrorCode":"ATOMIC_ERROR","reason":"Atomic \#
        failure","records":[{"recordName":"new","serverErrorCode":"ATOMIC_ERROR","reason":"Atomic \#
        failure"},{"recordName":"old","serverErrorCode":"CONFLICT","reason":"record to insert already \#
        exists"},{"recordName":"_bad","serverErrorCode":"BAD_REQUEST","reason":"recordName '_bad' starts with '_', \#
        which is reserved"}]}
        """#
    )
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
      "records/modify",
      #"""
      {"operations":[{"operationType":"delete","record":{"recordName":"x"}}],"zoneID":{"zoneName":"Trips"},\#
      "atomic":true}
      """#
    )
    #expect(reply.status == 200)
    #expect(
      reply.text == #"{"records":[{"recordName":"x","serverErrorCode":"NOT_FOUND","reason":"Record not found"}]}"#)
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
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a"}},\#
      {"operationType":"forceDelete","record":{"recordName":"a"}}],"zoneID":{"zoneName":"Trips"}}
      """#
    )
    #expect(reply.status == 400)
    #expect(reply.reason == "You can't save the same record twice")
    #expect(try await world.lookUp(["a"]).records[0].code == "NOT_FOUND")
  }

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
      "records/modify",
      #"{"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a"}}],\#(zone)}"#,
      query: query)
    let token = try #require(modified.syncToken)
    #expect(try await world.changes(since: token)["records"]?.count == 0)
    #expect(try await world.post("records/lookup", #"{"records":[],\#(zone)}"#, query: query).syncToken == token)
    #expect(
      try await world.post("records/query", #"{"query":{"recordType":"Note"},\#(zone)}"#, query: query).syncToken
        == token)
    #expect(try await world.post("records/lookup", #"{"records":[],\#(zone)}"#).syncToken == nil)
  }

  @Test func `the next request may start once this one has its place`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let calls = Atomic(0)
    _ = try await world.plane.respond(
      to: world.request("records/modify"),
      body: Array(#"{"operations":[{"operationType":"create","record":{"recordType":"Note"}}]}"#.utf8), in: world.store
    ) { calls.add(1, ordering: .relaxed) }
    #expect(calls.load(ordering: .relaxed) == 1)
  }

  @Test(arguments: [
    (StoreError.full("disk"), 503, "TRY_AGAIN_LATER"), (.overloaded(shard: 0), 503, "TRY_AGAIN_LATER"),
    (.corrupt("page"), 500, "INTERNAL_ERROR"),
    (.io("disk"), 500, "INTERNAL_ERROR"),
  ])
  func `a store that refuses is an error of the whole request, and nothing is published`(
    failure: StoreError, status: Int, code: String
  ) async throws {
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
        to: request, body: Array(#"{"operations":[{"operationType":"create","record":{"recordType":"Note"}}]}"#.utf8),
        in: world.store, startNext: {})
    }
    await successor.close()
  }

  @Test(arguments: [
    ("records/resolve", "POST", 404), ("records/copy/start", "POST", 400), ("records/zip/prepare", "POST", 400),
    ("", "POST", 404), ("records/modify", "GET", 405),
    ("zones/list", "DELETE", 405),
  ])
  func `a path that is not an endpoint is refused`(path: String, method: String, status: Int) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    #expect(try await world.send(world.request(path, method: method)).status == status)
  }

  @Test func `an answer that grows too long shows only what the request sent`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let text = String(repeating: "x", count: 900_000)
    for name in ["a", "b", "c", "d", "e"] {
      _ = try await world.operate("create", name, fields: #"{"text":{"value":"\#(text)"}}"#)
    }
    let operations = ["a", "b", "c", "d", "e"].map {
      #"""
      {"operationType":"forceUpdate","record":{"recordType":"Note","recordName":"\#($0)","fields":{"n":{"value":1}}}}
      """#
    }
    let reply = try await world.post(
      "records/modify", #"{"operations":[\#(operations.joined(separator: ","))],"zoneID":{"zoneName":"Trips"}}"#)
    #expect(reply.records.map { $0["fields"]?.count } == [2, 2, 2, 2, 1])
    let found = try await world.lookUp(["a", "b", "c", "d", "e", "none"])
    #expect(found.records.map(\.code) == [nil, nil, nil, nil, "BAD_REQUEST", "BAD_REQUEST"])
  }
}
