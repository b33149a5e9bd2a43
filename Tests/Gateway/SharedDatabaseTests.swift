// Requests to the shared database: their recipients, and the merging of several answers.

import FixedClocks
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

@Suite struct SharedDatabaseTests {
  private static let path = "/database/1/\(GatewayWorld.container)/development/shared"

  /// Answers as an owner's worker would. The answer shows whom the worker was asked as.
  private static let owner: GatewayWorld.Worker = { worker, request, body in
    let json = try JSONValue.request(body)
    let owner = request.database.owner
    var output = JSONWriter()
    output.beginObject()
    switch request.route.path.joined(separator: "/") {
    case "zones/list":
      output.key("zones")
      output.raw(Array(#"[{"zoneID":{"zoneName":"Trips","ownerRecordName":"\#(owner)"}}]"#.utf8))
    case "zones/lookup", "changes/zone":
      output.array("zones", of: json["zones"]?.elements ?? []) { zone, output in
        output.beginObject()
        output.member("from", owner)
        output.member("zone", (zone["zoneID"] ?? zone)["zoneName"]?.string ?? "")
        if let limit = zone["resultsLimit"] ?? json["resultsLimit"] {
          output.key("limit")
          output.value(limit)
        }
        output.member("records", String(repeating: "x", count: owner.hasPrefix("_large") ? 1_000_000 : 0))
        output.endObject()
      }
    case "changes/database", "zones/changes":
      let token = json["syncToken"]?.string
      let since =
        try token.flatMap { $0.isEmpty ? nil : try SyncToken($0, as: .database).positions.first?.sequence } ?? 0
      let count = owner.hasPrefix("_many") ? 3 : 1
      let end = Int64(count) + 10
      output.array("zones", of: token == "" || since >= end ? 0..<0 : 0..<count) { number, output in
        output.beginObject()
        output.member("zone", "\(owner) \(number)")
        output.endObject()
      }
      output.member("syncToken", SyncToken(.database, incarnation: UInt64(owner.utf8.count), sequence: end).text)
      output.member("moreComing", false)
    default: output.member("from", owner)
    }
    output.endObject()
    return Answer(DatabaseRequest.Reply(status: 200), body: output.bytes)
  }

  private static func shared(_ names: [String], ended: [String] = []) -> [FetchSharedZones.Reply.Owner] {
    (names.map { ($0, true) } + ended.map { ($0, false) }).sorted { $0.0 < $1.0 }.map { name, isActive in
      .init(owner: name, zones: [.init(zoneName: "Trips", isActive: isActive, sequence: 1)])
    }
  }

  private func world(
    _ names: [String] = ["_ann", "_bea"], ended: [String] = [], timing: Timing = .system,
    _ worker: @escaping GatewayWorld.Worker = owner
  )
    async throws -> GatewayWorld
  {
    let world = try await GatewayWorld(workers: ["worker-1", "worker-2"], timing: timing, worker: worker)
    world.record.withLock { $0.sharedZones = Self.shared(names, ended: ended) }
    return world
  }

  private func asked(_ world: GatewayWorld) -> [String] {
    world.requests.map { "\($0.request.route.path.joined(separator: "/")) \($0.request.database.owner)" }
  }

  // MARK: One owner

  @Test(arguments: ["records/modify", "records/query", "records/lookup", "records/changes", "assets/rereference"])
  func `a request about one zone goes to its owner as it came`(call: String) async throws {
    let world = try await world()
    let body = #"{"zoneID":{"zoneName":"Trips","ownerRecordName":"_ann"},"operations":[ ],"spaces": "kept"}"#
    let response = await world.alice(
      .post, "\(Self.path)/\(call)", query: [("clientId", "phone")], headers: [("x-request-id", "r1")], body: body)
    #expect(response.status == 200 && response.text == #"{"from":"_ann"}"#)
    let found = try #require(world.requests.first)
    #expect(
      found.request.database.owner == "_ann" && found.request.scope == .shared
        && found.request.caller.userRecordName == "_alice")
    #expect(
      found.request.requestID == "_alice:r1" && found.request.query == ["clientId": "phone"]
        && found.body == Array(body.utf8))
    #expect(world.record.withLock(\.sharedZoneQuestions) == 0)
  }

