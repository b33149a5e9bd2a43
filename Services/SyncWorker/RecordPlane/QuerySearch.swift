// Finds one page of a query in a shard: the first records after the marker in the query's order, by the cheapest path.

import Indexing
import RecordStore
import Records
import WebServices
import ZoneCommit

/// Collects the hits of a page, zone by zone.
///
/// Indexes only propose records: each is looked at itself (`RecordQuery.matches`), so that an index that knows just the
/// beginning of a value, or words where a phrase was meant, is as good as one that knows all. Which path was taken
/// shows in nothing but the time.
package struct QuerySearch {
  struct Hit: Sendable {
    let zoneName: String
    let stored: StoredRecord
    let sortKeys: [[UInt8]]
    let byteCount: Int

    var marker: QueryMarker {
      QueryMarker(zoneName: zoneName, recordName: stored.record.recordName, sortKeys: sortKeys)
    }
  }

  struct Page: Sendable {
    /// In the query's order.
    var hits: [Hit] = []
    /// Where the next page begins; nil after the last.
    var next: QueryMarker?
  }

  let query: RecordQuery
  private let judge: QueryJudge
  let plan: QueryPlan
  let marker: QueryMarker?
  let limit: Int
  /// True when several zones are searched: a zone's own order is then not the query's.
  let isZoneWide: Bool
  /// The cost limit of one page where its place can be kept, including the last record examined. Such a page may be
  /// short or empty, and the next one goes on.
  let pageCost: Int
  /// The indexes that are ready.
  private let indexes: [FieldIndex: Int64]

  /// In the query's order: at most one more than the limit, and as many as a page has room for.
  private var hits: [Hit] = []
  private var byteCount = 0
  /// Hits were left out.
  private var hasMore = false
  /// The last record that was looked at, where the work for one page ended.
  private var stoppedAt: QueryMarker?
  private var lookedAtCount = 0
  /// The cost of examining records so far.
  private var lookedAtCost = 0
  /// The budget of the whole search; beyond it a search without a place to keep fails.
  private var budget: CostBudget
  /// Records of the largest zone that was gone through without an index, those of other types included.
  private var scannedZoneCount = 0
  /// Of the zone that is searched, where the caller sees only a part of it.
  private var visible: VisibleRecords?

  /// Records of one read. Large ones end it earlier.
  private static let chunk = 64
  /// Records that a query may look at in vain before it wants an index, and those of a zone it may pass over.
  static let tolerance = 100
  static let scanTolerance = 1000
  /// Reading a record, or asking an index how much it has in a range, in steps of a `CostBudget`.
  static let readCost = 100
  /// The usual `pageCost`: 20 000 records with a filter or two.
  package static let pageCost = 2_000_000
  /// The cost limit of a search: a million records, some seconds.
  static let costLimit = 100_000_000

  /// - Parameter checkWanted: called regularly; throws when the answer is no longer wanted.
  init(
    query: RecordQuery, after marker: QueryMarker?, limit: Int, isZoneWide: Bool, indexes: [StoredIndex],
    pageCost: Int = Self.pageCost,
    costLimit: Int = Self.costLimit, checkWanted: @escaping () throws -> Void = {}
  ) {
    self.query = query
    judge = QueryJudge(query)
    budget = CostBudget(limit: costLimit, checkWanted: checkWanted)
    self.pageCost = pageCost
    self.marker = marker
    self.limit = limit
    self.isZoneWide = isZoneWide
    self.indexes = Dictionary(
      indexes.filter(\.isReady).map { ($0.index, $0.key) }, uniquingKeysWith: { first, _ in first })
    plan = QueryPlan(query)
  }

  // MARK: Results

  var page: Page {
    let isLast = hits.count <= limit && !hasMore && stoppedAt == nil
    let shown = Array(hits.prefix(limit))
    return Page(hits: shown, next: isLast ? nil : hits.count > limit || hasMore ? shown.last?.marker : stoppedAt)
  }

  /// True when the page ended at its cost limit.
  var isCut: Bool { stoppedAt != nil }

  /// True when no further zone can contribute: without an order, zones and names decide.
  var isFinished: Bool { isCut || (query.orders.isEmpty && isFull) }

  /// The indexes that would have saved work, the most helpful first.
  var wishes: [FieldIndex] {
    let wishes = lookedAtCount - hits.count > Self.tolerance ? plan.wishes : []
    return scannedZoneCount > Self.scanTolerance ? wishes + [plan.type] : wishes
  }

  private var isFull: Bool { hits.count > limit || byteCount >= RecordPlaneCall.pageByteCount }

  // MARK: Paths

  mutating func run(in view: ZoneView, _ snapshot: any ShardSnapshot) throws {
    let zone = view.row
    let visible = VisibleRecords(view, in: snapshot)
    self.visible = visible.seesEverything ? nil : visible
    if query.orders.isEmpty, let marker, RecordQuery.zone(zone.zoneName, precedes: marker.zoneName) { return }
    let recordCount = try snapshot.recordCount(in: zone.key)
    let indexes = indexes
    let path = try plan.path(usable: { indexes[$0] != nil }, recordCount: recordCount, limit: limit) { access, limit in
      try count(access, in: zone, limit: limit, snapshot)
    }
    switch path {
    case .names(let names):
      for name in names {
        try budget.spend(Self.readCost)
        if let stored = try snapshot.record(named: name, in: zone.key), !stored.isDeleted { try take(stored, zone) }
      }
    case .candidates(let access) where query.orders.isEmpty && access.isInNameOrder:
      try stream(zone, scan(access.index, access.ranges[0], zone), isInOrder: true, snapshot)
    case .candidates(let access): try takeAll(access, zone, snapshot)
    case .walk(let index, let range): try stream(zone, scan(index, range, zone), isInOrder: true, snapshot)
    case .type(let index):
      if indexes[index] == nil { scannedZoneCount = max(scannedZoneCount, recordCount) }
      let isInOrder = query.orders.isEmpty
      let whole = indexes[index].map { IndexScan(index: $0, zone: zone.key, range: FieldIndex.typeRange) }
      try stream(zone, isInOrder ? scan(index, FieldIndex.typeRange, zone) : whole, isInOrder: isInOrder, snapshot)
    }
  }

  private mutating func count(_ access: IndexAccess, in zone: StoredZone, limit: Int, _ snapshot: any ShardSnapshot)
    throws -> Int
  {
    guard let index = indexes[access.index] else { return limit }
    var count = 0
    for range in access.ranges where count < limit {
      try budget.spend(Self.readCost)
      count += try snapshot.entryCount(of: index, in: zone.key, range: range, limit: limit - count)
    }
    return count
  }

  /// The scan of an index in the query's order from where this page begins.
  private func scan(_ index: FieldIndex, _ range: IndexRange, _ zone: StoredZone) -> IndexScan? {
    guard let key = indexes[index] else { return nil }
    var scan = IndexScan(index: key, zone: zone.key, range: range, isDescending: query.isDescending)
    guard let marker else { return scan }
    guard let first = marker.sortKeys.first else {
      // By name within one key.
      if zone.zoneName == marker.zoneName {
        scan.after = IndexPosition(key: range.lower, recordName: marker.recordName)
      }
      return scan
    }
    let rest = IndexRange(key: first).intersection(range)
    if scan.isDescending { scan.range.upper = rest.upper } else { scan.range.lower = rest.lower }
    // Among equals the further orders decide, and the names only after those.
    if query.orders.count == 1, zone.zoneName == marker.zoneName, range.contains(first) {
      scan.after = IndexPosition(key: first, recordName: marker.recordName)
    }
    return scan
  }

  /// Goes through records of an index, or without one of the type by name; in the query's order until the page is full.
  private mutating func stream(_ zone: StoredZone, _ scan: IndexScan?, isInOrder: Bool, _ snapshot: any ShardSnapshot)
    throws
  {
    // With further orders or zones, an unexamined record may come before an examined one.
    let keepsPlace = isInOrder && (query.orders.isEmpty || (query.orders.count == 1 && !isZoneWide))
    var scan = scan
    var last = query.orders.isEmpty && marker?.zoneName == zone.zoneName ? marker?.recordName : nil
    while true {
      let page: RowPage<IndexedRecord>
      if let scan {
        page = try snapshot.indexedRecords(scan, limit: Self.chunk, byteLimit: RecordPlaneCall.pageByteCount)
      } else {
        let found = try snapshot.records(
          ofType: query.recordType, in: zone.key, afterName: last, limit: Self.chunk,
          byteLimit: RecordPlaneCall.pageByteCount)
        page = RowPage(found.rows.map { IndexedRecord(key: [], stored: $0) }, isAtEnd: found.isAtEnd)
      }
      for row in page.rows {
        if isInOrder, isBeyondPage(row, zone) {
          hasMore = true
          return
        }
        try take(row.stored, zone)
        if keepsPlace, lookedAtCost >= pageCost, !isFull {
          stoppedAt = marker(of: row.stored, zone)
          return
        }
      }
      guard !page.isAtEnd, let end = page.rows.last else { return }
      last = end.stored.record.recordName
      scan?.after = IndexPosition(key: end.key, recordName: end.stored.record.recordName)
    }
  }

  /// True when neither this row nor any after it in the stream can be on the page.
  private func isBeyondPage(_ row: IndexedRecord, _ zone: StoredZone) -> Bool {
    guard isFull, let end = hits.last else { return false }
    guard let order = query.orders.first else { return true }
    if query.orders.count > 1 {
      return row.key != end.sortKeys[0] && end.sortKeys[0].lexicographicallyPrecedes(row.key) == order.isAscending
    }
    let place = QueryMarker(zoneName: zone.zoneName, recordName: row.stored.record.recordName, sortKeys: [row.key])
    return !query.precedes(place, end.marker)
  }

  /// Looks at every record of an access, once.
  private mutating func takeAll(_ access: IndexAccess, _ zone: StoredZone, _ snapshot: any ShardSnapshot) throws {
    guard let index = indexes[access.index] else { return }
    var seen: Set<String> = []
    for range in access.ranges {
      var scan = IndexScan(index: index, zone: zone.key, range: range)
      while true {
        let page = try snapshot.indexedRecords(scan, limit: Self.chunk, byteLimit: RecordPlaneCall.pageByteCount)
        for row in page.rows where seen.insert(row.stored.record.recordName).inserted { try take(row.stored, zone) }
        guard !page.isAtEnd, let end = page.rows.last else { break }
        scan.after = IndexPosition(key: end.key, recordName: end.stored.record.recordName)
      }
    }
  }

  // MARK: Hits

  private func marker(of stored: StoredRecord, _ zone: StoredZone) -> QueryMarker {
    QueryMarker(
      zoneName: zone.zoneName, recordName: stored.record.recordName, sortKeys: query.sortKeys(of: stored.record))
  }

  /// Every record passes here on its way to a page.
  private mutating func take(_ stored: StoredRecord, _ zone: StoredZone) throws {
    lookedAtCount += 1
    let before = budget.spent
    defer { lookedAtCost += budget.spent - before }
    try budget.spend(Self.readCost)
    var look = RecordLook(stored.record)
    guard try judge.passes(&look, spending: &budget), try visible?.isVisible(stored.record) ?? true else { return }
    let hit = Hit(
      zoneName: zone.zoneName, stored: stored, sortKeys: query.sortKeys(of: stored.record),
      byteCount: stored.record.fields.byteCount)
    if let marker, !query.precedes(marker, hit.marker) { return }
    if isFull, let end = hits.last, !query.precedes(hit.marker, end.marker) {
      hasMore = true
      return
    }
    hits.insert(hit, at: hits.partitioningIndex { query.precedes(hit.marker, $0.marker) })
    byteCount += hit.byteCount
    while let end = hits.last,
      hits.count > limit + 1 || (hits.count > 1 && byteCount - end.byteCount >= RecordPlaneCall.pageByteCount)
    {
      byteCount -= end.byteCount
      hits.removeLast()
      hasMore = true
    }
  }
}

extension Array {
  /// The first index whose element, like all after it, satisfies `belongsBehind`.
  fileprivate func partitioningIndex(_ belongsBehind: (Element) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if belongsBehind(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
