// Random requests to the record plane beside a dictionary of records that follows the same rules naively.

import JSON
import RecordStore
import Records
import Sanitizers
import Testing

/// The expected content of the record plane in plain dictionaries, without sequences and tokens.
private struct NaiveZones {
  struct Note: Equatable {
    var fields: [String: Int64]
    var tag: String
  }

  /// By zone, then by name. A missing zone is missing.
  var zones: [String: [String: Note]] = [:]

  struct Operation {
    let kind: String
    let name: String
    let tag: String?
    /// nil removes.
    let fields: [String: Int64?]
  }

  /// The error an operation meets, or nil.
  func code(of operation: Operation, in zone: String) -> String? {
    let existing = zones[zone]?[operation.name]
    switch operation.kind {
    case "create": return existing == nil ? nil : "CONFLICT"
    case "update", "replace", "delete":
      guard let existing else { return "NOT_FOUND" }
      return existing.tag == operation.tag ? nil : "CONFLICT"
    default: return nil
    }
  }

  /// Executes an operation that meets no error; `tag` is what the server answered.
  mutating func apply(_ operation: Operation, in zone: String, tag: String?) {
    if operation.kind.lowercased().hasSuffix("delete") {
      zones[zone]?[operation.name] = nil
      return
    }
    let isMerge = operation.kind.lowercased().hasSuffix("update")
    var fields = isMerge ? zones[zone]?[operation.name]?.fields ?? [:] : [:]
    for (name, value) in operation.fields { fields[name] = value }
    zones[zone]?[operation.name] = Note(fields: fields, tag: tag ?? "")
  }
}

/// A device that pulls one zone's feed and keeps what it says.
private struct Puller {
  let zone: String
  var token: String?
  var notes: [String: NaiveZones.Note] = [:]

  /// Pulls one page.
  mutating func pull(_ world: RecordPlaneWorld, limit: Int) async throws -> Bool {
    let page = try await world.changes(since: token, zone: zone, limit: limit)
    if page.code != nil {
      // The zone is gone, or another of the same name.
      self = Puller(zone: zone)
      return page.code == "BAD_REQUEST"
    }
    for record in page["records"]?.elements ?? [] {
      let name = try #require(record.name)
      notes[name] = record["deleted"]?.bool == true ? nil : record.note
    }
    token = page["syncToken"]?.string
    return page["moreComing"]?.bool == true
  }

  mutating func catchUp(_ world: RecordPlaneWorld) async throws {
    while try await pull(world, limit: 3) {}
  }
}

extension JSONValue {
  fileprivate var note: NaiveZones.Note {
    var fields: [String: Int64] = [:]
    for (name, field) in self["fields"]?.members ?? [] { fields[name] = field["value"]?.int64 }
    return NaiveZones.Note(fields: fields, tag: tag ?? "")
  }
}

@Suite struct `The record plane beside a naive model` {
  static let zones = ["A", "B", "_defaultZone"]
  static let kinds = ["create", "update", "forceUpdate", "replace", "forceReplace", "delete", "forceDelete"]

  @Test(arguments: Sanitizer.few(3, of: 1...12 as ClosedRange<UInt64>))
  func `random requests, repetitions and pulls agree with a dictionary`(seed: UInt64) async throws {
    try await Self.play(try await RecordPlaneWorld.inMemory(seed: seed), seed: seed, rounds: 150)
  }

  @Test(arguments: Sanitizer.few(1, of: 101...104 as ClosedRange<UInt64>))
  func `the same over SQLite, through a restart`(seed: UInt64) async throws {
    try await withTemporaryFolder { folder in
      let random = SeededRandom(seed: seed)
      for start in 0..<2 {
        let store = try SQLiteRecordStore(
          SQLiteConfiguration(directory: folder), shardCount: 1, makeIncarnation: { random.next() })
        let shard = try await store.open(shard: 0)
        // Another container in the second life: a world of its own in the same file.
        try await Self.play(
          RecordPlaneWorld(shard, seed: seed, container: "org.example.life\(start)"), seed: seed + UInt64(start),
          rounds: 100)
        await shard.close()
      }
    }
  }

  static func play(_ world: RecordPlaneWorld, seed: UInt64, rounds: Int) async throws {
    var random = SeededRandom(seed: seed)
    var model = NaiveZones(zones: ["_defaultZone": [:]])
    var pullers = [Puller(zone: "A"), Puller(zone: "A"), Puller(zone: "B")]
    var tags = ["zzzz"]
    var earlier: (request: Int, body: String, answer: String, names: Set<String>, isTouched: Bool, zone: String)?

    for round in 0..<rounds {
      let zone = zones[Int.random(in: 0..<3, using: &random)]
      switch Int.random(in: 0..<20, using: &random) {
      case 0 where zone != "_defaultZone":
        try await changeZone(world, zone, &model, isCreation: Bool.random(using: &random))
      case 1...4:
        let index = Int.random(in: 0..<pullers.count, using: &random)
        _ = try await pullers[index].pull(world, limit: Int.random(in: 1...4, using: &random))
      case 5:
        // A repeated request has no effect, and the same answer while no other request touches its records.
        guard let first = earlier, model.zones[first.zone] != nil else { break }
        let again = try await world.send(
          world.request("records/modify", requestID: "seed:\(first.request)"), first.body)
        #expect(
          again.records.map(\.tag) == (try JSONValue(parsing: Array(first.answer.utf8)))["records"]?.elements.map(\.tag)
        )
        if !first.isTouched { #expect(again.text == first.answer) }
      default:
        let operations = randomOperations(tags, isSafe: model.zones[zone] == nil, &random)
        let isAtomic = zone != "_defaultZone" && Bool.random(using: &random)
        let body = Self.body(operations, zone, isAtomic: isAtomic)
        let reply = try await world.send(world.request("records/modify", requestID: "seed:\(round)"), body)
        try check(reply, operations, zone, isAtomic: isAtomic, &model, &tags)
        if reply.status == 200, reply.records.contains(where: { $0.code == nil }),
          Int.random(in: 0..<3, using: &random) == 0
        {
          earlier = (round, body, reply.text, Set(operations.map(\.name)), false, zone)
        } else if let first = earlier, first.zone == zone, !first.names.isDisjoint(with: operations.map(\.name)) {
          earlier?.isTouched = true
        }
      }
      if earlier.map({ model.zones[$0.zone] == nil }) ?? false { earlier = nil }
    }
    try await checkEverything(world, model, &pullers)
  }