  @Test(arguments: [
    "{}", #"{"zoneID":{"zoneName":"Trips"}}"#, #"{"zoneID":"Trips"}"#,
    #"{"zoneID":{"zoneName":"Trips","ownerRecordName":"_defaultOwner"}}"#,
    #"{"zoneID":{"zoneName":"Trips","ownerRecordName":"__public__"}}"#,
    #"{"zoneID":{"zoneName":"Trips","ownerRecordName":""}}"#,
    #"{"zoneID":{"zoneName":"Trips","ownerRecordName":"\#(String(repeating: "x", count: 256))"}}"#,
    #"{"zoneID":{"zoneName":"Trips","ownerRecordName":"_alice"}}"#,
  ])
  func `a request that names no other owner is refused by the caller's own worker`(body: String) async throws {
    let world = try await world()
    #expect(await world.alice(.post, "\(Self.path)/records/query", body: body).text == #"{"from":"_alice"}"#)
    #expect(world.requests.map(\.request.scope) == [.shared])
  }

  @Test func `T-P18 zones are not made here, whoever is named`() async throws {
    let world = try await world()
    let body =
      #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Trips","ownerRecordName":"_ann"}}}]}"#
    #expect(await world.alice(.post, "\(Self.path)/zones/modify", body: body).text == #"{"from":"_alice"}"#)
  }

