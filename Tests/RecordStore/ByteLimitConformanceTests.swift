// Reads that end at a limit of bytes.

import Indexing
import Records
import Testing

@testable import RecordStore

struct ByteLimitConformanceTests {
  /// Records of ten thousand bytes each.
  private static func save(_ count: Int, _ bytes: () -> UInt8, in place: Place, of shard: any ShardStore) async throws {
    let contents = (0..<count).map { _ in (0..<10_000).map { _ in bytes() } }
    try await shard.write { transaction -> Void in
      for (number, content) in contents.enumerated() {
        var note = Sample.note("\(number)", title: "\(number)")
        note.fields["CD_bytes"] = Field(.bytes(content))
        try transaction.save(note, in: place)
      }
    }
  }

  @Test(arguments: StoreKind.allCases, [false, true])
  func `a list ends with the row that passes the limit of bytes, and says that it does not end there`(
    _ kind: StoreKind, isCompressible: Bool
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let index = try await shard.write { try $0.makeIndex(Sample.titles, in: place.database) }
      try await Self.save(6, { isCompressible ? 7 : UInt8.random(in: 0...255) }, in: place, of: shard)
      try await shard.settleIndexes()
      try await shard.read { (snapshot) throws -> Void in
        let zone = place.zone
        func names(_ page: RowPage<StoredRecord>) -> ([String], Bool) {
          (page.rows.map(\.record.recordName), page.isAtEnd)
        }
        func changes(_ limit: Int, _ byteLimit: Int, isReversed: Bool = false) throws -> ([String], Bool) {
          var rows = RecordRows(of: zone)
          let isAtEnd =
            isReversed
            ? try snapshot.readChangesBackwards(
              after: 0, before: .max, limit: limit, byteLimit: byteLimit, into: &rows)
            : try snapshot.readChanges(after: 0, limit: limit, byteLimit: byteLimit, into: &rows)
          return (rows.indices.map { rows.recordName(at: $0) }, isAtEnd)
        }
        func readable(_ limit: Int, _ byteLimit: Int) throws -> ([String], Bool) {
          let page = try snapshot.readableChanges(in: zone, after: 0, limit: limit, byteLimit: byteLimit)
          return (page.records.map(\.record.recordName), page.isAtEnd)
        }
        func indexed(_ limit: Int, _ byteLimit: Int, isDescending: Bool = false) throws -> ([String], Bool) {
          let scan = IndexScan(
            index: index.key, zone: zone, range: IndexRange(lower: [], upper: [0xff]), isDescending: isDescending)
          let page = try snapshot.indexedRecords(scan, limit: limit, byteLimit: byteLimit)
          return (page.rows.map(\.stored.record.recordName), page.isAtEnd)
        }
        let up = (0..<6).map(String.init)
        let lists: [(names: [String], read: (Int, Int) throws -> ([String], Bool))] = [
          (up, { try changes($0, $1) }), (up.reversed(), { try changes($0, $1, isReversed: true) }), (up, readable),
          (up, { names(try snapshot.records(in: zone, afterName: nil, limit: $0, byteLimit: $1)) }),
          (
            up,
            { names(try snapshot.records(ofType: "CD_Note", in: zone, afterName: nil, limit: $0, byteLimit: $1)) }
          ),
          (up, { try indexed($0, $1) }), (up.reversed(), { try indexed($0, $1, isDescending: true) }),
        ]
        for (number, list) in lists.enumerated() {
          for (limit, byteLimit, count, isAtEnd) in [
            (9, 35_000, 4, false), (9, 0, 1, false), (2, 35_000, 2, false), (9, 59_000, 6, false), (6, .max, 6, false),
            (9, .max, 6, true), (9, 70_000, 6, true), (0, .max, 0, false),
          ] {
            let found = try list.read(limit, byteLimit)
            #expect(
              found.0 == Array(list.names.prefix(count)) && found.1 == isAtEnd, "\(number), \(limit), \(byteLimit)")
          }
        }
        let rest = names(try snapshot.records(in: zone, afterName: "3", limit: 9, byteLimit: 35_000))
        #expect(rest == (["4", "5"], true))
      }
    }
  }

  @Test func `PostgreSQL sends the rows up to the limit of bytes, and no further ones`() async throws {
    let world = try World(.postgreSQL)
    let shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    try await Self.save(60, { UInt8.random(in: 0...255) }, in: place, of: shard)
    let held = try await shard.read { snapshot -> [Int] in
      let snapshot = try #require(snapshot as? SQLiteSnapshot)
      return try [35_000, .max].map { byteLimit in
        var held = 0
        try snapshot.boundChanges(in: place.zone, after: 0, limit: 100, byteLimit: byteLimit).forEach { row in
          if case .postgreSQL(let command) = row { held = command.heldByteCount }
        }
        return held
      }
    }
    #expect(held[0] > 40_000 && held[0] < 60_000 && held[1] > 600_000)
    await shard.close()
  }

  @Test func `PostgreSQL sends a backlog of transactions as far as the bytes go, to reads and writers`() async throws {
    let world = try World(.postgreSQL)
    let shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
    try await shard.write { transaction in
      for number: Int64 in 1...50 {
        try transaction.append(
          HistoryConformanceTests.transaction(number, payload: Array(repeating: UInt8(number), count: 100_000)),
          to: mirror)
      }
    }
    /// The number of rows and their bytes.
    @Sendable func sent(_ byteLimit: Int, _ snapshot: any ShardSnapshot) throws -> [Int] {
      let snapshot = try #require(snapshot as? SQLiteSnapshot)
      var (count, held) = (0, 0)
      try snapshot.boundTransactions(of: mirror, after: 2, limit: 400, byteLimit: byteLimit).forEach { row in
        count += 1
        if case .postgreSQL(let command) = row { held = command.heldByteCount }
      }
      return [count, held / 100_000]
    }
    for (byteLimit, count) in [(350_000, 3), (1, 1), (Int.max, 48)] {
      #expect(try await shard.read { try sent(byteLimit, $0) } == [count, count])
      #expect(try await shard.write { try sent(byteLimit, $0) } == [count, count])
    }
    await shard.close()
  }

  @Test func `a statement around another one reads the table of the inner one`() throws {
    for query in StoredRecordQuery.allCases where query.text(.postgreSQL).hasPrefix("SELECT id, seq") {
      guard case .read(let table) = StatementTable(query.text(.postgreSQL)) else {
        Issue.record("\(query) reads")
        continue
      }
      #expect(table == "record")
    }
    guard case .read("history") = StatementTable(HistoryQuery.after.text(.postgreSQL)) else {
      Issue.record("history")
      return
    }
  }
}