  private static func randomOperations(_ tags: [String], isSafe: Bool, _ random: inout SeededRandom) -> [NaiveZones
    .Operation]
  {
    var names = (0..<8).map { "r\($0)" }
    names.shuffle(using: &random)
    return names.prefix(Int.random(in: 1...4, using: &random)).map { name in
      var fields: [String: Int64?] = [:]
      for field in ["x", "y", "z"] where Bool.random(using: &random) {
        fields[field] = .some(Bool.random(using: &random) ? Int64.random(in: 0...9, using: &random) : nil)
      }
      return NaiveZones.Operation(
        kind: kinds[Int.random(in: 0..<kinds.count, using: &random)], name: name,
        tag: Bool.random(using: &random) ? tags.suffix(12).randomElement(using: &random) : nil, fields: fields)
    }
  }

  private static func body(_ operations: [NaiveZones.Operation], _ zone: String, isAtomic: Bool) -> String {
    let list = operations.map { operation in
      let fields = operation.fields.sorted { $0.key < $1.key }
        .map { #""\#($0.key)":{"value":\#($0.value.map(String.init) ?? "null")}"# }.joined(separator: ",")
      let tag = operation.tag.map { #","recordChangeTag":"\#($0)""# } ?? ""
      return
        #"""
        {"operationType":"\#(operation.kind)","record":{"recordName":"\#(operation.name)","recordType":"Note"\#(tag),\#
        "fields":{\#(fields)}}}
        """#
    }
    return #"{"operations":[\#(list.joined(separator: ","))],"zoneID":{"zoneName":"\#(zone)"},"atomic":\#(isAtomic)}"#
  }

  private static func check(
    _ reply: PlaneReply, _ operations: [NaiveZones.Operation], _ zone: String, isAtomic: Bool,
    _ model: inout NaiveZones, _ tags: inout [String]
  ) throws {
    guard model.zones[zone] != nil else {
      #expect(reply.status == 404 && reply.code == "ZONE_NOT_FOUND")
      return
    }
    let codes = operations.map { model.code(of: $0, in: zone) }
    if isAtomic, codes.contains(where: { $0 != nil }) {
      #expect(reply.status == (operations.count == 1 ? 200 : 400))
      #expect(reply.records.map(\.code) == codes.map { $0 ?? "ATOMIC_ERROR" })
      return
    }
    #expect(reply.status == 200)
    #expect(reply.records.map(\.code) == codes)
    for (operation, record) in zip(operations, reply.records) where record.code == nil {
      model.apply(operation, in: zone, tag: record.tag)
      if let note = model.zones[zone]?[operation.name] {
        #expect(record.note == note)
        #expect(!tags.contains(note.tag), "a tag is given once")
        tags.append(note.tag)
      } else {
        #expect(record["deleted"]?.bool == true)
      }
    }
  }

  private static func changeZone(_ world: RecordPlaneWorld, _ zone: String, _ model: inout NaiveZones, isCreation: Bool)
    async throws
  {
    let reply = try await world.post(
      "zones/modify",
      #"{"operations":[{"operationType":"\#(isCreation ? "create" : "delete")","zone":{"zoneID":"\#(zone)"}}]}"#)
    if isCreation {
      if model.zones[zone] == nil { model.zones[zone] = [:] }
    } else {
      #expect(reply.zones[0].code == (model.zones[zone] == nil ? "ZONE_NOT_FOUND" : nil))
      model.zones[zone] = nil
    }
  }

  private static func checkEverything(_ world: RecordPlaneWorld, _ model: NaiveZones, _ pullers: inout [Puller])
    async throws
  {
    for index in pullers.indices {
      try await pullers[index].catchUp(world)
      #expect(pullers[index].notes == model.zones[pullers[index].zone] ?? [:])
    }
    for (zone, notes) in model.zones.sorted(by: { $0.key < $1.key }) {
      let names = (0..<8).map { "r\($0)" }
      let found = try await world.lookUp(names, zone: zone)
      for (name, record) in zip(names, found.records) {
        #expect(record.code == (notes[name] == nil ? "NOT_FOUND" : nil))
        if let note = notes[name] { #expect(record.note == note) }
      }
      let queried = try await world.post(
        "records/query",
        #"{"query":{"recordType":"Note","sortBy":[{"fieldName":"x"}]},"zoneID":{"zoneName":"\#(zone)"}}"#)
      #expect(Set(queried.records.compactMap(\.name)) == Set(notes.keys))
      #expect(queried.records.map { $0.value("x")?.int64 ?? -1 } == notes.values.map { $0.fields["x"] ?? -1 }.sorted())
    }
    let list = try await world.post("zones/list", "")
    #expect(list.zones.compactMap { $0["zoneID"]?["zoneName"]?.string }.sorted() == model.zones.keys.sorted())
  }
}
