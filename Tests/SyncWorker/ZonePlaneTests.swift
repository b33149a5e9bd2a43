// Zones as a whole: export, import elsewhere, restore, and requests that are refused.

import Assets
import Crypto
import FixedClocks
import History
import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import WorkerHost
@testable import ZoneCommit

private func insertTag(_ id: String, _ name: String? = nil) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(name ?? id)"}}"#
}

private let mirrorZone = ReservedName.privateMirrorZone

/// The caller of a request.
enum ZoneCaller {
  case owner, stranger, `operator`, nobody

  var caller: Caller {
    switch self {
    case .owner: Caller(userRecordName: "_alice")
    case .stranger: Caller(userRecordName: "_mallory")
    case .operator: Caller(userRecordName: nil, isOperator: true)
    case .nobody: Caller(userRecordName: nil)
    }
  }
}

extension ObjectPlaneWorld {
  func zone(
    _ method: String, _ call: String, query: [String: String] = [:], _ body: [UInt8] = [],
    container: String = container.rawValue, zone: String = mirrorZone,
    environment: Environment = .development, scope: DatabaseScope = .private, as who: ZoneCaller = .operator
  ) async throws -> (status: Int, bytes: [UInt8]) {
    let owner = scope == .public ? DatabaseID.publicOwner : "_alice"
    let request = DatabaseRequest(
      plane: .object, method: method, path: ["zones", zone, call], query: query,
      database: DatabaseID(container: ContainerID(rawValue: container)!, environment: environment, owner: owner),
      scope: scope, caller: who.caller,
      requestID: "request", baseURL: "https://host")
    do throws(RecordError) {
      let answer = try await plane.respond(to: request, body: body, in: store, startNext: {})
      return (answer.status, answer.body)
    } catch {
      return (error.status, error.mirrorDictionary(uuid: "uuid"))
    }
  }