  @Test func `a body without JSON, or without a zone, is refused without asking anybody`() async throws {
    let world = try await world()
    for (call, body) in [
      ("records/query", "{"), ("records/query", #"{"zoneID":7}"#), ("zones/lookup", "{}"),
      ("zones/lookup", #"{"zones":[7]}"#), ("changes/zone", #"{"zones":[{}]}"#),
      ("changes/database", #"{"resultsLimit":0}"#), ("changes/database", #"{"syncToken":"nonsense"}"#),
      ("subscriptions/lookup", "{}"),
    ] {
      let response = await world.alice(.post, "\(Self.path)/\(call)", body: body)
      #expect(response.status == 400, "\(call) \(body)")
      #expect(try response.code == "BAD_REQUEST")
    }
    #expect(world.requests.isEmpty)
    #expect(
      try await world.alice(.post, "\(Self.path)/changes/database", body: #"{"syncToken":"nonsense"}"#).json["reason"]?
        .string == "Unknown sync continuation type")
  }

  @Test func `the private database is asked of nobody else`() async throws {
    let world = try await world()
    #expect(
      await world.alice(
        .post, "\(GatewayWorld.records)/records/query", body: #"{"zoneID":{"zoneName":"T","ownerRecordName":"_ann"}}"#
      ).text == #"{"from":"_alice"}"#)
  }

  // MARK: Several owners

  @Test func `zones are listed over all owners who share now`() async throws {
    let world = try await world(["_ann", "_bea"], ended: ["_cem"])
    for method in [HTTPMethod.get, .post] {
      let response = await world.alice(method, "\(Self.path)/zones/list")
      #expect(
        response.text
          == #"""
          {"zones":[{"zoneID":{"zoneName":"Trips","ownerRecordName":"_ann"}},{"zoneID":{"zoneName":"Trips",\#
          "ownerRecordName":"_bea"}}]}
          """#
      )
    }
    #expect(Set(world.requests.map(\.request.route.method)) == ["GET", "POST"])
  }

  @Test func `nobody shares with somebody new, and he is told so`() async throws {
    let world = try await world([])
    #expect(await world.alice(.post, "\(Self.path)/zones/list").text == #"{"zones":[]}"#)
    let feed = try await world.alice(.post, "\(Self.path)/changes/database").json
    #expect(feed["zones"]?.count == 0 && feed["moreComing"]?.bool == false)
    #expect(try SharedFeedToken(try #require(feed["syncToken"]?.string)) == SharedFeedToken())
    #expect(world.requests.isEmpty)
  }

  @Test(arguments: ["zones/lookup", "changes/zone"])
  func `zones of several owners come back in the request's order`(call: String) async throws {
    let world = try await world()
    func zone(_ name: String, _ owner: String?) -> String {
      #"{"zoneID":{"zoneName":"\#(name)"\#(owner.map { #","ownerRecordName":"\#($0)""# } ?? "")}}"#
    }
    let zones = [
      zone("A", "_bea"), zone("B", "_ann"), zone("C", nil), zone("D", "_bea"), zone("E", "_stranger"),
      zone("F", "_ann"),
    ]
    let json = try await world.alice(
      .post, "\(Self.path)/\(call)", body: #"{"resultsLimit":5,"zones":[\#(zones.joined(separator: ","))]}"#
    ).json
    #expect(
      json["zones"]?.elements.map { "\($0["zone"]?.string ?? "") \($0["from"]?.string ?? "")" } == [
        "A _bea", "B _ann", "C _alice", "D _bea", "E _stranger", "F _ann",
      ])
    #expect(world.requests.count == 4)
    if call == "changes/zone" { #expect(json["zones"]?.elements.allSatisfy { $0["limit"]?.int64 == 5 } == true) }
  }

  @Test(arguments: [
    "zones/list", "zones/lookup", "changes/zone", "subscriptions/list", "subscriptions/lookup", "subscriptions/modify",
  ])
  func `an owner is sent what the call knows of his part, and none of the rest`(call: String) async throws {
    let world = try await world()
    let junk = #""junk":"\#(String(repeating: "x", count: 1000))""#
    let zones = ["_ann", "_bea"].map {
      #"{"zoneID":{"zoneName":"T","ownerRecordName":"\#($0)"},"desiredKeys":["a"],\#(junk)}"#
    }.joined(separator: ",")
    let deletion = #"{"operationType":"delete","subscription":{"subscriptionID":"s",\#(junk)},\#(junk)}"#
    let body =
      #"""
      {\#(junk),"reverse":true,"zones":[\#(zones)],"subscriptions":[{"subscriptionID":"s",\#(junk)}],\#
      "operations":[\#(deletion)]}
      """#
    #expect(await world.alice(.post, "\(Self.path)/\(call)", body: body).status == 200)
    let sent = world.requests.map { String(decoding: $0.body, as: UTF8.self) }
    #expect(sent.count == (call.hasPrefix("zones") || call.hasPrefix("changes") ? 2 : 3))
    #expect(sent.allSatisfy { !$0.contains("junk") }, "\(sent.map(\.count))")
    if call == "changes/zone" {
      #expect(sent.allSatisfy { $0.contains(#""reverse":true"#) && $0.contains(#""desiredKeys":["a"]"#) }, "\(sent)")
    }
    if call == "subscriptions/modify" {
      #expect(
        sent.allSatisfy { $0 == #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"s"}}]}"# })
    }
  }

  @Test func `what many owners are sent together is not many times the request`() async throws {
    let names = (0..<200).map { "_owner\($0)" }
    let world = try await world(names)
    let zones = names.map { #"{"zoneID":{"zoneName":"T","ownerRecordName":"\#($0)"}}"# }.joined(separator: ",")
    let keys = Array(repeating: #""title""#, count: 20_000).joined(separator: ",")
    let body = #"{"desiredKeys":[\#(keys)],"desiredRecordTypes":[\#(keys)],"zones":[\#(zones)]}"#
    #expect(await world.alice(.post, "\(Self.path)/changes/zone", body: body).status == 200)
    let sent = world.requests.map(\.body)
    #expect(sent.count == 200 && sent.reduce(0) { $0 + $1.count } < 2 * body.utf8.count)
    #expect(sent.allSatisfy { String(decoding: $0, as: UTF8.self).contains(#""desiredKeys":["title"]"#) })
  }

  @Test(arguments: ["desiredKeys", "desiredRecordTypes"])
  func `a request with more different names than a record has fields is refused without asking anybody`(key: String)
    async throws
  {
    let world = try await world()
    func body(_ count: Int, ofByteCount byteCount: Int = 1) -> String {
      let names = (0..<count).map { #""\#(String(repeating: "x", count: byteCount))\#($0)""# }.joined(separator: ",")
      let zones = ["_ann", "_bea"].map { #"{"zoneID":{"zoneName":"T","ownerRecordName":"\#($0)"}}"# }
      return #"{"\#(key)":[\#(names)],"zones":[\#(zones.joined(separator: ","))]}"#
    }
    for body in [body(501), body(300, ofByteCount: 300)] {
      let response = await world.alice(.post, "\(Self.path)/changes/zone", body: body)
      #expect(response.status == 400 && response.text.contains("\(key) has more than"), "\(response.text)")
    }
    #expect(world.requests.isEmpty)
    #expect(await world.alice(.post, "\(Self.path)/changes/zone", body: body(500)).status == 200)
  }

  @Test func `calls that the gateway reads leave the thread of the bus, and those that it passes on stay`() {
    let database = "database/1/\(GatewayWorld.container)/development"
    for (path, isPassedOn) in [
      ("\(database)/private/records/modify", true), ("\(database)/public/records/query", true),
      ("mirror/1/\(GatewayWorld.container)/development/shared/stores/S/status", true),
      ("\(database)/shared/changes/zone", false), ("\(database)/shared/records/modify", false),
      ("\(database)/public/records/resolve", false), ("\(database)/public/records/accept", false),
      ("\(database)/public/records/decline", false), ("\(database)/public/records/requestAccess", false),
      ("admin/1/status", false),
    ] {
      #expect(Gateway.isPassedOn(path.split(separator: "/").map(String.init)) == isPassedOn, "\(path)")
    }
  }

  @Test(arguments: ["shared/records/modify", "public/records/resolve"])
  func `while a body is read it counts for its user, and the longest one is read`(call: String) async throws {
    let world = try await world()
    let path = Self.path.replacing("shared", with: call)
    let zone = #"{"zoneName":"Trips","ownerRecordName":"_ann"}"#
    let body = #"{"zoneID":\#(zone),"shortGUIDs":[],"more":"\#(String(repeating: "x", count: 5_000_000))"}"#
    let holding = PartBudget.Holding(world.gateway.parts, of: "_alice")
    try holding.grow(by: 1_000_000)
    #expect(await world.alice(.post, path, body: body).status == 429)
    holding.shrink(by: 1_000_000)
    #expect(await world.alice(.post, path, body: body).status == 200)
    #expect(world.gateway.parts.counts.held == 0)
  }

  @Test func `after much of some owners the others answer with little`() async throws {
    let names = (0..<10).map { "_large\($0)" }
    let world = try await world(names)
    let zones = names.map { #"{"zoneID":{"zoneName":"T","ownerRecordName":"\#($0)"},"resultsLimit":7}"# }
    let json = try await world.alice(
      .post, "\(Self.path)/changes/zone", body: #"{"resultsLimit":9,"zones":[\#(zones.joined(separator: ","))]}"#
    ).json
    #expect(json["zones"]?.elements.map { $0["limit"]?.int64 } == Array(repeating: 7, count: 8) + [1, 1])
  }

  @Test func `an owner who is away fails his zones only, and all of them the request`() async throws {
    let world = try await world(timing: FixedTime().skippingPauses) { worker, request, body in
      if request.database.owner == "_ann" { throw BusError(.draining, "about to stop") }
      return try await Self.owner(worker, request, body)
    }
    let list = try await world.alice(.post, "\(Self.path)/zones/list").json
    #expect(list["zones"]?.elements.map { $0["serverErrorCode"]?.string } == ["TRY_AGAIN_LATER", nil])
    #expect(list["zones"]?.elements.first?["zoneID"]?["zoneName"]?.string == "Trips")
    let body =
      #"""
      {"zones":[{"zoneID":{"zoneName":"T","ownerRecordName":"_bea"}},{"zoneID":{"zoneName":"T",\#
      "ownerRecordName":"_ann"}}]}
      """#
    let found = try await world.alice(.post, "\(Self.path)/zones/lookup", body: body).json
    #expect(found["zones"]?.elements.map { $0["serverErrorCode"]?.string } == [nil, "TRY_AGAIN_LATER"])
    let one = await world.alice(
      .post, "\(Self.path)/zones/lookup", body: #"{"zones":[{"zoneID":{"zoneName":"T","ownerRecordName":"_ann"}}]}"#)
    #expect(try one.status == 503 && one.code == "TRY_AGAIN_LATER")
    world.record.withLock { $0.sharedZones = Self.shared(["_ann"]) }
    #expect(try await world.alice(.post, "\(Self.path)/zones/list").code == "TRY_AGAIN_LATER")
  }

  @Test
  func
    `while the share service is away the last known owners are asked, and nobody new waits for ever`()
    async throws
  {
    let world = try await world(timing: FixedTime().skippingPauses)
    #expect(try await world.alice(.post, "\(Self.path)/zones/list").json["zones"]?.count == 2)
    world.record.withLock { $0.sharedZones = nil }
    for _ in 0..<3 { #expect(try await world.alice(.post, "\(Self.path)/zones/list").json["zones"]?.count == 2) }
    let bob = await world.respond(
      .post, "\(Self.path)/zones/list", query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "bob")])
    #expect(try bob.code == "TRY_AGAIN_LATER")
    world.record.withLock { $0.sharedZones = Self.shared(["_bea"]) }
    #expect(
      try await world.respond(
        .post, "\(Self.path)/zones/list", query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "bob")]
      ).json["zones"]?.count
        == 0)
  }

  // MARK: The feed

  private func feed(_ world: GatewayWorld, _ token: String? = nil, limit: Int? = nil, call: String = "changes/database")
    async throws -> JSONValue
  {
    var output = JSONWriter()
    output.beginObject()
    if let token { output.member("syncToken", token) }
    if let limit { output.member("resultsLimit", limit) }
    output.endObject()
    let response = await world.alice(.post, "\(Self.path)/\(call)", body: String(decoding: output.bytes, as: UTF8.self))
    #expect(response.status == 200, "\(response.text)")
    return try response.json
  }

  private func names(_ json: JSONValue) -> [String] {
    json["zones"]?.elements.map { $0["zone"]?.string ?? $0["serverErrorCode"]?.string ?? "" } ?? []
  }

  @Test func `the feed tells each owner's zones once, and its token where each stands`() async throws {
    let world = try await world(["_ann", "_bea"], ended: ["_cem"])
    let first = try await feed(world)
    #expect(names(first) == ["_ann 0", "_bea 0", "_cem 0"])
    let token = try #require(first["syncToken"]?.string)
    #expect(try SharedFeedToken(token)["_ann"] == SyncToken.Position(incarnation: 4, sequence: 11))
    let second = try await feed(world, token, call: "zones/changes")
    #expect(names(second) == [] && second["metaSyncToken"]?.string == token && second["syncToken"]?.string == token)
    // Another owner shares: the feed tells of that owner from the beginning, and of the others from the token on.
    world.record.withLock { $0.sharedZones = Self.shared(["_ann", "_bea", "_dan"]) }
    #expect(try await names(feed(world, token)) == ["_dan 0"])
    #expect(try await names(feed(world, "")) == [])
  }

  @Test func `a page takes whole owners up to its limit, and what follows comes with the next`() async throws {
    let names = ["_ann", "_many1", "_many2"]
    let world = try await world(names)
    var (token, pages): (String?, [[String]]) = (nil, [])
    for _ in 0..<4 {
      let page = try await feed(world, token, limit: 4)
      pages.append(self.names(page))
      token = page["syncToken"]?.string
      if page["moreComing"]?.bool != true { break }
    }
    #expect(pages == [["_ann 0", "_many1 0", "_many1 1", "_many1 2"], ["_many2 0", "_many2 1", "_many2 2"]])
  }

  @Test func `an owner who is away keeps his place in the feed`() async throws {
    let isAway = Mutex(true)
    let world = try await world(timing: FixedTime().skippingPauses) { worker, request, body in
      if request.database.owner == "_ann", isAway.withLock({ $0 }) { throw BusError(.draining, "about to stop") }
      return try await Self.owner(worker, request, body)
    }
    let first = try await feed(world)
    #expect(names(first) == ["TRY_AGAIN_LATER", "_bea 0"])
    isAway.withLock { $0 = false }
    #expect(try await names(feed(world, first["syncToken"]?.string)) == ["_ann 0"])
  }

  @Test func `a place that an owner's database does not know refuses the feed as his own would be`() async throws {
    let world = try await world { worker, request, body in
      guard request.database.owner == "_ann" else { return try await Self.owner(worker, request, body) }
      return Answer(
        DatabaseRequest.Reply(status: 400),
        body: RecordError(.badRequest, "Unknown sync continuation type").dictionary(uuid: "u"))
    }
    let response = await world.alice(.post, "\(Self.path)/changes/database")
    #expect(response.status == 400)
    #expect(try response.json["reason"]?.string == "Unknown sync continuation type")
  }
}
