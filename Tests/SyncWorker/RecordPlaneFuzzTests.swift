// Malformed bodies: each gets a documented error or its normal effect, and a refused one stores nothing.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

/// Makes hostile bodies out of good ones.
private struct BodyFuzzer {
  var random: SeededRandom

  /// Paths with good bodies; the text between § may become anything.
  static let templates: [(path: String, body: String)] = [
    (
      "records/modify",
      #"""
      {"operations":§[{"operationType":§"forceUpdate"§,"record":§{"recordName":§"a"§,"recordType":§"Note"§,\#
      "recordChangeTag":§"2"§,"parent":§{"recordName":§"b"§}§,"createShortGUID":§false§,\#
      "fields":§{"title":§{"value":§"A"§,"type":§"STRING"§}§,"n":§{"value":§7§}§,"to":{"value":§{"recordName":§"a"§,\#
      "action":§"VALIDATE"§,"zoneID":§"Trips"§}§},"place":{"value":§{"latitude":§1.5§,"longitude":§2§,\#
      "timestamp":§5§}§},"list":{"value":§["a",§"b"§]§,"type":§"STRING_LIST"§},"data":{"value":§"AAEC"§,\#
      "type":§"BYTES"§},"when":{"value":§-5§,"type":§"TIMESTAMP"§}}§}§,"desiredKeys":§["title"]§}]§,\#
      "zoneID":§{"zoneName":§"Trips"§,"ownerRecordName":§"_alice"§}§,"atomic":§true§,"numbersAsStrings":§false§}
      """#
    ),
    (
      "records/modify",
      #"""
      {"operations":[{"operationType":§"delete"§,"record":{"recordName":§"a"§,"recordChangeTag":§"3"§}},\#
      {"operationType":"create","record":{"recordType":§"Note"§}}],"zoneID":"Trips","atomic":§false§}
      """#
    ),
    (
      "records/lookup",
      #"{"records":§[§{"recordName":§"a"§,"desiredKeys":§["title"]§}§]§,"zoneID":§"Trips"§,"desiredKeys":§null§}"#
    ),
    (
      "records/query",
      #"""
      {"query":§{"recordType":§"Note"§,"filterBy":§[{"fieldName":§"n"§,"comparator":§"EQUALS"§,\#
      "fieldValue":§{"value":§7§}§}]§,"sortBy":§[{"fieldName":§"n"§,"ascending":§true§}]§}§,"zoneID":§"Trips"§,\#
      "resultsLimit":§2§,"continuationMarker":§null§,"zoneWide":§false§}
      """#
    ),
    (
      "records/changes",
      #"{"zoneID":§"Trips"§,"syncToken":§""§,"resultsLimit":§1§,"desiredKeys":§null§,"reverse":§false§}"#
    ),
    (
      "changes/zone",
      #"""
      {"zones":§[{"zoneID":§"Trips"§,"syncToken":§null§,"desiredRecordTypes":§["Note"]§,"resultsLimit":§1§,\#
      "reverse":§true§}]§,"resultsLimit":§1§}
      """#
    ),
    ("changes/database", #"{"syncToken":§null§,"resultsLimit":§1§}"#),
    ("zones/changes", #"{"metaSyncToken":§null§,"resultsLimit":§1§}"#),
    ("zones/list", "{}"), ("zones/lookup", #"{"zones":§[§{"zoneName":§"Trips"§,"ownerRecordName":§null§}§]§}"#),
    ("zones/modify", #"{"operations":§[{"operationType":§"create"§,"zone":§{"zoneID":§{"zoneName":§"Other"§}§}§}]§}"#),
  ]

  private static let hostile = [
    "null", "true", "-1", "0", "1e400", "-1e-400", "NaN", "Infinity", "9007199254740993", "9223372036854775808",
    "-9223372036854775809", "1.5", "01", "\"\"",
    #""\ud800""#, #""\udc00\ud800""#, #""\u0000""#, #""a\u0000b""#, "\"\u{202e}é😀\"", #""_x""#, #""__public__""#,
    #""_bob""#, #""cloudkit.share""#, #""A==""#, #""*""#,
    #""STRING_LIST""#, #""REFERENCE_LIST""#, #""ASSETID""#, "[]", "{}", "[[]]", "[null]", "[{}]", #"{"value":null}"#,
    #"{"value":[]}"#, #"{"value":[[1]]}"#,
    #"{"recordName":"a","recordName":"b"}"#, #"{"a":1,"a":2}"#, "\"" + String(repeating: "x", count: 300) + "\"",
    String(repeating: "[", count: 70),
    String(repeating: "[", count: 70) + String(repeating: "]", count: 70),
    String(repeating: #"{"a":"#, count: 40) + "1" + String(repeating: "}", count: 40),
  ]

  private mutating func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  mutating func next() -> (path: String, body: [UInt8]) {
    let template = Self.templates[number(Self.templates.count)]
    // Places nest, so the inner ones come first: the text between two neighbouring marks is replaced.
    var parts = template.body.split(separator: "§", omittingEmptySubsequences: false).map(String.init)
    for _ in 0..<number(3) where parts.count > 2 {
      let index = 1 + number(parts.count - 2)
      parts[index] = Self.hostile[number(Self.hostile.count)]
    }
    var body = Array(parts.joined().utf8)
    switch number(8) {
    case 0: body = Array(body.prefix(number(body.count + 1)))
    case 1: if !body.isEmpty { body[number(body.count)] = UInt8(truncatingIfNeeded: random.next()) }
    case 2:
      let (start, end) = (number(body.count + 1), number(body.count + 1))
      body.insert(contentsOf: body[min(start, end)..<max(start, end)], at: number(body.count + 1))
    default: break
    }
    return (template.path, body)
  }
}

@Suite struct `Hostile bodies` {
  private static func sequences(_ store: any ShardStore) async throws -> [Int64] {
    try await store.read { try $0.databases(afterKey: 0, limit: 99).map(\.sequence) }
  }

  @Test(arguments: 1...4 as ClosedRange<UInt64>)
  func `every request has a documented answer, and a refusal changes nothing`(seed: UInt64) async throws {
    try await withTemporaryFolder { folder in
      let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder), shardCount: 1).open(shard: 0)
      let world = RecordPlaneWorld(shard, seed: seed)
      try await world.makeZone()
      _ = try await world.operate("create", "a", fields: #"{"title":{"value":"A"},"n":{"value":7}}"#)
      var fuzzer = BodyFuzzer(random: SeededRandom(seed: seed))
      var good = 0
      for _ in 0..<400 {
        let (path, body) = fuzzer.next()
        let scope: DatabaseScope =
          [.private, .private, .public, .shared].randomElement(using: &fuzzer.random) ?? .private
        let before = try await Self.sequences(shard)
        let reply = try await world.send(world.request(path, scope: scope), bytes: body)
        let text = String(decoding: body, as: UTF8.self)
        if reply.status == 200 {
          good += 1
          continue
        }
        #expect([400, 403, 404, 413].contains(reply.status), "\(path) \(text) \(reply.text)")
        let code = reply.code.flatMap(ServerErrorCode.init(rawValue:))
        #expect(
          code != nil && code != .internalError && reply.reason?.isEmpty == false, "\(path) \(text) \(reply.text)")
        #expect(try await Self.sequences(shard) == before, "\(path) \(text)")
      }
      #expect(good > 20)
      // Stored records can be read.
      var token: String?
      var more = true
      while more {
        let page = try await world.changes(since: token, limit: 50)
        (token, more) = (page["syncToken"]?.string, page["moreComing"]?.bool ?? false)
      }
      #expect(try await (shard as? SQLiteShardStore)?.verify().problems == [])
      await shard.close()
    }
  }

  // MARK: One by one

  @Test(
    arguments: [
      ("[]", "The body must be a JSON object"), ("{", "The body is not JSON"),
      (#"{"operations":[]"#, "The body is not JSON"), ("nope", "The body is not JSON"),
      (#"{"operations":[],"operations":[]}"#, "twice"), (#"{"operations":NaN}"#, "The body is not JSON"),
      (#"{"operations":9223372036854775808}"#, ""),
      (#"{"operations":"\ud800"}"#, "The body is not JSON"),
      (
        #"{"operations":[],"x":\#(String(repeating: "[", count: 100))\#(String(repeating: "]", count: 100))}"#,
        "The body is not JSON"
      ),
      ("{}", "operations is missing"), (#"{"operations":{}}"#, "operations must be an array"),
      (#"{"operations":[1]}"#, "operations[0] must be an object"),
      (#"{"operations":[{}]}"#, "operations[0]: operationType is missing"),
      (#"{"operations":[{"operationType":"upsert","record":{}}]}"#, "operations[0]: unknown operationType 'upsert'"),
      (#"{"operations":[{"operationType":"delete"}]}"#, "operations[0]: record is missing"),
      (#"{"operations":[{"operationType":"delete","record":{}}]}"#, "operations[0]: record.recordName is missing"),
      (#"{"operations":[],"atomic":1}"#, "atomic must be true or false"),
      (#"{"operations":[],"zoneID":7}"#, "zoneID must be an object"),
      (#"{"operations":[],"desiredKeys":"all"}"#, "desiredKeys must be an array"),
      (
        #"""
        {"operations":[{"operationType":"forceDelete","record":{"recordName":"a"}},{"operationType":"forceUpdate",\#
        "record":{"recordName":"a","recordType":"Note"}}]}
        """#,
        "You can't save the same record twice"
      ),
    ])
  func `a request that can't be read is refused as a whole, naming the place`(body: String, reason: String) async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    let before = try await Self.sequences(world.store)
    let reply = try await world.post("records/modify", body)
    #expect(reply.status == 400 && reply.code == "BAD_REQUEST")
    #expect(reply.reason?.contains(reason) == true, "\(reply.text)")
    #expect(try await Self.sequences(world.store) == before)
  }

  @Test(
    arguments: [
      (#"{"value":"*","type":"BYTES"}"#, "BYTES must be padded base64"),
      (#"{"value":"AA=","type":"BYTES"}"#, "BYTES must be padded base64"),
      (#"{"value":1.5,"type":"INT64"}"#, "INT64 must be an integer of 64 bits"),
      (#"{"value":"NaN","type":"DOUBLE"}"#, "DOUBLE must be a number"),
      (#"{"value":"soon","type":"TIMESTAMP"}"#, "TIMESTAMP must be milliseconds since 1970"),
      (#"{"value":{"latitude":91,"longitude":0},"type":"LOCATION"}"#, "latitude or longitude is out of range"),
      (
        #"{"value":{"recordName":"x","action":"MAYBE"},"type":"REFERENCE"}"#,
        "action must be NONE, DELETE_SELF or VALIDATE"
      ),
      (#"{"value":[1,"x"],"type":"INT64_LIST"}"#, "[1]"), (#"{"value":[[1]]}"#, "a list of lists is not a field value"),
      (#"{"value":1,"type":"NUMBER"}"#, "unknown type 'NUMBER'"),
      ("7", "a field must be an object with a value"),
    ])
  func `a field that can't be read is an item that names it`(field: String, reason: String) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let before = try await Self.sequences(world.store)
    let reply = try await world.operate("create", "a", fields: #"{"f":\#(field)}"#)
    #expect(reply.status == 200 && reply.records[0].code == "BAD_REQUEST")
    #expect(
      reply.records[0].reason?.hasPrefix("Note.f") == true && reply.records[0].reason?.contains(reason) == true,
      "\(reply.text)")
    #expect(try await Self.sequences(world.store) == before)
  }

  @Test(arguments: StoreKind.engines)
  func `a name with NUL is one that nothing has, and keeps no other zone's page from its reader`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.makeZone("Trips", photo: "P")
      let zones = try await world.callRecords(
        "changes/zone", #"{"zones":[{"zoneID":"Trips"},{"zoneID":"a\u0000"}]}"#)
      #expect(
        zones["zones"]?.elements.map { $0["serverErrorCode"]?.string } == [nil, "ZONE_NOT_FOUND"], "\(zones.text)")
      #expect(zones["zones"]?.elements.first?["records"]?.count == 1)
      let found = try await world.callRecords(
        "zones/lookup", #"{"zones":[{"zoneName":"a\u0000"},{"zoneName":"Trips"}]}"#)
      #expect(
        found["zones"]?.elements.map { $0["serverErrorCode"]?.string } == ["ZONE_NOT_FOUND", nil], "\(found.text)")
      for (path, body) in [
        ("records/lookup", #"{"zoneID":"a\u0000","records":[{"recordName":"P"}]}"#),
        ("records/query", #"{"zoneID":"Trips","query":{"recordType":"a\u0000"}}"#),
        ("subscriptions/lookup", #"{"subscriptions":[{"subscriptionID":"a\u0000"}]}"#),
      ] {
        do {
          let answer = try await world.callRecords(path, body)
          #expect(!answer.text.contains("INTERNAL_ERROR"), "\(path): \(answer.text)")
        } catch let error as RecordError {
          #expect(error.code != .internalError, "\(path): \(error)")
        }
      }
    }
  }

  @Test func `integers beyond 2^53 stay exact, as numbers and as strings`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let numbers: [Int64] = [9_007_199_254_740_993, -9_007_199_254_740_993, .max, .min]
    for number in numbers {
      let reply = try await world.operate(
        "forceReplace", "a", fields: #"{"n":{"value":\#(number)},"m":{"value":["\#(number)"],"type":"INT64_LIST"}}"#)
      #expect(
        reply.text.contains(#""n":{"value":\#(number),"#) && reply.text.contains(#""m":{"value":[\#(number)],"#),
        "\(reply.text)")
      let text = try await world.post(
        "records/lookup", #"{"records":[{"recordName":"a","numbersAsStrings":true}],"zoneID":"Trips"}"#
      ).text
      #expect(text.contains(#""n":{"value":"\#(number)","#) && text.contains(#""m":{"value":["\#(number)"],"#))
    }
  }

  // MARK: Limits

  private static func creations(_ count: Int) -> String {
    (0..<count).map { #"{"operationType":"create","record":{"recordName":"r\#($0)","recordType":"Note"}}"# }.joined(
      separator: ",")
  }

  @Test func `200 operations are served, 201 are refused`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let refused = try await world.post("records/modify", #"{"operations":[\#(Self.creations(201))],"zoneID":"Trips"}"#)
    #expect(refused.status == 400 && refused.reason == "operations has 201 items, the limit is 200")
    #expect(try await world.lookUp(["r0"]).records[0].code == "NOT_FOUND")
    #expect(
      try await world.post("records/modify", #"{"operations":[\#(Self.creations(200))],"zoneID":"Trips"}"#).records
        .count == 200)
  }

  @Test func `a record of a million bytes is stored, one byte more is refused, also when it grows bit by bit`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    // A field counts with its name.
    let most = String(repeating: "x", count: Limit.recordByteCount - 1)
    #expect(try await world.operate("create", "a", fields: #"{"f":{"value":"\#(most)"}}"#).records[0].code == nil)
    let before = try await Self.sequences(world.store)
    for (kind, fields) in [("create", #"{"f":{"value":"\#(most)x"}}"#), ("forceUpdate", #"{"g":{"value":""}}"#)] {
      let name = kind == "create" ? "b" : "a"
      let refused = try await world.operate(kind, name, fields: fields).records[0]
      #expect(
        refused.code == "QUOTA_EXCEEDED" && refused.reason == "record '\(name)' has 1000001 bytes, the limit is 1000000"
      )
    }
    #expect(try await Self.sequences(world.store) == before)
    #expect(
      try await world.operate("forceUpdate", "a", fields: #"{"f":{"value":"short"},"g":{"value":"also"}}"#).records[0]
        .code == nil)
  }

  @Test(arguments: ["é", "a\u{0}b", "", "_a", String(repeating: "n", count: 256), "tab\tbed"])
  func `a record's name is 1 to 255 printable ASCII characters`(name: String) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    var writer = JSONWriter()
    writer.string(name)
    let quoted = String(decoding: writer.bytes, as: UTF8.self)
    let reply = try await world.post(
      "records/modify",
      #"""
      {"operations":[{"operationType":"create","record":{"recordName":\#(quoted),"recordType":"Note"}}],\#
      "zoneID":"Trips"}
      """#
    )
    #expect(reply.records.first?.code == "BAD_REQUEST" && reply.records.first?.reason?.hasPrefix("recordName") == true)
    let zone = try await world.post(
      "zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":\#(quoted)}}}]}"#)
    #expect(zone.zones.first?.code == "BAD_REQUEST" && zone.zones.first?.reason?.hasPrefix("zoneName") == true)
  }

  @Test func `unknown keys are ignored everywhere`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let extra = #""newer":{"a":[1]},"remapEnums":true"#
    let reply = try await world.post(
      "records/modify",
      #"""
      {\#(extra),"operations":[{\#(extra),"operationType":"create","record":{\#(extra),"recordName":"a",\#
      "recordType":"Note","pluginFields":{"x":1},"fields":{"n":{\#(extra),"value":1}}}}],"zoneID":{\#(extra),\#
      "zoneName":"Trips","zoneType":"REGULAR_CUSTOM_ZONE"}}
      """#
    )
    #expect(reply.records[0].code == nil && reply.records[0].value("n")?.int64 == 1)
    #expect(
      try await world.post("records/lookup", #"{\#(extra),"records":[{\#(extra),"recordName":"a"}],"zoneID":"Trips"}"#)
        .records[0].code == nil)
    #expect(
      try await world.post("zones/lookup", #"{\#(extra),"zones":[{\#(extra),"zoneName":"Trips"}]}"#).zones[0].code
        == nil)
  }
}
