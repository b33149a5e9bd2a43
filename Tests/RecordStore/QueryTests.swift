// The statements: each has its own place among the prepared ones, and both engines take each in their dialect.

import PostgreSQL
import SQLite
import Testing

@testable import RecordStore

struct QueryTests {
  /// The statements of a subject.
  private static func statements(_ subject: QuerySubject) -> any Query.Type {
    switch subject {
    case .shard: ShardQuery.self
    case .database: DatabaseQuery.self
    case .zone: ZoneQuery.self
    case .sweep: SweepQuery.self
    case .record: StoredRecordQuery.self
    case .past: PastQuery.self
    case .reference: ReferenceQuery.self
    case .placement: PlacementQuery.self
    case .asset: AssetQuery.self
    case .subscription: SubscriptionQuery.self
    case .index: IndexQuery.self
    case .redirect: RedirectQuery.self
    case .mirror: MirrorQuery.self
    case .history: HistoryQuery.self
    case .settled: SettledQuery.self
    case .event: EventQuery.self
    case .quarantine: QuarantineQuery.self
    case .conflict: ConflictQuery.self
    case .recovery: RecoveryQuery.self
    case .share: ShareQuery.self
    case .member: MemberQuery.self
    case .outcome: OutcomeQuery.self
    case .cut: CutQuery.self
    }
  }

  private static var all: [any Query] {
    func cases(_ type: (some Query).Type) -> [any Query] { type.allCases.map { $0 } }
    return QuerySubject.allCases.flatMap { cases(statements($0)) }
  }

  @Test func `no two statements share a place or a name, and every place is in the list`() {
    let count = QuerySubject.allCases.count * QuerySubject.statementLimit
    #expect(Set(Self.all.map(\.place)).count == Self.all.count)
    #expect(Set(Self.all.map(\.name)).count == Self.all.count)
    #expect(Self.all.allSatisfy { (0..<count).contains($0.place) })
  }

  @Test func `SQLite takes every statement in a shard's newest format`() throws {
    let folder = try TemporaryFolder()
    let connection = try ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1).takeOver()
      .connection
    defer { connection.close() }
    for query in Self.all {
      #expect(throws: Never.self, "\(query.name)") { try connection.prepare(query.sql(.sqlite)) }
    }
  }

  /// The types of parameters that no column tells.
  private static let types: [String: [Int: String]] = [
    "asset.release": [2: "bigint"], "redirect.zonesWithPending": [2: "bigint"],
    "conflict.after": [4: "bigint", 5: "text"], "conflict.ofName": [4: "bigint", 5: "text"],
    "conflict.openAfter": [5: "text"], "conflict.openCount": [2: "text"],
  ]

  @Test func `PostgreSQL takes every statement in a shard's newest format`() throws {
    let session = try PostgreSQLTenure.takeOver(World.postgreSQL(), shard: 0, shardCount: 1, knownEpoch: 0).session
    for query in Self.all {
      let text = query.command.text
      let numbers = Set(text.split(separator: "$").dropFirst().compactMap { Int($0.prefix { $0.isNumber }) })
      let types = (1...max(1, numbers.max() ?? 1)).map { number in
        Self.types[query.name]?[number] ?? (numbers.contains(number) ? "unknown" : "bigint")
      }
      let name = "\"test \(query.name)\""
      let command = Command(name, "PREPARE \(name)(\(types.joined(separator: ", "))) AS \(text)")
      #expect(throws: Never.self, "\(query.name)") { try session.rows(command) }
    }
  }

  @Test func `an insertion of many rows writes the columns of that of one row, and PostgreSQL takes it`() throws {
    let session = try PostgreSQLTenure.takeOver(World.postgreSQL(), shard: 0, shardCount: 1, knownEpoch: 0).session
    var count = 0
    for query in Self.all {
      guard let text = query.rowsText, let rows = query.rowCommand else { continue }
      count += 1
      let one = query.text(.postgreSQL)
      #expect(one.prefix(while: { $0 != ")" }) == text.prefix(while: { $0 != ")" }), "\(query.name)")
      #expect(one.matches(of: #/\?[0-9]+/#).map(\.output) == text.matches(of: #/\?[0-9]+/#).map(\.output))
      #expect(rows.many.name.utf8.count <= 40 && rows.many.name != rows.one.name)
      let command = Command("make \(query.name)", "PREPARE \"test \(query.name)\" AS \(rows.many.text)")
      #expect(throws: Never.self, "\(query.name)") { try session.rows(command) }
    }
    #expect(count > 3)
  }

  @Test func `a look-up of many rows has the columns of that of one row, a number, and its index`() throws {
    let session = try PostgreSQLTenure.takeOver(World.postgreSQL(), shard: 0, shardCount: 1, knownEpoch: 0).session
    var count = 0
    // The statement alone would choose so once the table is large.
    _ = try session.rows(Command("indexes", "SET enable_seqscan = off"))
    for query in Self.all {
      guard let types = query.lookupTypes, let shared = query.sharedLookup else { continue }
      count += 1
      #expect(shared.many.name.utf8.count <= 40 && shared.many.name != shared.one.name)
      let values = types.map { type -> Value in
        switch type {
        case "i": .integers([1, 2])
        case "b": .byteStrings([[1], [2]])
        default: .texts(["1", "2"])
        }
      }
      let one = values.map { value -> Value in
        switch value {
        case .integers: .integer(1)
        case .byteStrings: .bytes([1])
        default: .text("1")
        }
      }
      let columns = try session.rows(shared.one, one).columnCount
      // A limited answer has sums, too.
      let added: Int32 = shared.byteLimit == nil ? 1 : 2
      #expect(try session.rows(shared.many, values).columnCount == columns + added, "\(query.name)")
      let plan = try session.rows(Command("plan \(query.name)", "EXPLAIN \(shared.many.text)"), values)
      let text = try plan.map { try $0.text(0) }.joined(separator: "\n")
      #expect(text.contains("Index Scan") && !text.contains("Seq Scan"), "\(query.name): \(text)")
    }
    #expect(count > 3)
  }

  @Test func `a text has no other question marks than those of parameters, which PostgreSQL marks otherwise`() {
    for query in Self.all {
      let marks = query.text(.postgreSQL).split(separator: "?", omittingEmptySubsequences: false).dropFirst()
      #expect(marks.allSatisfy { $0.first?.isNumber == true }, "\(query.name)")
      #expect(!query.text(.postgreSQL).contains("$"), "\(query.name)")
    }
  }
}

extension Query {
  fileprivate var name: String { sql(.sqlite).name }
}
