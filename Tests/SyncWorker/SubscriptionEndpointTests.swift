// subscriptions/list, lookup and modify through the record plane.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

struct SubscriptionEndpointTests {
  private func subscriptions(_ reply: PlaneReply) -> [String] {
    (reply.json["subscriptions"]?.elements ?? []).map {
      "\($0["subscriptionID"]?.string ?? "") \($0.code ?? $0["subscriptionType"]?.string ?? "deleted")"
    }
  }

  @Test(arguments: StoreKind.allCases) func `subscriptions are made, shown, changed and deleted`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { stores in
      let world = RecordPlaneWorld(stores.store)
      try await world.makeZone()
      let made = try await world.post(
        "subscriptions/modify",
        #"""
        {"operations":[{"operationType":"create","subscription":{"subscriptionID":"z","subscriptionType":"zone",\#
        "zoneID":{"zoneName":"Trips"}}},{"operationType":"create","subscription":{"subscriptionType":"database"}},\#
        {"operationType":"create","subscription":{"subscriptionID":"q","subscriptionType":"query",\#
        "query":{"recordType":"Note"},"firesOn":["create"]}},{"operationType":"create",\#
        "subscription":{"subscriptionID":"bad","subscriptionType":"query"}},{"operationType":"delete",\#
        "subscription":{"subscriptionID":"none"}},{"operationType":"update","subscription":{"subscriptionID":"nil",\#
        "subscriptionType":"database"}}]}
        """#
      )
      #expect(made.status == 200)
      let items = try #require(made.json["subscriptions"]?.elements)
      let unnamed = try #require(items[1]["subscriptionID"]?.string)
      #expect(unnamed.count == 36)
      #expect(
        subscriptions(made) == [
          "z zone", "\(unnamed) database", "q query", "bad BAD_REQUEST", "none NOT_FOUND", "nil NOT_FOUND",
        ])
      for item in items { #expect(item["uuid"] == nil) }
      #expect(
        items[0].text
          == #"""
          {"subscriptionID":"z","subscriptionType":"zone","zoneID":{"zoneName":"Trips","ownerRecordName":"_alice",\#
          "zoneType":"REGULAR_CUSTOM_ZONE"},"firesOnce":false}
          """#
      )

      for (method, body) in [("GET", ""), ("POST", "{}")] {
        let listed = try await world.send(world.request("subscriptions/list", method: method), body)
        #expect(
          subscriptions(listed)
            == [unnamed, "q", "z"].sorted().map { ["z": "z zone", "q": "q query"][$0] ?? "\($0) database" })
      }
      let looked = try await world.post(
        "subscriptions/lookup", #"{"subscriptions":[{"subscriptionID":"x"},{"subscriptionID":"z"}]}"#)
      #expect(subscriptions(looked) == ["x NOT_FOUND", "z zone"])
      #expect(looked.json["subscriptions"]?.elements.last?.text == items[0].text)

      let changed = try await world.subscribe(
        "z", #""subscriptionType":"database","firesOnce":true"#, operation: "update")
      #expect(subscriptions(changed) == ["z database"])
      let deleted = try await world.post(
        "subscriptions/modify", #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"z"}}]}"#)
      #expect(deleted.text == #"{"subscriptions":[{"subscriptionID":"z","deleted":true}]}"#)
      #expect(
        subscriptions(try await world.post("subscriptions/lookup", #"{"subscriptions":[{"subscriptionID":"z"}]}"#)) == [
          "z NOT_FOUND"
        ])
    }
  }

  @Test func `making a subscription again changes nothing, and with other words replaces it`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let database = world.request("subscriptions/list").database
    func edition() async throws -> UInt64? {
      try await world.store.read { try $0.database(database) }?.subscriptionEdition
    }
    let first = try await world.subscribe("s", #""subscriptionType":"database""#)
    let before = try await edition()
    #expect(try await world.subscribe("s", #""subscriptionType":"database""#).text == first.text)
    #expect(try await edition() == before)
    try await world.subscribe("s", #""subscriptionType":"database","firesOnce":true"#)
    #expect(try await edition() != before)
    let listed = try await world.post("subscriptions/list", "")
    #expect(listed.json["subscriptions"]?.elements.map { $0["firesOnce"]?.bool } == [true])
  }

  @Test func `a request that arrives twice is answered alike and done once`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let body =
      #"""
      {"operations":[{"operationType":"create","subscription":{"subscriptionType":"database"}},\#
      {"operationType":"create","subscription":{}}]}
      """#
    let first = try await world.send(world.request("subscriptions/modify", requestID: "client:1"), body)
    let identifier = first.json["subscriptions"]?.elements.first?["subscriptionID"]?.string ?? ""
    #expect(try await world.send(world.request("subscriptions/modify", requestID: "client:1"), body).text == first.text)
    let delete = #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"\#(identifier)"}}]}"#
    let deleted = try await world.send(world.request("subscriptions/modify", requestID: "client:2"), delete)
    // A late copy of the first must not bring it back; a copy of the deletion finds its work done.
    _ = try await world.send(world.request("subscriptions/modify", requestID: "client:1"), body)
    #expect(try await world.post("subscriptions/list", "").json["subscriptions"]?.count == 0)
    #expect(
      try await world.send(world.request("subscriptions/modify", requestID: "client:2"), delete).text == deleted.text)
  }

  @Test func `each user has subscriptions of his own, and each database of his`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.subscribeToNotes("s", user: "_alice", scope: .public)
    try await world.subscribeToNotes("s", on: #""delete""#, user: "_bob", scope: .public)
    for scope in [DatabaseScope.private, .shared] {
      try await world.subscribe("own \(scope)", #""subscriptionType":"database""#, scope: scope)
    }
    func list(_ user: String?, _ scope: DatabaseScope) async throws -> String {
      let reply = try await world.send(world.request("subscriptions/list", user: user, scope: scope))
      return reply.code ?? subscriptions(reply).joined(separator: ",")
    }
    #expect(try await list("_alice", .public) == "s query")
    #expect(try await list("_bob", .public) == "s query")
    #expect(try await list("_carol", .public) == "")
    #expect(try await list("_alice", .private) == "own private database")
    #expect(try await list("_alice", .shared) == "own shared database")
    #expect(try await list(nil, .public) == "AUTHENTICATION_REQUIRED")
    // Deleting one's own leaves the other's of the same name.
    let delete = #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"s"}}]}"#
    _ = try await world.post("subscriptions/modify", delete, user: "_alice", scope: .public)
    #expect(try await list("_alice", .public) == "")
    #expect(try await list("_bob", .public) == "s query")
    #expect(
      try await world.post("subscriptions/modify", delete, user: nil, scope: .public).code == "AUTHENTICATION_REQUIRED")
  }

  @Test(arguments: [
    (DatabaseScope.public, #""subscriptionType":"database""#, "BAD_REQUEST"),
    (.public, #""subscriptionType":"zone","zoneID":"_defaultZone""#, "BAD_REQUEST"),
    (
      .public, #""subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"],"zoneID":"Trips""#,
      "ZONE_NOT_FOUND"
    ),
    (.private, #""subscriptionType":"zone","zoneID":"Nowhere""#, "ZONE_NOT_FOUND"),
    (.private, #""subscriptionType":"zone","zoneID":{"zoneName":"Trips","ownerRecordName":"_bob"}"#, "ZONE_NOT_FOUND"),
    (
      .private, #""subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"],"zoneID":"Nowhere""#,
      "ZONE_NOT_FOUND"
    ),
    (.shared, #""subscriptionType":"zone","zoneID":{"zoneName":"Trips","ownerRecordName":"_bob"}"#, "ZONE_NOT_FOUND"),
    (
      .shared, #""subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"],"zoneWide":true"#,
      "BAD_REQUEST"
    ),
  ])
  func `a subscription that a database can't have is refused`(scope: DatabaseScope, text: String, code: String)
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.subscribe("s", text, scope: scope)
    #expect(reply.json["subscriptions"]?.elements.first?.code == code)
    #expect(try await world.post("subscriptions/list", "", scope: scope).json["subscriptions"]?.count == 0)
  }

  @Test func `a user has so many subscriptions and no more`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    func make(_ range: Range<Int>) async throws -> PlaneReply {
      let operations = range.map {
        #"{"operationType":"create","subscription":{"subscriptionID":"s\#($0)","subscriptionType":"database"}}"#
      }
      return try await world.post("subscriptions/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#)
    }
    for start in [0, 200] {
      #expect(subscriptions(try await make(start..<start + 200)).allSatisfy { $0.hasSuffix("database") })
    }
    let last = subscriptions(try await make(400..<502))
    #expect(last.count { $0.hasSuffix("database") } == Limit.subscriptionsPerUser - 400)
    #expect(last.suffix(2).allSatisfy { $0.hasSuffix("QUOTA_EXCEEDED") })
    // One that is there can still be changed, and one deleted makes room.
    #expect(
      subscriptions(try await world.subscribe("s1", #""subscriptionType":"database","firesOnce":true"#)) == [
        "s1 database"
      ])
    _ = try await world.post(
      "subscriptions/modify", #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"s1"}}]}"#)
    #expect(subscriptions(try await world.subscribe("more", #""subscriptionType":"database""#)) == ["more database"])
    #expect(try await world.post("subscriptions/list", "").json["subscriptions"]?.count == Limit.subscriptionsPerUser)
  }

  @Test func `only GET and POST list, and only POST does the rest`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    #expect(try await world.send(world.request("subscriptions/lookup", method: "GET")).status == 405)
    #expect(try await world.send(world.request("subscriptions/modify", method: "GET")).status == 405)
    #expect(try await world.send(world.request("subscriptions/list", method: "PUT")).status == 405)
  }
}
