// Random queries over random records, paged while records change, beside an evaluation that looks at everything.

import InMemoryRecordStore
import Indexing
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import Sanitizers
import Testing
import WebServices
@testable import ZoneCommit

@Suite struct `records/query on indexes` {
  static let schema: Schema = {
    let types: [String: FieldType] = [
      "n": .int64, "t": .timestamp, "d": .double, "s": .string, "r": .reference, "l": .stringList, "i": .int64List,
      "p": .location,
    ]
    let fields = types.map {
      Schema.Field(name: $0.key, type: $0.value, indexes: [.queryable, .sortable, .searchable])
    }
    return Schema(
      recordTypes: ["Note", "Task"].map {
        Schema.RecordType(name: $0, fields: fields, grants: [], systemIndexes: ["___recordID": .queryable])
      })
  }()

  /// A world of notes, and the same notes as plain values.
  final class Rig {
    let world: RecordPlaneWorld
    var generator: NaiveGenerator
    var notes: [String: NaiveNote] = [:]

    init(_ store: any ShardStore, seed: UInt64) async throws {
      world = RecordPlaneWorld(store, schema: schema, seed: seed)
      generator = NaiveGenerator(random: SeededRandom(seed: seed))
      for zone in NaiveGenerator.zones { try await world.makeZone(zone) }
    }

