import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@Suite struct `The record plane's zones` {
  static func modify(_ operations: (String, String)...) -> String {
    let list = operations.map { #"{"operationType":"\#($0)","zone":{"zoneID":{"zoneName":"\#($1)"}}}"# }.joined(
      separator: ",")
    return #"{"operations":[\#(list)]}"#
  }

  @Test func `creating is idempotent, deleting needs the zone, and each operation stands alone`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "zones/modify",
      Self.modify(
        ("create", "Trips"), ("create", "New"), ("delete", "Nowhere"), ("create", "_x"), ("delete", "_defaultZone")))
    #expect(reply.status == 200)
    #expect(reply.zones.map(\.code) == [nil, nil, "ZONE_NOT_FOUND", "BAD_REQUEST", "BAD_REQUEST"])
    #expect(reply.zones[1]["atomic"]?.bool == true && reply.zones[1]["deleted"]?.bool == false)
    #expect(world.changes.take().map(\.zoneName) == ["New"])
    let deleted = try await world.post("zones/modify", Self.modify(("delete", "New")))
    #expect(
      deleted.zones[0].text
        == #"{"zoneID":{"zoneName":"New","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"},"deleted":true}"#)
    #expect(world.changes.take().map(\.zoneName) == ["New"])
    #expect(try await world.lookUp(["a"], zone: "New").status == 404)
  }

  @Test func `a database has so many zones, those counted that the same request makes and deletes`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let id = world.request("zones/list").database
    try await world.store.enqueue { transaction in
      let database = try transaction.makeDatabase(id)
      let count = try transaction.liveZoneCount(in: database.key)
      for number in 0..<(Limit.zonesPerDatabase - 2 - count) {
        _ = try transaction.makeZone(named: "Z\(number)", in: database.key)
      }
    }.value
    func codes(_ operations: (String, String)...) async throws -> [String?] {
      let list = operations.map { #"{"operationType":"\#($0)","zone":{"zoneID":{"zoneName":"\#($1)"}}}"# }.joined(
        separator: ",")
      return try await world.post("zones/modify", #"{"operations":[\#(list)]}"#).zones.map(\.code)
    }
    #expect(try await codes(("create", "A"), ("create", "B"), ("create", "C")) == [nil, nil, "QUOTA_EXCEEDED"])
    #expect(
      try await codes(("create", "A"), ("create", "D")) == [nil, "QUOTA_EXCEEDED"],
      "a zone that is there already needs no room")
    #expect(try await codes(("delete", "A"), ("create", "C"), ("create", "D")) == [nil, nil, "QUOTA_EXCEEDED"])
  }

  @Test func `a zone made again is empty`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "a")
    _ = try await world.post("zones/modify", Self.modify(("delete", "Trips")))
    try await world.makeZone()
    #expect(try await world.lookUp(["a"]).records[0].code == "NOT_FOUND")
  }

  @Test func `a repeated request neither deletes nor makes again`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone("Old")
    let request = world.request("zones/modify", requestID: "x:1")
    let body = Self.modify(("create", "New"), ("delete", "Old"), ("delete", "Later"))
    let first = try await world.send(request, body)
    #expect(first.zones.map(\.code) == [nil, nil, "ZONE_NOT_FOUND"])
    _ = try await world.post("zones/modify", Self.modify(("delete", "New"), ("create", "Old"), ("create", "Later")))
    _ = world.changes.take()
    let second = try await world.send(request, body)
    #expect(second.zones.map(\.code) == [nil, nil, "ZONE_NOT_FOUND"])
    #expect(world.changes.take().isEmpty)
    let list = try await world.post("zones/list", "")
    #expect(list.zones.map { $0["zoneID"]?["zoneName"]?.string } == ["_defaultZone", "Later", "Old"])
  }

  @Test func `a repetition's token is the first answer's, so that what was saved meanwhile is news to the client`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    let request = world.request("zones/modify", requestID: "x:1")
    let body = Self.modify(("create", "Trips"))
    let first = try await world.send(request, body)
    _ = try await world.operate("create", "a")
    let second = try await world.send(request, body)
    #expect(second.text == first.text)
    let token = try #require(second.zones.first?["syncToken"]?.string)
    let news = try await world.post(
      "changes/zone", #"{"zones":[{"zoneID":{"zoneName":"Trips"},"syncToken":"\#(token)"}]}"#)
    #expect(news.zones.first?["records"]?.names == ["a"])
  }

  @Test func `all zones are listed, the default one first and without a token`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    for name in ["B", "A"] { try await world.makeZone(name) }
    let list = try await world.send(world.request("zones/list", method: "GET"))
    #expect(list.zones.map { $0["zoneID"]?["zoneName"]?.string } == ["_defaultZone", "A", "B"])
    #expect(
      list.zones[0].text
        == #"""
        {"zoneID":{"zoneName":"_defaultZone","ownerRecordName":"_alice","zoneType":"DEFAULT_ZONE"},"atomic":false,\#
        "deleted":false}
        """#
    )
    // As icloud.com's own clients ask, and are answered.
    let posted = try await world.post("zones/list", "{}")
    #expect(posted.zones.map { $0["zoneID"]?["zoneName"]?.string } == ["_defaultZone", "A", "B"])
    #expect(posted.zones.allSatisfy { $0["atomic"] == nil && $0["deleted"]?.bool == false })
    #expect(list.zones[1]["syncToken"]?.string == (try await world.changes(since: nil, zone: "A")["syncToken"]?.string))
    #expect(try await world.post("zones/list", "{}", user: "_bob").zones.count == 1)
    let publicList = try await world.post("zones/list", "{}", scope: .public)
    #expect(publicList.zones.map { $0["zoneID"]?["ownerRecordName"]?.string } == ["_defaultOwner"])
  }

  @Test func `zones are looked up in order, missing ones as items`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let reply = try await world.post(
      "zones/lookup",
      #"""
      {"zones":[{"zoneName":"Nowhere"},{"zoneName":"Trips"},{"zoneName":"_defaultZone"},{"zoneName":"Trips",\#
      "ownerRecordName":"_bob"}]}
      """#
    )
    #expect(reply.zones.map(\.code) == ["ZONE_NOT_FOUND", nil, nil, "ZONE_NOT_FOUND"])
    #expect(reply.zones[1]["syncToken"]?.string != nil && reply.zones[2]["syncToken"] == nil)
    #expect(try await world.post("zones/lookup", "{}").status == 400)
  }

  @Test func `T-L01 the 1001st zone is refused`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    for batch in 0..<5 {
      let operations = (0..<200).map { #"{"operationType":"create","zone":{"zoneID":"Z\#(batch)-\#($0)"}}"# }.joined(
        separator: ",")
      _ = try await world.post("zones/modify", #"{"operations":[\#(operations)]}"#)
    }
    let refused = try await world.post("zones/modify", Self.modify(("create", "One"), ("create", "Z0-0")))
    #expect(refused.zones.map(\.code) == ["QUOTA_EXCEEDED", nil])
    _ = try await world.post("zones/modify", Self.modify(("delete", "Z0-0")))
    #expect(try await world.post("zones/modify", Self.modify(("create", "One"))).zones[0].code == nil)
    #expect(try await world.post("zones/list", "").zones.count == 1001)
  }
}
