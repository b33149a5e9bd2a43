import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@Suite struct `The record plane's change feeds` {
  /// Zone Trips with records a, b, c in that order.
  static func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    for name in ["a", "b", "c"] { _ = try await world.operate("create", name, fields: #"{"n":{"value":1}}"#) }
    return world
  }

  @Test func `without a token the whole zone comes, and its token is caught up`() async throws {
    let world = try await Self.world()
    let page = try await world.changes(since: nil)
    #expect(page["records"]?.names == ["a", "b", "c"])
    #expect(page["moreComing"]?.bool == false)
    #expect(page["zoneID"]?["ownerRecordName"]?.string == "_alice")
    let token = try #require(page["syncToken"]?.string)
    #expect(token.utf8.count == 48)
    let next = try await world.changes(since: token)
    #expect(next["records"]?.count == 0)
    #expect(next["syncToken"]?.string == token)
    #expect(next.text == (try await world.changes(since: token)).text)
  }

  @Test func `a record changed twice comes once, with its latest value, in the order of last changes`() async throws {
    let world = try await Self.world()
    let token = try await world.changes(since: nil)["syncToken"]?.string
    _ = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":2}}"#)
    _ = try await world.operate("forceDelete", "b")
    _ = try await world.operate("create", "d")
    _ = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":3}}"#)
    let page = try await world.changes(since: token)
    #expect(page["records"]?.names == ["b", "d", "a"])
    #expect(page["records"]?.elements[2].value("n")?.int64 == 3)
    #expect(
      page["records"]?.elements[0].text
        == #"""
        {"recordName":"b","deleted":true,"zoneID":{"zoneName":"Trips","ownerRecordName":"_alice",\#
        "zoneType":"REGULAR_CUSTOM_ZONE"}}
        """#
    )
    #expect(try await world.changes(since: nil)["records"]?.names == ["c", "b", "d", "a"])
  }

  @Test func `pages of any size meet at the same token`() async throws {
    let world = try await Self.world()
    let end = try await world.changes(since: nil)["syncToken"]?.string
    for limit in [1, 2, 3, 4, 400] {
      var token: String?
      var names: [String] = []
      while true {
        let page = try await world.changes(since: token, limit: limit)
        names += page["records"]?.names ?? []
        token = page["syncToken"]?.string
        #expect(page["records"]?.count ?? 0 <= limit)
        if page["moreComing"]?.bool == false { break }
      }
      #expect(names == ["a", "b", "c"])
      #expect(token == end)
    }
  }

  @Test func `T-I04 a change while pages are read is delivered, the latest value last`() async throws {
    let world = try await Self.world()
    let first = try await world.changes(since: nil, limit: 2)
    _ = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":9}}"#)
    _ = try await world.operate("forceDelete", "c")
    let second = try await world.changes(since: first["syncToken"]?.string, limit: 2)
    #expect(first["records"]?.names == ["a", "b"])
    #expect(second["records"]?.names == ["a", "c"])
    #expect(second["records"]?.elements[0].value("n")?.int64 == 9)
    #expect(second["moreComing"]?.bool == false)
  }

  @Test func `the empty token is caught up, not the beginning`() async throws {
    let world = try await Self.world()
    let page = try await world.changes(since: "")
    #expect(page["records"]?.count == 0)
    #expect(page["moreComing"]?.bool == false)
    #expect(page["syncToken"]?.string == (try await world.changes(since: nil)["syncToken"]?.string))
  }

  @Test func `tokens that are none, cut, foreign or of an earlier life are refused in the words clients look for`()
    async throws
  {
    let world = try await Self.world()
    let token = try #require(try await world.changes(since: nil)["syncToken"]?.string)
    let databaseToken = try #require(try await world.post("changes/database", "{}").syncToken)
    try await world.makeZone("Other")
    let otherToken = try #require(try await world.changes(since: nil, zone: "Other")["syncToken"]?.string)
    let future = SyncToken(
      .zone, incarnation: try SyncToken(token, as: .zone).positions[0].incarnation, sequence: 1_000_000
    ).text
    for (text, reason) in [
      ("garbage!", "Unknown sync continuation type"), ("QUJD", "Unknown sync continuation type"),
      (databaseToken, "Unknown sync continuation type"),
      (otherToken, "Unknown sync continuation type"), (future, "Unknown sync continuation type"),
      (String(token.dropLast(4)), "Invalid continuation format"),
      (String(token.dropLast(8)) + "AAAAAAAA", "Invalid continuation format"),
    ] {
      let item = try await world.changes(since: text)
      #expect(
        item.text
          == #"""
          {"zoneID":{"zoneName":"Trips","ownerRecordName":"_alice","zoneType":"REGULAR_CUSTOM_ZONE"},\#
          "serverErrorCode":"BAD_REQUEST","reason":"\#(reason)"}
          """#
      )
    }
    _ = try await world.post("zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":"Trips"}}]}"#)
    try await world.makeZone()
    #expect(try await world.changes(since: token).reason == "Unknown sync continuation type")
    #expect(try await world.changes(since: nil)["records"]?.count == 0)
  }

  @Test func `zones fail one by one inside a 200`() async throws {
    let world = try await Self.world()
    let reply = try await world.post(
      "changes/zone",
      #"""
      {"zones":[{"zoneID":"Nowhere"},{"zoneID":"Trips","resultsLimit":1},{"zoneID":"_defaultZone"},\#
      {"zoneID":{"zoneName":"Trips","ownerRecordName":"_bob"}}]}
      """#
    )
    #expect(reply.status == 200)
    #expect(reply.zones.map(\.code) == ["ZONE_NOT_FOUND", nil, "BAD_REQUEST", "ZONE_NOT_FOUND"])
    #expect(reply.zones[1]["moreComing"]?.bool == true)
    #expect(reply.zones[2].reason == "AppDefaultZone does not support getChanges call")
    #expect(reply.zones[3]["zoneID"]?["ownerRecordName"]?.string == "_bob")
  }

  @Test func `desired types and keys thin the page out, tombstones stay`() async throws {
    let world = try await Self.world()
    _ = try await world.operate("create", "t", type: "Task", fields: #"{"n":{"value":5},"m":{"value":6}}"#)
    _ = try await world.operate("forceDelete", "a")
    let page = try await world.changes(
      since: nil, more: #","desiredRecordTypes":["Task"],"desiredKeys":["m"],"numbersAsStrings":true"#)
    #expect(page["records"]?.names == ["t", "a"])
    #expect(page["records"]?.elements[0]["fields"]?.text == #"{"m":{"value":"6","type":"INT64"}}"#)
    let empty = try await world.changes(since: nil, limit: 1, more: #","desiredRecordTypes":["Task"]"#)
    #expect(empty["records"]?.count == 0 && empty["moreComing"]?.bool == true)
  }

  @Test(arguments: [1, 2, 3, 7])
  func `in reverse the newest come first, page after page, and what changes meanwhile is the next feed's`(limit: Int)
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    for name in ["a", "b", "c", "d", "e"] { _ = try await world.operate("create", name) }
    var names: [String] = []
    var token: String?
    for round in 0..<10 {
      let page = try await world.changes(since: token, limit: limit, more: #","reverse":true"#)
      let again = try await world.changes(since: token, limit: limit, more: #","reverse":true"#)
      #expect(page.text == again.text)
      names += page["records"]?.names ?? []
      token = page["syncToken"]?.string
      if round == 0, limit < 5 { _ = try await world.operate("forceUpdate", "a", fields: #"{"n":{"value":1}}"#) }
      if page["moreComing"]?.bool == false { break }
    }
    #expect(names == ["e", "d", "c", "b", "a"])
    // The last token is as good forwards, and has seen everything.
    #expect(try await world.changes(since: token)["records"]?.names == [])
    let end = try await world.changes(since: token, more: #","reverse":true"#)
    #expect(end["records"]?.names == [] && end["moreComing"]?.bool == false && end["syncToken"]?.string == token)
  }

  @Test
  func `a feed in reverse that is left goes on forwards from where it began, and large records end its pages early`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.operate("create", "old")
    let seen = try await world.changes(since: nil)["syncToken"]?.string
    let text = String(repeating: "x", count: 900_000)
    for index in 0..<6 { _ = try await world.operate("create", "r\(index)", fields: #"{"text":{"value":"\#(text)"}}"#) }
    let page = try await world.changes(since: seen, more: #","reverse":true"#)
    #expect(page["records"]?.names == ["r5", "r4", "r3", "r2"] && page["moreComing"]?.bool == true)
    let rest = try await world.changes(since: page["syncToken"]?.string, more: #","reverse":true"#)
    #expect(rest["records"]?.names == ["r1", "r0"] && rest["moreComing"]?.bool == false)
    #expect(try await world.changes(since: page["syncToken"]?.string, limit: 2)["records"]?.names == ["r0", "r1"])
    // Another zone's place, or one that this zone never gave out.
    try await world.makeZone("Other")
    #expect(
      try await world.changes(since: page["syncToken"]?.string, zone: "Other", more: #","reverse":true"#).reason
        == "Unknown sync continuation type")
    #expect(try await world.changes(since: "", more: #","reverse":true"#)["records"]?.names == [])
  }

  @Test func `a page ends before it is too large for a message`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let text = String(repeating: "x", count: 900_000)
    for index in 0..<8 { _ = try await world.operate("create", "r\(index)", fields: #"{"text":{"value":"\#(text)"}}"#) }
    var token: String?
    var names: [String] = []
    var counts: [Int] = []
    repeat {
      let page = try await world.changes(since: token)
      counts.append(page["records"]?.count ?? 0)
      names += page["records"]?.names ?? []
      token = page["syncToken"]?.string
      if page["moreComing"]?.bool == false { break }
    } while counts.count < 10
    #expect(counts == [4, 4])
    #expect(names == (0..<8).map { "r\($0)" })
    let both = try await world.post("changes/zone", #"{"zones":[{"zoneID":"Trips"},{"zoneID":"Trips"}]}"#)
    #expect(both.zones.map { $0["records"]?.count } == [4, 0])
    #expect(both.zones[1]["moreComing"]?.bool == true)
  }

  @Test func `records/changes is the same feed with its errors at the top`() async throws {
    let world = try await Self.world()
    let page = try await world.post("records/changes", #"{"zoneID":{"zoneName":"Trips"},"resultsLimit":2}"#)
    #expect(page.records.map(\.name) == ["a", "b"])
    #expect(page.moreComing == true)
    #expect(try await world.changes(since: page.syncToken)["records"]?.names == ["c"])
    #expect(try await world.post("records/changes", #"{"zoneID":{"zoneName":"Nowhere"}}"#).status == 404)
    #expect(try await world.post("records/changes", "{}").reason == "AppDefaultZone does not support getChanges call")
    #expect(try await world.post("records/changes", #"{"zoneID":{"zoneName":"Trips"},"syncToken":"x"}"#).status == 400)
  }

  // MARK: The database's feed

  @Test func `the database feed names changed, new and deleted zones, never the default one`() async throws {
    let world = try await Self.world()
    try await world.makeZone("Other")
    _ = try await world.operate("create", "a", zone: "_defaultZone")
    let first = try await world.post("changes/database", "{}")
    #expect(first.zones.map { $0["zoneID"]?["zoneName"]?.string } == ["Trips", "Other"])
    #expect(first.zones[0]["syncToken"]?.string == (try await world.changes(since: nil)["syncToken"]?.string))
    let token = try #require(first.syncToken)
    #expect(try await world.post("changes/database", #"{"syncToken":"\#(token)"}"#).zones.isEmpty)

    _ = try await world.operate("create", "x", zone: "Other")
    _ = try await world.post("zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":"Trips"}}]}"#)
    let second = try await world.post("changes/database", #"{"syncToken":"\#(token)"}"#)
    #expect(second.zones.map { $0["zoneID"]?["zoneName"]?.string } == ["Other", "Trips"])
    #expect(second.zones.map { $0["deleted"]?.bool } == [false, true])
    #expect(try await world.post("changes/database", "{}").zones.map { $0["zoneID"]?["zoneName"]?.string } == ["Other"])
    #expect(try await world.post("changes/database", #"{"syncToken":""}"#).zones.isEmpty)
  }

  @Test func `the database feed pages, and zones/changes is the same under another key`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    for name in ["A", "B", "C"] { try await world.makeZone(name) }
    var names: [String?] = []
    var token = ""
    for key in ["syncToken", "metaSyncToken", "syncToken"] {
      let path = key == "syncToken" ? "changes/database" : "zones/changes"
      let page = try await world.post(
        path, token.isEmpty ? #"{"resultsLimit":1}"# : #"{"resultsLimit":1,"\#(key)":"\#(token)"}"#)
      names += page.zones.map { $0["zoneID"]?["zoneName"]?.string }
      token = try #require(page.syncToken ?? page.json["metaSyncToken"]?.string)
      #expect(page.moreComing == (names.count < 3))
    }
    #expect(names == ["A", "B", "C"])
    let both = try await world.post("zones/changes", "{}")
    #expect(both.syncToken == both.json["metaSyncToken"]?.string)
  }

  @Test func `a database that nothing was ever written to has a token too`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    let empty = try await world.post("changes/database", "{}")
    let token = try #require(empty.syncToken)
    #expect(try await world.post("changes/database", #"{"syncToken":"\#(token)"}"#).zones.isEmpty)
    try await world.makeZone()
    #expect(try await world.post("changes/database", #"{"syncToken":"\#(token)"}"#).zones.count == 1)
  }

  @Test func `database tokens of others, cut or of zones are refused`() async throws {
    let world = try await Self.world()
    let token = try #require(try await world.post("changes/database", "{}").syncToken)
    let zoneToken = try #require(try await world.changes(since: nil)["syncToken"]?.string)
    for (text, reason) in [
      (zoneToken, "Unknown sync continuation type"), (String(token.dropLast(4)), "Invalid continuation format"),
      ("x", "Unknown sync continuation type"),
    ] {
      let reply = try await world.post("changes/database", #"{"syncToken":"\#(text)"}"#)
      #expect(reply.status == 400 && reply.reason == reason)
    }
    let foreign = try await world.post("changes/database", #"{"syncToken":"\#(token)"}"#, user: "_bob")
    #expect(foreign.status == 400 && foreign.reason == "Unknown sync continuation type")
  }
}
