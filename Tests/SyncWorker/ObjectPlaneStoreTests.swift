// Objects, permissions, reset, and every bad request.

import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing

@testable import WorkerHost

private func insertTag(_ id: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(id)"}}"#
}

// MARK: Looking at objects

@Test(arguments: StoreKind.allCases) func `an object shows its values, its sets, its record and its state`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save(
      "A",
      #"""
      {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes"},\#
      "relationships":{"tags":["T","U"],"ratings":["R"]}},{"changeType":"insert","entity":"Rating","objectID":"R"},\#
      \#(insertTag("T")),\#(insertTag("U"))
      """#,
      query: ["wait": "export"])
    let object = try await world.get("A/objects/P").json
    #expect(
      object["entity"]?.string == "Photo" && object["objectID"]?.string == "P" && object["syncState"]?.string == "clean"
    )
    #expect(object["attributes"]?["displayName"]?.string == "Dunes" && object["attributes"]?["views"]?.int64 == 0)
    #expect(object["relationships"]?["tags"]?.elements.map(\.string) == ["T", "U"])
    #expect(object["relationships"]?["ratings"]?.elements.map(\.string) == ["R"])
    #expect(object["relationships"]?["photoData"]?.isNull == true)
    #expect(
      object["record"]?["recordType"]?.string == "CD_Photo"
        && object["record"]?["fields"]?["CD_displayName"]?["value"]?.string == "Dunes")
    #expect(object["lastError"]?.isNull == true)
    for id in ["nobody", "T2"] { #expect(try await world.get("A/objects/\(id)").status == 404) }
    let records = try await world.send(world.request("POST", "stores/A/records"), #"{"objectIDs":["T","nobody","P"]}"#)
      .records
    #expect(
      records.map { $0["serverErrorCode"]?.string ?? $0["recordType"]?.string } == ["CD_Tag", "NOT_FOUND", "CD_Photo"])
    let permissions = try await world.send(
      world.request("POST", "stores/A/permissions"), #"{"objectIDs":["T","nobody"]}"#
    ).json
    #expect(permissions["canModify"]?.bool == true)
    #expect(permissions["objects"]?.elements.map { $0["canUpdate"]?.bool } == [true, true])
  }
}

@Test func `an object shows what is saved and not exported yet, and what an export had against it`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    let change = HistoryChange(
      changeType: .update, entity: "Tag", objectID: "T", attributes: [NamedValue(name: "name", value: .string("new"))])
    try await world.appendWithoutExport(
      [HistoryTransaction(transactionID: "x", timestamp: 0, changes: [change])], to: "A")
    let object = try await world.get("A/objects/T").json
    #expect(object["syncState"]?.string == "dirty" && object["attributes"]?["name"]?.string == "new")
    #expect(object["record"]?["fields"]?["CD_name"]?["value"]?.string == "T")
    try await world.save(
      "A", insertTag("U") + #",{"changeType":"update","entity":"Tag","objectID":"U","relationships":{"photos":["T"]}}"#,
      query: ["wait": "export"])
    let quarantined = try await world.get("A/objects/U").json
    #expect(quarantined["syncState"]?.string == "quarantined")
    #expect(quarantined["lastError"]?["reason"]?.string?.contains("Tag.photos") == true)
  }
}

// MARK: Other people, other databases

@Test(arguments: StoreKind.allCases)
func `another user's store, and another database's, look like one that does not exist`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.setUp("A-public", scope: .public)
    try await world.save("A", insertTag("T"))
    for (method, path) in [
      ("GET", "changes"), ("GET", "history"), ("GET", "events"), ("GET", "status"), ("GET", "objects/T"),
      ("POST", "transactions"), ("POST", "records"),
      ("POST", "permissions"), ("POST", "reset"), ("DELETE", "history"), ("DELETE", ""), ("GET", "shares"),
    ] {
      let body = method == "POST" ? #"{"transactions":[],"objectIDs":[]}"# : ""
      let token = SyncToken(.history, incarnation: 1, sequence: 0).text
      func reply(_ store: String, user: String, scope: DatabaseScope, owner: String? = nil) async throws -> PlaneReply {
        try await world.send(
          world.request(
            method, "stores/\(store)/\(path)", query: ["before": token], user: user, owner: owner, scope: scope), body)
      }
      let missing = try await reply("Z", user: "_mallory", scope: .private)
      #expect(missing.status == 404 && missing.code == "NOT_FOUND", "\(method) \(path)")
      for (store, user, scope, owner) in [
        ("A", "_mallory", DatabaseScope.private, "_alice"), ("A", "_mallory", .private, nil),
        ("A", "_alice", .shared, nil), ("A-public", "_mallory", .public, nil),
        ("A", "_alice", .public, nil),
      ] as [(String, String, DatabaseScope, String?)] {
        let foreign = try await reply(store, user: user, scope: scope, owner: owner)
        #expect(
          foreign.text == missing.text.replacing("store Z", with: "store \(store)"), "\(method) \(path) as \(user)")
      }
    }
    let stolen = try await world.send(
      world.request("PUT", "stores/A-public", user: "_mallory", scope: .public),
      #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#)
    #expect(stolen.status == 404)
    let twice = try await world.send(
      world.request("PUT", "stores/A", scope: .shared), #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#)
    #expect(twice.status == 409)
    #expect(try await world.liveRecords().map(\.recordName) == ["T"])
  }
}

@Test func `without a user nothing is answered`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    let reply = try await world.send(world.request("GET", "stores/A/changes", user: nil, owner: "_alice"))
    #expect(reply.status == 421 && reply.code == "AUTHENTICATION_REQUIRED")
  }
}

@Test func `T-E07 a store of the shared database takes no saves without a zone, and imports nothing`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("S", scope: .shared)
    let reply = try await world.save("S", insertTag("T"), scope: .shared)
    #expect(reply.status == 400 && reply.json["cocoaErrorCode"]?.int64 == 2988)
    let changes = try await world.get("S/changes", scope: .shared).json
    #expect(changes["changes"]?.count == 0 && changes["caughtUp"]?.bool == true)
    try await world.setUp("A")
    try await world.save("A", insertTag("T"))
    #expect(
      try await world.get("S/changes", ["after": try #require(changes["importToken"]?.string)], scope: .shared).json[
        "changes"]?.count == 0)
    #expect(try await world.get("S/shares", scope: .shared).text == #"{"shares":[]}"#)
    for path in ["shares", "accept", "purge"] {
      #expect(
        try await world.send(world.request("POST", "stores/S/\(path)", scope: .shared), "{}").status == 400, "\(path)")
    }
    let elsewhere = try await world.send(world.request("POST", "stores/A/accept"), #"{"shortGUIDs":[{"value":"0x"}]}"#)
    #expect(elsewhere.status == 400 && elsewhere.json["cocoaErrorCode"]?.int64 == 134091)
  }
}

@Test(arguments: StoreKind.allCases)
func `a store of the public database lives in its default zone, and objects belong to who made them`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A", user: "_alice", scope: .public)
    try await world.setUp("B", user: "_bob", scope: .public)
    try await world.save("A", insertTag("T"), query: ["wait": "export"], user: "_alice", scope: .public)
    let change = try #require(
      try await world.get("B/changes", user: "_bob", scope: .public).json["changes"]?.elements.first)
    #expect(change["objectID"]?.string == "T" && change["zoneID"]?["zoneName"]?.string == "_defaultZone")
    func canUpdate(_ store: String, _ user: String) async throws -> [Bool?] {
      let reply = try await world.send(
        world.request("POST", "stores/\(store)/permissions", user: user, scope: .public), #"{"objectIDs":["T","new"]}"#)
      return reply.json["objects"]?.elements.map { $0["canUpdate"]?.bool } ?? []
    }
    #expect(try await canUpdate("A", "_alice") == [true, true])
    #expect(try await canUpdate("B", "_bob") == [false, true])
  }
}

// MARK: Reset and removal

@Test(arguments: StoreKind.allCases)
func `a reset store is sent everything, its own records included, and its old history tokens have expired`(
  _ kind: StoreKind
)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    let a = try await Device("A", world)
    try await world.save("A", insertTag("T"))
    #expect(try await a.pull().isEmpty)
    let change = HistoryChange(changeType: .insert, entity: "Tag", objectID: "late")
    try await world.appendWithoutExport(
      [HistoryTransaction(transactionID: "x", timestamp: 0, changes: [change])], to: "A")
    let token = try #require(try await world.get("A/history").json["historyToken"]?.string)
    let reply = try await world.send(world.request("POST", "stores/A/reset"), #"{"reason":"HistoryExpired"}"#)
    #expect(reply.status == 200 && reply.json["importToken"]?.isNull == true)
    #expect(
      try await world.liveRecords().map(\.recordName) == ["T", "late"],
      "what was saved is exported before it is forgotten")
    let changes = try await world.get("A/changes").json["changes"]?.elements ?? []
    #expect(changes.map { $0["objectID"]?.string } == ["T", "late"])
    let expired = try await world.get("A/history", ["after": token])
    #expect(expired.status == 410 && expired.json["cocoaErrorCode"]?.int64 == 134301)
    try await world.save("A", insertTag("U"))
    #expect(try await world.liveRecords().count == 3)
  }
}

@Test(arguments: StoreKind.allCases) func `a forgotten store is gone, its records stay`(_ kind: StoreKind) async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"))
    let reply = try await world.send(world.request("DELETE", "stores/A"))
    #expect(reply.status == 200 && reply.text == "{}")
    #expect(try await world.get("A/status").status == 404)
    #expect(try await world.liveRecords().map(\.recordName) == ["T"])
    try await world.setUp("A")
    #expect(try await world.get("A/history").json["transactions"]?.count == 0)
  }
}

// MARK: Bad requests

private let badBodies: [(body: String, reason: String)] = [
  ("not json", "The body is not JSON"), ("[]", "must be a JSON object"), ("{}", "transactions must be an array"),
  (#"{"transactions":{}}"#, "transactions must be an array"),
  (#"{"transactions":[5]}"#, "transactions[0]"), (#"{"transactions":[{"changes":[]}]}"#, "transactionID"),
  (#"{"transactions":[{"transactionID":"","changes":[]}]}"#, "transactionID"),
  (#"{"transactions":[{"transactionID":"1"}]}"#, "changes"),
  (#"{"transactions":[{"transactionID":"1","timestamp":"yesterday","changes":[]}]}"#, "timestamp"),
  (String(repeating: "[", count: 70) + String(repeating: "]", count: 70), "The body is not JSON"),
  ("{\"transactions\":[],\"transactions\":[]}", "The body is not JSON"),
]

@Test(arguments: badBodies) func `a body that is no list of transactions is refused naming the place`(
  _ body: String, _ reason: String
) async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    try await world.setUp("A")
    let reply = try await world.send(world.request("POST", "stores/A/transactions"), body)
    #expect(reply.status == 400 && reply.code == "BAD_REQUEST")
    #expect(reply.reason?.contains(reason) == true, "\(reply.reason ?? "")")
    #expect(reply.json["uuid"]?.string != nil)
  }
}

@Test func `a body that is not UTF-8 is refused`() async throws {
  try await ObjectPlaneWorld.with(.memory) { world in
    try await world.setUp("A")
    let body: [UInt8] =
      Array(#"{"transactions":[{"transactionID":""#.utf8) + [0xff, 0xfe] + Array(#"","changes":[]}]}"#.utf8)
    await #expect(throws: RecordError.self) {
      try await world.plane.respond(
        to: world.request("POST", "stores/A/transactions"), body: body, in: world.store, startNext: {})
    }
  }
}

@Test(
  arguments: [
    ("GET", "stores/A/changes", ["limit": "0"], 400), ("GET", "stores/A/changes", ["limit": "many"], 400),
    ("GET", "stores/A/changes", ["wait": "-1"], 400),
    ("GET", "stores/A/history", ["limit": "-5"], 400), ("GET", "stores/A/history", ["after": "garbage"], 400),
    ("GET", "stores/A/events", ["type": "lunch"], 400),
    ("GET", "stores/A/events", ["after": "x"], 400), ("DELETE", "stores/A/history", [:], 400),
    ("DELETE", "stores/A/history", ["before": "AAAA"], 400),
    ("POST", "stores/A/transactions", ["wait": "lunch"], 400), ("POST", "stores/A/records", [:], 400),
    ("POST", "stores/A/permissions", [:], 400),
    ("PUT", "stores/A", [:], 400), ("GET", "stores/A/lunch", [:], 404), ("GET", "stores", [:], 404),
    ("GET", "lunch/A", [:], 404), ("POST", "stores/A/changes", [:], 405),
    ("GET", "stores/A", [:], 405), ("PUT", "stores/_A", [:], 404),
  ] as [(String, String, [String: String], Int)]) func `a request that makes no sense is refused and changes nothing`(
    _ method: String, _ path: String, _ query: [String: String], _ status: Int
  ) async throws
{
  try await ObjectPlaneWorld.with(.memory) { world in
    try await world.setUp("A")
    let before = try await world.store.read { try $0.counts() }
    let reply = try await world.send(world.request(method, path, query: query), "")
    #expect(reply.status == status, "\(reply.text)")
    #expect(reply.code == (status == 404 ? "NOT_FOUND" : "BAD_REQUEST"))
    #expect(try await world.store.read { try $0.counts() } == before)
  }
}

@Test func `events are read on from a number or an identifier`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    for id in ["1", "2", "3"] { try await world.save("A", insertTag(id), query: ["wait": "export"]) }
    let all = try await world.get("A/events").json
    let events = all["events"]?.elements ?? []
    #expect(events.map { $0["type"]?.string } == ["setup", "export", "export", "export"])
    let after =
      try await world.get("A/events", ["after": try #require(events[1]["identifier"]?.string)]).json["events"]?.elements
      ?? []
    #expect(after.map { $0["identifier"]?.string } == events.dropFirst(2).map { $0["identifier"]?.string })
    #expect(
      try await world.get("A/events", ["after": try #require(all["lastEvent"]?.string)]).json["events"]?.count == 0)
    #expect(try await world.get("A/events", ["limit": "2"]).json["moreComing"]?.bool == true)
  }
}

// MARK: Too many

@Test(arguments: StoreKind.allCases)
func `a user has so many stores of a database, and room again when one is forgotten`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind, storeLimit: 3) { world in
    for name in ["A", "B", "C"] { try await world.setUp(name) }
    func setUp(_ name: String, user: String = "_alice", scope: DatabaseScope = .private) async throws -> PlaneReply {
      try await world.send(
        world.request("PUT", "stores/\(name)", user: user, scope: scope),
        #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#)
    }
    let refused = try await setUp("D")
    #expect(refused.status == 413 && refused.code == "QUOTA_EXCEEDED", "\(refused.text)")
    #expect(
      refused.reason == "You have 3 stores of the database, which is the limit: DELETE those of devices that are gone")
    #expect(try await world.get("D/status").status == 404, "nothing of it is there")
    // A known store is set up again. Other users, and the same user in another database, have room of their own.
    #expect(try await setUp("A").status == 200)
    #expect(try await setUp("D", user: "_bob").status == 200)
    for name in ["A", "B", "C"] { #expect(try await setUp("\(name)-public", scope: .public).status == 200) }
    #expect(try await setUp("D-public", scope: .public).code == "QUOTA_EXCEEDED")
    #expect(try await setUp("E-public", user: "_bob", scope: .public).status == 200)
    #expect(try await world.send(world.request("DELETE", "stores/B")).status == 200)
    #expect(try await setUp("D").status == 200)
    #expect(try await setUp("B").code == "QUOTA_EXCEEDED")
  }
}
