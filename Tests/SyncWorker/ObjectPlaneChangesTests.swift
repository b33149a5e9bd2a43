// Import batches: convergence, echoes, paging, tokens, events.

import History
import JSON
import Mirroring
import ObjectModel

@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing
@testable import WorkerHost
@testable import ZoneCommit

private func insertTag(_ id: String, _ name: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

private func updateTag(_ id: String, _ name: String) -> String {
  #"{"changeType":"update","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name)"}}"#
}

/// A short text for each change, for assertions.
private func texts(_ changes: [JSONValue]) -> [String] {
  changes.map { "\($0["changeType"]?.string ?? "") \($0["objectID"]?.string ?? $0["reason"]?.string ?? "")" }
}

@Test(arguments: StoreKind.allCases) func `a change of every kind says what the mirror API promises`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let b = try await Device("B", world)
    try await world.setUp("A")
    try await world.save(
      "A",
      #"""
      {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes",\#
      "taken":"2026-11-20T07:33:24.123Z","price":"12.50","ratio":1.5,"isFavorite":true,"place":{"city":"Ulm"},\#
      "uuid":"0b1c2d3e-4f50-4678-9abc-def012345678"},"relationships":{"tags":["T"]}}
      """#
    )
    try await world.save("A", insertTag("T", "desert"))
    let changes = try await b.pull()
    #expect(texts(changes) == ["save P", "link P", "save T"])
    let photo = try #require(changes.first)
    #expect(photo["entity"]?.string == "Photo")
    #expect(
      photo["zoneID"]?["zoneName"]?.string == "com.apple.coredata.cloudkit.zone"
        && photo["zoneID"]?["ownerRecordName"]?.string == "_alice")
    #expect(photo["recordChangeTag"]?.string?.isEmpty == false)
    #expect(photo["modified"]?["userRecordName"]?.string == "_alice" && photo["modified"]?["deviceID"]?.string == "A")
    let graph = b.graph.objects["P"]
    #expect(
      graph == [
        "entity": "Photo", "displayName": #""Dunes""#, "taken": #""2026-11-20T07:33:24.123Z""#, "price": #""12.5""#,
        "ratio": "1.5", "isFavorite": "true",
        "place": #"{"city":"Ulm"}"#, "uuid": #""0B1C2D3E-4F50-4678-9ABC-DEF012345678""#, "views": "0",
        "photoData": "null",
      ])
    #expect(b.graph.links == ["Photo.tags P→T"])
    try await world.save(
      "A",
      #"""
      {"changeType":"update","entity":"Photo","objectID":"P","relationships":{"tags":{"remove":["T"]}}},\#
      {"changeType":"delete","entity":"Tag","objectID":"T"}
      """#,
      query: ["wait": "export"])
    let next = try await b.pull()
    #expect(texts(next) == ["delete T", "unlink P"])
    #expect(next.first?["entity"]?.string == "Tag")
    #expect(b.graph.links.isEmpty && b.graph.objects.keys.sorted() == ["P"])
  }
}

@Test(arguments: StoreKind.allCases)
func `two stores that edit the same objects converge over 20 rounds and never hear an echo`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    let b = try await Device("B", world)
    try await world.save(
      "A",
      insertTag("T", "0") + ","
        + #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"tags":["T"]}}"#)
    #expect(try await a.pull().isEmpty)
    try await b.pull()
    for round in 1...20 {
      try await world.save("A", updateTag("T", "a\(round)"))
      try await world.save(
        "B", #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"views":\#(round)}}"#,
        query: ["wait": "export"])
      #expect(texts(try await a.pull()) == ["save P"])
      #expect(texts(try await b.pull()) == ["save T"])
      #expect(try await a.pull().isEmpty)
      #expect(try await b.pull().isEmpty)
      #expect(a.graph.objects["P"]?["views"] == "\(round)")
      #expect(b.graph.objects["T"]?["name"] == "\"a\(round)\"")
    }
    let database = world.request("GET", "stores/A").database
    let before = try await world.store.read { try $0.database(database)?.sequence }
    for store in ["A", "B"] {
      for cycle in 0..<20 {
        try await world.save(
          store, insertTag("import\(cycle)", "x"), author: "NSCloudKitMirroringDelegate.import",
          query: ["wait": "export"])
      }
      #expect(try await world.get("\(store)/events", ["type": "export"]).json["events"]?.count ?? 0 <= 21)
    }
    #expect(
      try await world.store.read { try $0.database(database)?.sequence } == before, "T-H04 imports are never exported")
    let fresh = try await Device("C", world)
    try await fresh.pull()
    #expect(fresh.graph.objects["T"] == b.graph.objects["T"])
    #expect(fresh.graph.objects["P"] == a.graph.objects["P"])
    #expect(fresh.graph.links == b.graph.links)
  }
}

@Test func `a store that edits an object before importing it still gets the rest of it`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    let b = try await Device("B", world)
    try await world.save(
      "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"x","views":1}}"#)
    try await b.pull()
    try await world.save("B", #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"views":2}}"#)
    try await world.save(
      "A", #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"displayName":"y"}}"#)
    #expect(texts(try await a.pull()) == ["save P"])
    #expect(a.graph.objects["P"]?["views"] == "2" && a.graph.objects["P"]?["displayName"] == "\"y\"")
    #expect(texts(try await b.pull()) == ["save P"])
    #expect(a.graph == b.graph)
  }
}

@Test func `others' changes are not lost when the store's own export moves a record between two pages`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    try await world.setUp("B")
    for id in ["1", "2", "3"] { try await world.save("A", insertTag(id, "0")) }
    try await a.pull()
    for id in ["1", "2", "3"] { try await world.save("B", updateTag(id, "b")) }
    // Between A's first page and its second, its own edit moves record 1 behind the page's end.
    try await world.save(
      "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"tags":["1"]}}"#)
    #expect(texts(try await a.page(limit: 1)["changes"]?.elements ?? []) == ["save 1"])
    try await world.save("B", updateTag("1", "b2"))
    try await world.save(
      "A",
      #"{"changeType":"update","entity":"Tag","objectID":"1","relationships":{"photos":[]}},\#(updateTag("3", "a"))"#)
    try await a.pull(limit: 1)
    #expect(["1", "2", "3"].map { a.graph.objects[$0]?["name"] } == ["\"b2\"", "\"b\"", "\"a\""])
    #expect(try await a.pull().isEmpty)
  }
}

@Test(arguments: StoreKind.allCases) func `T-I04 pages of any size deliver everything, also what changes meanwhile`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let b = try await Device("B", world)
    try await world.setUp("A")
    try await world.save("A", (0..<25).map { insertTag("T\($0)", "0") }.joined(separator: ","))
    var pages = 0
    while true {
      let page = try await b.page(limit: 4)
      pages += 1
      #expect(page["changes"]?.count ?? 0 <= 4)
      #expect(page["caughtUp"]?.bool != page["moreComing"]?.bool)
      if pages == 2 { try await world.save("A", updateTag("T0", "again") + "," + insertTag("late", "1")) }
      if page["moreComing"]?.bool == false { break }
    }
    #expect(b.graph.objects.count == 26)
    #expect(b.graph.objects["T0"]?["name"] == #""again""#)
    #expect(pages == 7)
    let idle = try await b.page(query: ["wait": "30"])
    #expect(idle["changes"]?.count == 0 && idle["caughtUp"]?.bool == true && idle["importToken"]?.string == b.token)
  }
}

@Test func `a page may be waited for only when it would be empty`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    try await world.setUp("A")
    try await world.setUp("B")
    func mayWait(_ query: [String: String]) async throws -> Bool {
      try await world.plane.respond(
        to: world.request("GET", "stores/B/changes", query: query), body: [], in: world.store, startNext: {}
      ).mayWait
    }
    #expect(try await mayWait(["wait": "60"]))
    #expect(try await mayWait(["wait": "0"]) == false)
    #expect(try await mayWait([:]) == false)
    try await world.save("A", insertTag("T", "x"))
    #expect(try await mayWait(["wait": "60"]) == false)
  }
}

@Test func `T-I01 an import has one event however many pages it takes, and polls without news have none`() async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let b = try await Device("B", world)
    try await world.setUp("A")
    #expect(try await world.get("B/status").json["initialImport"]?["done"]?.bool == false)
    #expect(try await b.page()["initialImport"]?["done"]?.bool == true)
    try await b.pull()
    let first = try await world.get("B/events", ["type": "import"]).json
    #expect(
      first["events"]?.elements.map { $0["counts"]?["saved"]?.int64 } == [0],
      "the first import has an event, though there was nothing")
    #expect(try await world.get("B/status").json["initialImport"]?["done"]?.bool == true)
    let since = ["type": "import", "after": try #require(first["lastEvent"]?.string)]
    try await world.save("A", (0..<10).map { insertTag("T\($0)", "0") }.joined(separator: ","))
    _ = try await b.page(limit: 3)
    let begun = try #require(try await world.get("B/events", since).json["events"]?.elements)
    #expect(begun.map { $0["endDate"]?.isNull } == [true])
    try await b.pull(limit: 3)
    let ended = try #require(try await world.get("B/events", since).json["events"]?.elements)
    #expect(ended.count == 1)
    #expect(ended[0]["identifier"]?.string == begun[0]["identifier"]?.string)
    #expect(ended[0]["endDate"]?.string != nil && ended[0]["succeeded"]?.bool == true)
    #expect(ended[0]["counts"]?["saved"]?.int64 == 10)
    let status = try await world.get("B/status").json
    #expect(status["lastImport"]?["identifier"]?.string == ended[0]["identifier"]?.string)
    #expect(status["caughtUp"]?.bool == true && status["pendingUploads"]?.int64 == 0)
    try await world.save("A", insertTag("news", "1"), query: ["wait": "export"])
    #expect(try await world.get("B/status").json["caughtUp"]?.bool == false)
    #expect(try await world.get("A/status").json["caughtUp"]?.bool == true, "its own changes are no news")
  }
}

@Test(arguments: StoreKind.allCases) func `tokens that are not this store's are refused in the words clients look for`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T", "x"))
    let good = try #require(try await world.get("A/changes").json["importToken"]?.string)
    let history = try #require(try await world.get("A/history").json["historyToken"]?.string)
    try await world.setUp("M", user: "_mallory")
    try await world.save("M", insertTag("T", "x"), user: "_mallory")
    let foreign = try #require(try await world.get("M/changes", user: "_mallory").json["importToken"]?.string)
    for (token, reason) in [
      ("not base64!", "Unknown sync continuation type"), (history, "Unknown sync continuation type"),
      (foreign, "Unknown sync continuation type"),
      (String(good.prefix(40)), "Invalid continuation format"),
      (String(good.dropLast(8)) + "AAAAAAA=", "Invalid continuation format"),
    ] {
      let reply = try await world.get("A/changes", ["after": token])
      #expect(
        reply.status == (token == foreign ? 410 : 400) && reply.code == "BAD_REQUEST" && reply.reason == reason,
        "\(token)")
      if token == foreign { #expect(reply.json["ckErrorCode"]?.int64 == 21 && reply.json["recovery"]?.int64 == 294) }
    }
    #expect(try await world.get("A/changes", ["after": good]).status == 200)
    #expect(try await world.get("A/changes", ["after": ""]).status == 200)
  }
}

@Test func `a zone that was deleted, or made anew, is told once to those who knew it`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let a = try await Device("A", world)
    try await world.save("A", insertTag("T", "x"))
    try await a.pull()
    func deleteZone() async throws {
      let request = DatabaseRequest(
        plane: .record, method: "POST", path: ["zones", "modify"], query: [:],
        database: world.request("GET", "stores/A").database, scope: .private,
        caller: Caller(userRecordName: "_alice"), requestID: world.random.uuid(), baseURL: "https://host")
      let body =
        #"""
        {"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"}}}]}
        """#
      _ = try await world.records.respond(to: request, body: Array(body.utf8), in: world.store, startNext: {})
    }
    try await deleteZone()
    let changes = try await a.pull()
    #expect(texts(changes) == ["zone deleted"])
    #expect(changes.first?["zoneID"]?["zoneName"]?.string == "com.apple.coredata.cloudkit.zone")
    #expect(try await a.pull().isEmpty)
    try await world.save("A", insertTag("T", "x"), query: ["wait": "export"])
    #expect(try await a.pull().isEmpty, "the zone was made again for the store's own save")
    try await deleteZone()
    try await world.setUp("B")
    try await world.save("B", insertTag("U", "y"), query: ["wait": "export"])
    #expect(texts(try await a.pull()) == ["zone deleted", "save U"])
    try await deleteZone()
    try await world.save("A", insertTag("V", "z"), query: ["wait": "export"])
    #expect(
      texts(try await a.pull()) == ["zone deleted", "save V"],
      "what the store saved before it knew is not lost with the zone")
    #expect(try await a.pull().isEmpty)
    try await deleteZone()
    try await world.save("B", insertTag("U", "y"), query: ["wait": "export"])
    try await a.pull()
    let fresh = try await Device("C", world)
    #expect(texts(try await fresh.pull()) == ["save U"])
  }
}

@Test func `R10 a record that does not fit the model is reported, and the others arrive`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let b = try await Device("B", world)
    try await world.setUp("A")
    try await world.save("A", insertTag("T", "x") + "," + insertTag("U", "y"), query: ["wait": "export"])
    let database = world.request("GET", "stores/A").database
    let schema = try await world.schemas.schema(of: ObjectPlaneWorld.container, .development)
    try await world.store.enqueue { store in
      guard let row = try store.database(database),
        let zone = try store.zone(named: ReservedName.privateMirrorZone, in: row.key),
        let stored = try store.record(named: "T", in: zone.key)
      else { return }
      var record = stored.record
      record.fields["CD_name"] = Field(.int64(5))
      _ = try world.plane.context.writer(to: zone, schema, in: store).save(
        record, replacing: stored)
    }.value
    let page = try await b.page()
    #expect(texts(page["changes"]?.elements ?? []) == ["save U"])
    #expect(page["quarantined"]?.elements.map { $0["objectID"]?.string } == ["T"])
    #expect(page["quarantined"]?.elements.first?["reason"]?.string?.hasPrefix("Tag.name ") == true)
    let event = try #require(try await world.get("B/events", ["type": "import"]).json["events"]?.elements.last)
    #expect(event["succeeded"]?.bool == false && event["error"]?["partialErrors"]?.count == 1)
  }
}

@Test(arguments: StoreKind.allCases)
func `the database's other writers are heard: a record of the record plane is an object`(_ kind: StoreKind) async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    let request = DatabaseRequest(
      plane: .record, method: "POST", path: ["records", "modify"], query: [:],
      database: world.request("GET", "stores/A").database, scope: .private,
      caller: Caller(userRecordName: "_alice"), requestID: "1", baseURL: "https://host")
    let body =
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"CD_Tag","recordName":"web",\#
      "fields":{"CD_entityName":{"value":"Tag"},"CD_name":{"value":"w"}}}}],\#
      "zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone"}}
      """#
    _ = try await world.records.respond(to: request, body: Array(body.utf8), in: world.store, startNext: {})
    #expect(texts(try await a.pull()) == ["save web"])
    #expect(a.graph.objects["web"]?["name"] == "\"w\"")
  }
}
