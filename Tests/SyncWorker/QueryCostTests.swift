// Queries beyond the cost of one answer get short pages with a marker, or a refusal.

import InMemoryRecordStore
import Indexing
import JSON
@testable import RecordPlane
import RecordStore
import Records
import ServiceKit
import Testing
import WebServices
@testable import ZoneCommit

struct QueryCostTests {
  private struct Unwanted: Error {}

  /// Notes with long lists, in zone Z.
  private static func store(_ count: Int) async throws -> (store: any ShardStore, zone: StoredZone) {
    let store = try await InMemoryRecordStore(shardCount: 1, makeIncarnation: { 1 }).open(shard: 0)
    let zone = try await store.enqueue { transaction in
      let database = try transaction.makeDatabase(
        DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_alice"))
      let zone = try transaction.makeZone(named: "Z", in: database.key)
      let stamp = Stamp(timestamp: 0, userRecordName: "_alice", deviceID: "1")
      for number in 0..<count {
        let fields: Fields = [
          "l": .list(element: .int64, (0..<2000).map { .int64($0) }), "n": .int64(Int64(count - number)),
        ]
        let record = Record(
          recordName: "r\(1000 + number)", recordType: "Note", fields: fields, created: stamp, modified: stamp)
        try transaction.put(
          StoredRecord(
            record: record, isDeleted: false, sequence: try transaction.nextSequence(in: database.key), origin: 0,
            sequenceOfOthers: 0), in: zone.key,
          references: [], isNew: true)
      }
      return zone
    }.value
    return (store, zone)
  }

  private static let dear = RecordQuery(
    recordType: "Note", filters: [RecordQuery.Filter(key: .field("l"), comparator: .listContains, value: .int64(1999))])

  @Test func `a page ends where its cost does, after one record at least, and its marker leads on`() async throws {
    let (store, zone) = try await Self.store(40)
    for (pageCost, size) in [(1, 1), (5 * 4_000, 5), (QuerySearch.pageCost, 40)] {
      let pages = try await store.read { snapshot in
        var (pages, marker) = ([[String]](), QueryMarker?.none)
        repeat {
          var search = QuerySearch(
            query: Self.dear, after: marker, limit: 200, isZoneWide: false, indexes: [], pageCost: pageCost)
          try search.run(in: ZoneView(row: zone, access: nil), snapshot)
          pages.append(search.page.hits.map(\.stored.record.recordName))
          marker = search.page.next
        } while marker != nil && pages.count < 50
        return pages
      }
      #expect(pages.flatMap(\.self) == (0..<40).map { "r\(1000 + $0)" })
      #expect(
        pages.allSatisfy { $0.count <= size + 1 } && pages.first.map { $0.count >= size } == true,
        "\(pages.map(\.count))")
    }
  }

  @Test func `a search that nobody waits for ends within a few records, whatever they cost`() async throws {
    let (store, zone) = try await Self.store(40)
    let asked = try await store.read { snapshot in
      var asked = 0
      var search = QuerySearch(query: Self.dear, after: nil, limit: 200, isZoneWide: false, indexes: []) {
        asked += 1
        throw Unwanted()
      }
      #expect(throws: Unwanted.self) { try search.run(in: ZoneView(row: zone, access: nil), snapshot) }
      #expect(search.page.hits.count < 10)
      return asked
    }
    #expect(asked == 1)
  }

  @Test func `a search whose place can't be kept is given up at the limit with an error that says so`() async throws {
    let (store, zone) = try await Self.store(40)
    let query = RecordQuery(
      recordType: "Note", filters: Self.dear.filters,
      orders: [.init(key: .field("n"), isAscending: true), .init(key: .system(.createdTimestamp), isAscending: true)])
    await #expect(throws: CostBudget.Exceeded.self) {
      try await store.read { snapshot in
        var search = QuerySearch(
          query: query, after: nil, limit: 200, isZoneWide: false, indexes: [], pageCost: 1000, costLimit: 50_000)
        try search.run(in: ZoneView(row: zone, access: nil), snapshot)
      }
    }
    let error = RecordError(storing: CostBudget.Exceeded(), log: .silent)
    #expect(
      error.code == .tryAgainLater && error.retryAfter == 30
        && error.reason.contains("more than the server allows for one request"))
  }
}
