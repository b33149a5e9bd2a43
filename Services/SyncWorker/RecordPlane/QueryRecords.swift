// records/query (wire-protocol 4.3).

import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import WebServices

extension RecordPlaneCall {
  func queryRecords() async throws(RecordError) -> PlaneAnswer {
    let schema = try await context.schemas.schema(of: database.container, database.environment)
    let request = try QueryRecordsRequest(json, owner: database.owner, schema: schema.schemaIndex)
    if database.environment == .production, !schema.schemaIndex.contains(recordType: request.query.recordType) {
      throw RecordError(.badRequest, "Did not find record type: \(request.query.recordType.prefix(Limit.nameByteCount))")
    }
    let zone = request.isZoneWide ? nil : try zone(request.zone ?? .defaultZone)
    if self.request.scope == .shared { return write(QuerySearch.Page(hits: [], moreComing: false), as: request, syncToken: nil) }
    let marker = try request.continuationMarker.map { text throws(RecordError) in try QueryMarker(text, for: request.query) }
    let database = database
    let page = try await read { snapshot in
      var search = QuerySearch(query: request.query, after: marker, limit: request.resultsLimit)
      if let zone {
        let row = try Self.require(zone, of: database, in: snapshot)
        if let row { try search.run(in: row, snapshot) }
        return (search.page, row)
      }
      if let row = try snapshot.database(database) {
        // A page is filled zone by zone, so that without an order it is full early.
        for zone in try Self.zones(of: row, in: snapshot).sorted(by: { $0.zoneName < $1.zoneName }) where !search.isFinished {
          try search.run(in: zone, snapshot)
        }
      }
      return (search.page, nil)
    }
    return write(page.0, as: request, syncToken: page.1?.shownSyncToken)
  }

  fileprivate func write(_ page: QuerySearch.Page, as request: QueryRecordsRequest, syncToken: String?) -> PlaneAnswer {
    var writers: [String: RecordDictionaryWriter] = [:]
    var output = JSONWriter(reservingByteCount: 1024 * (page.hits.count + 1))
    var last: QuerySearch.Hit?
    var isCut = false
    output.beginObject()
    output.key("records")
    output.beginArray()
    for hit in page.hits {
      if output.bytes.count > Self.pageByteCount {
        isCut = true
        break
      }
      let records = writers[hit.zoneName] ?? writer(for: Zone.ID(zoneName: hit.zoneName, ownerName: database.owner))
      writers[hit.zoneName] = records
      records.write(hit.stored.record, tag: hit.stored.tag, as: request.presentation, to: &output)
      last = hit
    }
    output.endArray()
    if let last, page.moreComing || isCut { output.member("continuationMarker", last.marker.text(for: request.query)) }
    if wantsSyncToken, let syncToken { output.member("syncToken", syncToken) }
    output.endObject()
    return PlaneAnswer(body: output.bytes)
  }
}

/// Collects one page of a query: the first records after the marker in the query's order.
private struct QuerySearch {
  struct Hit: Sendable {
    let zoneName: String
    let stored: StoredRecord
    let sortValues: [FieldValue?]

    var marker: QueryMarker { QueryMarker(zoneName: zoneName, recordName: stored.record.recordName, sortValues: sortValues) }
  }

  struct Page: Sendable {
    /// In the query's order.
    var hits: [Hit]
    var moreComing: Bool
  }

  let query: RecordQuery
  let marker: QueryMarker?
  let limit: Int
  /// In the query's order, at most one more than the limit.
  private var hits: [Hit] = []

  private static let chunk = 256

  init(query: RecordQuery, after marker: QueryMarker?, limit: Int) {
    self.query = query
    self.marker = marker
    self.limit = limit
  }

  /// Whether no further zone can contribute: without an order, zones and names decide.
  var isFinished: Bool { query.orders.isEmpty && hits.count > limit }

  var page: Page { Page(hits: Array(hits.prefix(limit)), moreComing: hits.count > limit) }

  mutating func run(in zone: StoredZone, _ snapshot: any ShardSnapshot) throws {
    var last: String?
    if query.orders.isEmpty, let marker {
      if zone.zoneName < marker.zoneName { return }
      if zone.zoneName == marker.zoneName { last = marker.recordName }
    }
    if let names = query.recordNames {
      for name in names {
        if let stored = try snapshot.record(named: name, in: zone.key), !stored.isDeleted { take(stored, zone) }
      }
      return
    }
    while !isFinished {
      let rows = try snapshot.records(ofType: query.recordType, in: zone.key, afterName: last, limit: Self.chunk)
      for row in rows { take(row, zone) }
      guard rows.count == Self.chunk, let end = rows.last else { return }
      last = end.record.recordName
    }
  }

  private mutating func take(_ stored: StoredRecord, _ zone: StoredZone) {
    guard query.matches(stored.record) else { return }
    let hit = Hit(zoneName: zone.zoneName, stored: stored, sortValues: query.sortValues(of: stored.record))
    if let marker, !precedes(marker, hit.marker) { return }
    if let end = hits.last, hits.count > limit, !precedes(hit.marker, end.marker) { return }
    hits.insert(hit, at: hits.partitioningIndex { precedes(hit.marker, $0.marker) })
    if hits.count > limit + 1 { hits.removeLast() }
  }

  private func precedes(_ first: QueryMarker, _ second: QueryMarker) -> Bool {
    query.precedes(first, second)
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
