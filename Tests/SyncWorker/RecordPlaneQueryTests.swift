import JSON
import ObjectModel
import RecordStore
import Records
import Testing

@Suite struct `records/query` {
  /// 12 notes in Trips with n = 0…11 in a scattered order, one Task, and notes in two other zones.
  static func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    try await world.makeZone("Alps")
    for index in 0..<12 {
      _ = try await world.operate(
        "create", "r\(index * 5 % 12 + 10)", fields: #"{"n":{"value":\#(index)},"even":{"value":\#(index % 2 == 0)}}"#)
    }
    _ = try await world.operate("create", "task", type: "Task")
    _ = try await world.operate("create", "alp", fields: #"{"n":{"value":5}}"#, zone: "Alps")
    _ = try await world.operate("create", "home", fields: #"{"n":{"value":5}}"#, zone: "_defaultZone")
    return world
  }

  static func numbers(_ reply: PlaneReply) -> [Int64?] { reply.records.map { $0.value("n")?.int64 } }

  /// All pages of a query in Trips.
  static func pages(_ world: RecordPlaneWorld, _ query: String, limit: Int, between: () async throws -> Void = {})
    async throws -> [[Int64?]]
  {
    var pages: [[Int64?]] = []
    var marker: String?
    repeat {
      let more = marker.map { #","continuationMarker":"\#($0)""# } ?? ""
      let reply = try await world.post(
        "records/query", #"{"query":\#(query),"zoneID":{"zoneName":"Trips"},"resultsLimit":\#(limit)\#(more)}"#)
      try #require(reply.status == 200)
      pages.append(numbers(reply))
      marker = reply.json["continuationMarker"]?.string
      try await between()
    } while marker != nil && pages.count < 20
    return pages
  }

  @Test func `filters pass, other types don't, and the zone is the one that was named`() async throws {
    let world = try await Self.world()
    let found = try await world.post(
      "records/query",
      #"""
      {"query":{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"IN","fieldValue":{"value":[3,5,99],\#
      "type":"INT64_LIST"}}]},"zoneID":{"zoneName":"Trips"}}
      """#
    )
    #expect(Set(Self.numbers(found)) == [3, 5] && found.records.count == 2)
    #expect(found.json["continuationMarker"] == nil)
    let home = try await world.post("records/query", #"{"query":{"recordType":"Note"}}"#)
    #expect(home.records.map(\.name) == ["home"])
  }

  @Test(arguments: [1, 5, 11, 12, 13, 400])
  func `sorted pages join without gap or repetition`(limit: Int) async throws {
    let world = try await Self.world()
    let ascending = try await Self.pages(world, #"{"recordType":"Note","sortBy":[{"fieldName":"n"}]}"#, limit: limit)
    #expect(ascending.flatMap { $0 } == (0..<12).map { Int64($0) })
    let descending = try await Self.pages(
      world,
      #"{"recordType":"Note","sortBy":[{"fieldName":"even","ascending":false},{"fieldName":"n","ascending":false}]}"#,
      limit: limit)
    #expect(descending.flatMap { $0 } == [10, 8, 6, 4, 2, 0, 11, 9, 7, 5, 3, 1])
    let named = try await Self.pages(world, #"{"recordType":"Note"}"#, limit: limit)
    #expect(named.flatMap { $0 }.count == 12 && Set(named.flatMap { $0 }).count == 12)
  }

  @Test func `changes between pages shift nothing`() async throws {
    let world = try await Self.world()
    var count = 0
    let pages = try await Self.pages(world, #"{"recordType":"Note","sortBy":[{"fieldName":"n"}]}"#, limit: 3) {
      count += 1
      // Before what was delivered, and behind it.
      _ = try await world.operate("create", "early\(count)", fields: #"{"n":{"value":-\#(count)}}"#)
      if count == 1 { _ = try await world.operate("forceDelete", "r\(4 * 5 % 12 + 10)") }
    }
    #expect(pages.flatMap { $0 } == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11])
  }

  @Test func `zoneWide searches all zones, in the query's order or zone by zone`() async throws {
    let world = try await Self.world()
    let filter = #""filterBy":[{"fieldName":"n","comparator":"EQUALS","fieldValue":{"value":5}}]"#
    let found = try await world.post("records/query", #"{"query":{"recordType":"Note",\#(filter)},"zoneWide":true}"#)
    #expect(found.records.map { $0["zoneID"]?["zoneName"]?.string } == ["Alps", "Trips", "_defaultZone"])
    var names: [String?] = []
    var marker = ""
    repeat {
      let more = marker.isEmpty ? "" : #","continuationMarker":"\#(marker)""#
      let page = try await world.post(
        "records/query",
        #"""
        {"query":{"recordType":"Note","sortBy":[{"fieldName":"n","ascending":false}]},"zoneWide":true,\#
        "resultsLimit":4\#(more)}
        """#
      )
      names += page.records.map { $0["zoneID"]?["zoneName"]?.string }
      marker = page.json["continuationMarker"]?.string ?? ""
    } while !marker.isEmpty && names.count < 100
    #expect(names.count == 14)
    #expect(names.filter { $0 == "Alps" }.count == 1)
  }

  @Test func `names are looked up rather than searched, and must still be of the type`() async throws {
    let world = try await Self.world()
    let found = try await world.post(
      "records/query",
      #"""
      {"query":{"recordType":"Note","filterBy":[{"systemFieldName":"recordName","comparator":"IN",\#
      "fieldValue":{"value":[{"recordName":"task"},{"recordName":"r12"},{"recordName":"none"},{"recordName":"r12"}],\#
      "type":"REFERENCE_LIST"}}]},"zoneID":{"zoneName":"Trips"}}
      """#
    )
    #expect(found.records.map(\.name) == ["r12"])
  }

  @Test func `an unknown type is empty in development and refused in production`() async throws {
    let world = try await Self.world()
    let development = try await world.post(
      "records/query", #"{"query":{"recordType":"reminderList"},"resultsLimit":1}"#)
    #expect(development.text == #"{"records":[]}"#)
    let production = try await world.send(
      world.request("records/query", environment: .production), #"{"query":{"recordType":"reminderList"}}"#)
    #expect(production.status == 400 && production.reason == "Did not find record type: reminderList")
  }

  @Test func `another query's marker, and a missing zone are refused`() async throws {
    let world = try await Self.world()
    let page = try await world.post(
      "records/query", #"{"query":{"recordType":"Note"},"zoneID":{"zoneName":"Trips"},"resultsLimit":1}"#)
    let marker = try #require(page.json["continuationMarker"]?.string)
    let foreign = try await world.post(
      "records/query",
      #"""
      {"query":{"recordType":"Note","sortBy":[{"fieldName":"n"}]},"zoneID":{"zoneName":"Trips"},\#
      "continuationMarker":"\#(marker)"}
      """#
    )
    #expect(foreign.status == 400 && foreign.reason == "Invalid continuation format")
    #expect(
      try await world.post("records/query", #"{"query":{"recordType":"Note"},"zoneID":{"zoneName":"Nowhere"}}"#).code
        == "ZONE_NOT_FOUND")
  }

  @Test func `a page of large records ends early and goes on behind them`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let text = String(repeating: "x", count: 900_000)
    for index in 0..<6 {
      _ = try await world.operate(
        "create", "r\(index)", fields: #"{"text":{"value":"\#(text)"},"n":{"value":\#(index)}}"#)
    }
    let pages = try await Self.pages(
      world, #"{"recordType":"Note","sortBy":[{"fieldName":"n","ascending":false}]}"#, limit: 200)
    #expect(pages == [[5, 4, 3, 2], [1, 0]])
  }
}
