// The statements: each has its own place among the prepared ones, and SQLite takes each.

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
    }
  }

  private static var all: [any Query] {
    func cases(_ type: (some Query).Type) -> [any Query] { type.allCases.map { $0 } }
    return QuerySubject.allCases.flatMap { cases(statements($0)) }
  }

  @Test func `no two statements share a place or a name, and every place is in the list`() {
    let count = QuerySubject.allCases.count * QuerySubject.statementLimit
    #expect(Set(Self.all.map(\.place)).count == Self.all.count)
    #expect(Set(Self.all.map(\.sql.name)).count == Self.all.count)
    #expect(Self.all.allSatisfy { (0..<count).contains($0.place) })
  }

  @Test func `SQLite takes every statement in a shard's newest format`() throws {
    let folder = try TemporaryFolder()
    let connection = try ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1).takeOver()
      .connection
    defer { connection.close() }
    for query in Self.all { #expect(throws: Never.self, "\(query.sql.name)") { try connection.prepare(query.sql) } }
  }
}