    /// Replaces notes, or makes them.
    func put(_ new: [NaiveNote]) async throws {
      for zone in NaiveGenerator.zones {
        let operations = Dictionary(new.filter { $0.zone == zone }.map { ($0.name, $0) }, uniquingKeysWith: { $1 })
          .values.map { note -> String in
            notes[note.id] = note
            let fields = note.fields.map { #""\#($0.key)":{"value":\#($0.value.json)}"# }.joined(separator: ",")
            return
              #"""
              {"operationType":"forceReplace","record":{"recordName":"\#(note.name)","recordType":"\#(note.type)",\#
              "fields":{\#(fields)}}}
              """#
          }
        for start in stride(from: 0, to: operations.count, by: 100) {
          let batch = operations[start..<min(start + 100, operations.count)].joined(separator: ",")
          let reply = try await world.post(
            "records/modify", #"{"operations":[\#(batch)],"zoneID":{"zoneName":"\#(zone)"},"atomic":false}"#)
          try #require(reply.status == 200 && !reply.text.contains("serverErrorCode"), "\(reply.text.prefix(500))")
        }
      }
    }

    func delete(_ note: NaiveNote) async throws {
      notes[note.id] = nil
      _ = try await world.operate("forceDelete", note.name, zone: note.zone)
    }

    /// One page: the ids of its records, and where the next begins.
    func page(_ query: NaiveQuery, zone: String?, limit: Int, marker: String?) async throws -> (
      ids: [String], marker: String?
    ) {
      let place = zone.map { #""zoneID":{"zoneName":"\#($0)"}"# } ?? #""zoneWide":true"#
      let more = marker.map { #","continuationMarker":"\#($0)""# } ?? ""
      let reply = try await world.post(
        "records/query", #"{"query":\#(query.json),\#(place),"resultsLimit":\#(limit)\#(more)}"#)
      try #require(reply.status == 200, "\(reply.text) \(query.json)")
      return (
        reply.records.map { "\($0["zoneID"]?["zoneName"]?.string ?? "")/\($0.name ?? "")" },
        reply.json["continuationMarker"]?.string
      )
    }

    func expected(_ query: NaiveQuery, zone: String?) -> [NaiveNote] {
      notes.values.filter { ($0.zone == zone || zone == nil) && query.passes($0) }.sorted(by: query.precedes)
    }

    /// Pages through a query while notes change, and compares.
    func check(_ query: NaiveQuery, zone: String?, limit: Int, changes: Bool) async throws {
      let before = notes
      var touched: Set<String> = []
      var found: [String] = []
      var marker: String?
      repeat {
        let page = try await page(query, zone: zone, limit: limit, marker: marker)
        try #require(page.ids.count <= limit)
        found += page.ids
        marker = page.marker
        if changes, marker != nil {
          let note = generator.note()
          touched.insert(note.id)
          if generator.number(3) == 0, let old = notes[note.id] { try await delete(old) } else { try await put([note]) }
        }
      } while marker != nil && found.count < 10_000
      // Each unchanged record is there once and in order, and nothing else is.
      let stable = expected(query, zone: zone).map(\.id).filter { !touched.contains($0) }
      #expect(found.filter { !touched.contains($0) } == stable, "\(query.json) zone \(zone ?? "any") limit \(limit)")
      #expect(
        Set(stable)
          == Set(before.values.filter { ($0.zone == zone || zone == nil) && query.passes($0) }.map(\.id)).subtracting(
            touched))
    }
  }

  static func exercise(_ store: any ShardStore, seed: UInt64, rounds: Int) async throws {
    let rig = try await Rig(store, seed: seed)
    try await rig.put((0..<500).map { _ in rig.generator.note() })
    for round in 0..<rounds {
      let zone = rig.generator.number(3) == 0 ? nil : NaiveGenerator.zones[rig.generator.number(2)]
      try await rig.check(
        rig.generator.query(), zone: zone, limit: [3, 20, 200][rig.generator.number(3)] + rig.generator.number(5),
        changes: round % 2 == 1)
      if round % 20 == 19 { try await rig.put((0..<30).map { _ in rig.generator.note() }) }
    }
    // Not everything was scanned.
    let made = try await store.read { try $0.indexes(afterKey: 0, limit: 100) }
    #expect(Set(made.map(\.index.kind)).isSuperset(of: [.value, .words, .place]), "\(made)")
  }

  @Test(arguments: Sanitizer.few(1, of: [1, 2] as [UInt64]))
  func `answers are those of looking at everything, over a store in memory`(_ seed: UInt64) async throws {
    let random = SeededRandom(seed: seed)
    let store = try await InMemoryRecordStore(shardCount: 1, makeIncarnation: { random.next() }).open(shard: 0)
    try await Self.exercise(store, seed: seed, rounds: 60)
  }

  @Test(arguments: Sanitizer.few(1, of: [3, 4, 5] as [UInt64]))
  func `answers are those of looking at everything, over files`(_ seed: UInt64) async throws {
    try await withTemporaryFolder { folder in
      var options = SQLiteRecordStore.Options()
      // Many queries come while an index is being filled in.
      options.indexSliceLimit = 5
      let store = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder, options: options), shardCount: 1)
        .open(shard: 0)
      try await Self.exercise(store, seed: seed, rounds: 200)
      let report = try await #require(store as? SQLiteShardStore).verify()
      #expect(report.problems == [])
      await store.close()
    }
  }

  @Test func `an index is made by the query that misses it, and dropped when the schema declares it no more`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory(schema: Self.schema)
    let rig = try await Rig(world.store, seed: 9)
    try await rig.put((0..<400).map { _ in rig.generator.note() })
    func indexes() async throws -> [FieldIndex] {
      try await rig.world.store.read { try $0.indexes(afterKey: 0, limit: 9).map(\.index) }
    }
    let byNumber =
      #"""
      {"query":{"recordType":"Note","filterBy":[{"fieldName":"n","comparator":"EQUALS","fieldValue":{"value":99}}]},\#
      "zoneWide":true}
      """#
    _ = try await rig.world.post(
      "records/query", #"{"query":{"recordType":"Note"},"zoneID":{"zoneName":"Trips"},"resultsLimit":1}"#)
    _ = try await rig.world.post("records/query", byNumber.replacing("EQUALS", with: "NOT_EQUALS"))
    #expect(try await indexes() == [])
    _ = try await rig.world.post("records/query", byNumber)
    #expect(try await indexes() == [FieldIndex(recordType: "Note", key: .field("n"), kind: .value)])
    _ = try await rig.world.post("records/query", byNumber)
    #expect(try await indexes().count == 1)
    // The same store under a schema without it: at the next opening of the shard, and at the next query.
    let bare = Schema(recordTypes: [
      Schema.RecordType(name: "Note", fields: [Schema.Field(name: "n", type: .int64)], grants: [])
    ])
    await RecordPlaneWorld(rig.world.store, schema: bare).plane.run(on: rig.world.store)
    #expect(try await indexes() == [])
    _ = try await rig.world.post("records/query", byNumber)
    #expect(try await indexes().count == 1)
    let other = RecordPlaneWorld(rig.world.store, schema: bare)
    #expect(try await other.post("records/query", byNumber).records.count == 0)
    #expect(try await indexes() == [])
  }

  @Test func `a long search without an index stops early and goes on behind`() async throws {
    // In memory, where a page of many small records is quick to make.
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let (database, zone) = try await world.store.read { snapshot in
      let database = try #require(try snapshot.databases(afterKey: 0, limit: 1).first)
      return (database, try #require(try snapshot.zone(named: "Trips", in: database.key)))
    }
    let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
    try await world.store.enqueue { transaction in
      for number in 0..<400 {
        let record = Record(
          recordName: "r\(1_000_000 + number)", recordType: "Note", fields: ["n": .int64(Int64(number))],
          created: stamp, modified: stamp)
        try transaction.put(
          StoredRecord(
            record: record, isDeleted: false, sequence: try transaction.nextSequence(in: database.key), origin: 0,
            sequenceOfOthers: 0),
          in: zone.key, references: [], isNew: true)
      }
    }.value
    let query = RecordQuery(
      recordType: "Note", filters: [RecordQuery.Filter(key: .field("n"), comparator: .notEquals, value: .int64(-1))])
    let nothing = RecordQuery(
      recordType: "Note", filters: [RecordQuery.Filter(key: .field("n"), comparator: .equals, value: .int64(-1))])
    let pages = try await world.store.read { snapshot in
      try [query, nothing].map { query in
        var search = QuerySearch(
          query: query, after: nil, limit: 200, isZoneWide: false, indexes: [],
          pageCost: 128 * (QuerySearch.readCost + 2))
        try search.run(in: ZoneView(row: zone, access: nil), snapshot)
        return search.page
      }
    }
    #expect(pages[0].hits.count == 128 && pages[0].next?.recordName == "r1000127")
    #expect(pages[1].hits.isEmpty && pages[1].next?.recordName == "r1000127")
  }
}