  /// All lines of an export, page by page.
  func export(_ query: [String: String] = [:], container: String = container.rawValue) async throws
    -> [JSONValue]
  {
    var lines: [JSONValue] = []
    var query = query
    while true {
      let page = try await zone("GET", "export", query: query, container: container)
      try #require(page.status == 200, "\(String(decoding: page.bytes, as: UTF8.self))")
      lines += try page.bytes.split(separator: UInt8(ascii: "\n")).map { try JSONValue(parsing: Array($0)) }
      guard let more = lines.last, more["more"]?.bool == true else { return lines }
      query["after"] = try #require(more["after"]?.string)
      query["sequence"] = String(try #require(more["sequence"]?.int64))
    }
  }

  /// The records' lines as they are sent.
  func exported(_ query: [String: String] = [:], container: String = container.rawValue) async throws
    -> [UInt8]
  {
    let lines = try await export(query, container: container).filter { $0["record"] != nil }
    return lines.flatMap { line -> [UInt8] in
      var writer = JSONWriter()
      writer.value(line)
      return writer.bytes + [UInt8(ascii: "\n")]
    }
  }

  func zoneSequence() async throws -> Int64 { try #require(try await export()[0]["sequence"]?.int64) }

  /// Restores page after page.
  func restore(_ target: String) async throws -> (restored: Int64, deleted: Int64) {
    var body = "{\(target)}"
    var counts = (restored: Int64(0), deleted: Int64(0))
    while true {
      let page = try await zone("POST", "restore", Array(body.utf8), as: .owner)
      try #require(page.status == 200, "\(String(decoding: page.bytes, as: UTF8.self))")
      let answer = try JSONValue(parsing: page.bytes)
      counts.restored += try #require(answer["restored"]?.int64)
      counts.deleted += try #require(answer["deleted"]?.int64)
      guard answer["moreComing"]?.bool == true else { return counts }
      let (sequence, through) = (try #require(answer["sequence"]?.int64), try #require(answer["through"]?.int64))
      body = #"{"sequence":\#(sequence),"through":\#(through),"after":\#(try #require(answer["after"]?.int64))}"#
    }
  }
}

private let graph =
  #"""
  {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes","views":3,"ratio":0.1,\#
  "taken":"2026-01-01T00:00:00.001Z"},"relationships":{"tags":["T","U"],"ratings":["R"],"photoData":"D"}},\#
  {"changeType":"insert","entity":"PhotoData","objectID":"D","attributes":{"data":"AAEC"}},{"changeType":"insert",\#
  "entity":"Rating","objectID":"R","attributes":{"value":5}},
  """#
  + insertTag("T") + "," + insertTag("U")

// MARK: Restore

@Test(arguments: StoreKind.allCases)
func `T-X03 a zone is restored to an earlier sequence, and every client gets there by importing`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    let (reader, late) = (try await Device("B", world), try await Device("C", world))
    try await world.save("A", graph, query: ["wait": "export"])
    try await reader.pull()
    let (wanted, sequence) = (reader.graph, try await world.zoneSequence())
    let before = try await world.exported()
    for change in [
      #"""
      {"changeType":"update","entity":"Photo","objectID":"P","attributes":{"displayName":"renamed"},\#
      "relationships":{"tags":{"remove":["T"]},"photoData":null}}
      """#,
      #"""
      {"changeType":"delete","entity":"Rating","objectID":"R"},{"changeType":"delete","entity":"Tag","objectID":"U"}
      """#,
      insertTag("new"),
      #"""
      {"changeType":"update","entity":"Photo","objectID":"P","attributes":{"displayName":"again"},\#
      "relationships":{"tags":{"add":["new"]}}}
      """#,
    ] {
      try await world.save("A", change, query: ["wait": "export"])
    }
    try await reader.pull()
    #expect(reader.graph != wanted)
    let counts = try await world.restore(#""sequence":\#(sequence)"#)
    #expect(counts.restored > 0 && counts.deleted > 0)
    try await reader.pull()
    try await late.pull()
    #expect(reader.graph == wanted && late.graph == wanted)
    #expect(try await Device("D", world).pull().count > 0)
    // The device that made the changes hears of it, too: none of it is its own.
    #expect(
      try await world.get("A/changes").json["changes"]?.elements.contains { $0["objectID"]?.string == "R" } == true)
    // Again it changes nothing; and the state before the restore can be had back.
    #expect(try await world.restore(#""sequence":\#(sequence)"#) == (0, 0))
    #expect(try await reader.pull().isEmpty)
    func bare(_ lines: [UInt8]) throws -> [String] {
      try lines.split(separator: UInt8(ascii: "\n")).map { line in
        let record = try #require(try JSONValue(parsing: Array(line))["record"])
        var writer = JSONWriter()
        writer.value(try #require(record["fields"]))
        return (record["recordName"]?.string ?? "") + String(decoding: writer.bytes, as: UTF8.self)
      }
    }
    #expect(try bare(try await world.exported()) == bare(before))
  }
}

@Test func `T-X03 a restore goes page by page, leaves alone what is saved meanwhile, and takes a date`() async throws {
  try await ObjectPlaneWorld.with(.sqlite, keepsPastStates: true) { world in
    try await world.setUp("A")
    for start in stride(from: 0, to: 1000, by: 250) {
      try await world.save(
        "A", (start..<start + 250).map { insertTag("T\($0)") }.joined(separator: ","), query: ["wait": "export"])
    }
    let date = world.clock.now
    let before = try await world.exported()
    world.clock.advance(by: 1000)
    for start in stride(from: 0, to: 1000, by: 250) {
      let changes = (start..<start + 250).map {
        #"{"changeType":"update","entity":"Tag","objectID":"T\#($0)","attributes":{"name":"changed"}}"#
      }
      try await world.save("A", changes.joined(separator: ","), query: ["wait": "export"])
    }
    #expect(try await world.exported(["date": MirrorDate.text(date)]) == before, "an export takes a date, too")
    let both = ["date": MirrorDate.text(date), "sequence": "1"]
    for query in [both, ["date": "soon"]] { #expect(try await world.zone("GET", "export", query: query).status == 400) }
    let first = try await world.zone(
      "POST", "restore", Array(#"{"date":"\#(MirrorDate.text(date))"}"#.utf8), as: .owner)
    let answer = try JSONValue(parsing: first.bytes)
    #expect(answer["restored"]?.int64 == 400 && answer["moreComing"]?.bool == true)
    try await world.save(
      "A", #"{"changeType":"update","entity":"Tag","objectID":"T0","attributes":{"name":"meanwhile"}}"#,
      query: ["wait": "export"])
    let rest = try await world.restore(
      #"""
      "sequence":\#(answer["sequence"]?.int64 ?? 0),"through":\#(answer["through"]?.int64 ?? 0),\#
      "after":\#(answer["after"]?.int64 ?? 0)
      """#
    )
    #expect(rest == (600, 0))
    let names = try await world.liveRecords().map { ($0.recordName, $0.fields.string("CD_name")) }
    #expect(names.count == 1000 && names.allSatisfy { $0.1 == ($0.0 == "T0" ? "meanwhile" : $0.0) })
  }
}

@Test(arguments: StoreKind.allCases) func `a restore to what is not known says what is, and changes nothing`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), query: ["wait": "export"])
    let first = try await world.zoneSequence()
    try await world.save(
      "A", #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"n"}}"#,
      query: ["wait": "export"])
    let last = try await world.zoneSequence()
    _ = try await world.store.enqueue { try $0.forgetPast(replacedBefore: .max, limit: 9) }.value
    let records = try await world.liveRecords()
    for body in [
      #"{"sequence":\#(first)}"#, #"{"sequence":\#(last + 1)}"#, #"{"sequence":-1}"#, "{}",
      #"{"sequence":\#(last),"date":"2026-01-01T00:00:00Z"}"#,
      #"{"date":"soon"}"#, #"{"date":"1999-01-01T00:00:00Z"}"#, #"{"sequence":\#(last),"after":\#(last)}"#, "[]",
      #"{"sequence":"x"}"#,
    ] {
      let reply = try await world.zone("POST", "restore", Array(body.utf8), as: .owner)
      #expect(reply.status == 400, "\(body): \(String(decoding: reply.bytes, as: UTF8.self))")
    }
    let refused = try await world.zone("POST", "restore", Array(#"{"sequence":\#(first)}"#.utf8), as: .owner)
    #expect(String(decoding: refused.bytes, as: UTF8.self).contains("sequences are \(last) to \(last)"))
    #expect(try await world.restore(#""sequence":\#(last)"#) == (0, 0))
    #expect(
      try await world.zone("POST", "restore", Array(#"{"sequence":1}"#.utf8), zone: "nowhere", as: .owner).status == 404
    )
    #expect(try await world.liveRecords() == records)
  }
}

// MARK: Export and import

@Test(arguments: StoreKind.allCases)
func `T-X04 a zone that is exported and imported elsewhere has the same names, records and graph`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.save("A", graph, query: ["wait": "export"])
    // Every field type that the object plane never writes.
    let content: [UInt8] = Array(repeating: 7, count: 2000)
    let asset = try world.assets.put(content, until: .max)
    var odd = Record(
      recordName: "odd", recordType: "Odd", fields: [:],
      created: Stamp(timestamp: -5, userRecordName: "_bob", deviceID: "d"),
      modified: Stamp(timestamp: Int64.max, userRecordName: "_eve"), parent: "P")
    for (name, value) in [
      ("int", .int64(.min)), ("double", .double(0.1 + 0.2)), ("infinite", .double(-.infinity)),
      ("text", .string("a\u{0}\n\"é𝄞")), ("bytes", .bytes([0, 255])),
      ("time", .timestamp(-1)),
      ("place", .location(Location(latitude: -0.5, longitude: 179.9999999999, speed: 1, timestamp: 7))),
      ("ref", .reference(Reference(recordName: "P", action: .deleteSelf))),
      ("far", .reference(Reference(recordName: "x", action: .none, zoneID: Zone.ID(zoneName: "z", ownerName: "_o")))),
      ("file", .asset(asset)),
      ("files", .list(element: .asset, [.asset(asset), .asset(asset)])), ("none", .list(element: .string, [])),
      ("ints", .list(element: .int64, [.int64(1), .int64(-1)])),
    ] as [(String, FieldValue)] {
      odd.fields[name] = Field(value)
    }
    odd.fields["secret"] = Field(.bytes([1]), isEncrypted: true)
    let record = odd
    try await world.store.enqueue { transaction in
      let database = try #require(try transaction.database(world.request("GET", "x").database))
      let zone = try #require(try transaction.zone(named: mirrorZone, in: database.key))
      let stored = StoredRecord(
        record: record, isDeleted: false, sequence: try transaction.nextSequence(in: database.key), origin: 0,
        sequenceOfOthers: 0)
      try transaction.put(stored, in: zone.key, references: [], isNew: true)
    }.value
    let lines = try await world.export()
    #expect(lines.first?["format"]?.string == "aquifer.zone/1" && lines.last?["end"]?.bool == true)
    let assets = lines.compactMap { $0["asset"] }
    #expect(
      assets.count == 1 && assets[0]["sha256"]?.string == Hex.encode(asset.hash)
        && assets[0]["downloadURL"]?.string?.hasPrefix("https://host/assets/1/") == true)
    let body = try await world.exported()

    let copy = "iCloud.org.example.copy"
    let answer = try await world.zone("POST", "import", body, container: copy)
    #expect(answer.status == 200, "\(String(decoding: answer.bytes, as: UTF8.self))")
    #expect(try JSONValue(parsing: answer.bytes)["imported"]?.int64 == 8)
    #expect(try await world.exported(container: copy) == body)
    // A repeated import changes nothing; the export equals the stored records.
    let again = try JSONValue(parsing: try await world.zone("POST", "import", body, container: copy).bytes)
    #expect(again["imported"]?.int64 == 0 && again["unchanged"]?.int64 == 8)
    let stored = try await world.store.read { snapshot in
      let id = DatabaseID(container: ContainerID(rawValue: copy)!, environment: .development, owner: "_alice")
      let database = try #require(try snapshot.database(id))
      return try snapshot.record(
        named: "odd", in: try #require(try snapshot.zone(named: mirrorZone, in: database.key)).key)?.record
    }
    #expect(stored == record)
    #expect(
      world.schemas.extended.withLock { $0.filter { $0.recordType == "Odd" }.count } == 28,
      "development learned the type, at both imports")
    // A device of the copy has the graph: links are records, and came along.
    func call(_ method: String, _ path: String, _ body: String = "") async throws -> JSONValue {
      let request = DatabaseRequest(
        plane: .object, method: method, path: path.split(separator: "/").map(String.init), query: [:],
        database: DatabaseID(container: ContainerID(rawValue: copy)!, environment: .development, owner: "_alice"),
        scope: .private,
        caller: Caller(userRecordName: "_alice"), requestID: "r", baseURL: "https://host")
      return try JSONValue(
        parsing: try await world.plane.respond(to: request, body: Array(body.utf8), in: world.store, startNext: {}).body
      )
    }
    _ = try await call("PUT", "stores/Z", #"{"modelHash":"\#(ObjectPlaneWorld.modelHash)"}"#)
    var imported = DeviceGraph()
    for change in try await call("GET", "stores/Z/changes")["changes"]?.elements ?? [] { imported.apply(change) }
    let original = try await Device("B", world)
    try await original.pull()
    #expect(imported == original.graph && imported.links.count == 2)
  }
}

@Test func `T-X04 an export is one state, page by page, whatever is written between its pages`() async throws {
  try await ObjectPlaneWorld.with(.sqlite, keepsPastStates: true) { world in
    try await world.setUp("A")
    try await world.save("A", (100..<400).map { insertTag("T\($0)") }.joined(separator: ","), query: ["wait": "export"])
    let before = try await world.exported()
    let sequence = try await world.zoneSequence()
    var lines: [JSONValue] = []
    var query = ["limit": "70"]
    for step in 0... {
      let page = try await world.zone("GET", "export", query: query)
      lines += try page.bytes.split(separator: UInt8(ascii: "\n")).map { try JSONValue(parsing: Array($0)) }
      guard lines.last?["more"]?.bool == true else { break }
      query["after"] = lines.last?["after"]?.string
      query["sequence"] = (lines.last?["sequence"]?.int64).map(String.init)
      try await world.save(
        "A",
        #"""
        {"changeType":"update","entity":"Tag","objectID":"T\#(399 - step)","attributes":{"name":"late"}},\#
        {"changeType":"delete","entity":"Tag","objectID":"T\#(380 - step)"},\#(insertTag("T3\(step)x"))
        """#,
        query: ["wait": "export"])
    }
    let told = lines.filter { $0["record"] != nil }.map { line in
      var writer = JSONWriter()
      writer.value(line)
      return String(decoding: writer.bytes, as: UTF8.self)
    }
    #expect(told == String(decoding: before, as: UTF8.self).split(separator: "\n").map(String.init))
    // The same later on, by its sequence.
    #expect(try await world.exported(["sequence": String(sequence)]) == before)
    #expect(try await world.exported() != before)
    _ = try await world.store.enqueue { try $0.forgetPast(replacedBefore: .max, limit: 999) }.value
    #expect(try await world.zone("GET", "export", query: ["sequence": String(sequence)]).status == 400)
    #expect(
      try await world.zone("GET", "export", query: ["sequence": String(sequence), "after": "T100"]).status == 409)
  }
}
