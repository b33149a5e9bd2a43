// records/query (docs/protocol/record-plane.md#records-query).

import Indexing
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

/// The findings of one read of a shard for a query.
private struct QueryFindings: Sendable {
  var page = QuerySearch.Page()
  var syncToken: String?
  /// The indexes of the database, ready or not.
  var indexes: [StoredIndex] = []
  var wishes: [FieldIndex] = []
  /// The page ended at its cost limit.
  var isCut = false
  /// The share members of the hits, by zone.
  var shares: [String: ShownShares] = [:]
}

extension RecordPlaneCall {
  func queryRecords() async throws(RecordError) -> PlaneAnswer {
    let environmentSchema = try await context.schemas.schema(of: database.container, database.environment)
    let schema = environmentSchema.schemaIndex
    let request = try QueryRecordsRequest(
      json, owner: database.owner, schema: schema, environment: database.environment)
    let zone = request.isZoneWide ? nil : try zone(request.zone ?? .defaultZone)
    let marker = try request.continuationMarker.map { text throws(RecordError) in
      try QueryMarker(text, for: request.query, by: markers)
    }
    let permissions = environmentSchema.permissions(of: self.request.caller, in: database)
    guard let query = request.query.readable(permissions?.readable(request.query.recordType)) else {
      return write(QuerySearch.Page(), as: request, syncToken: nil)
    }
    let (database, context, finder, caller) = (database, context, finder, self.request.caller.userRecordName)
    let findings = try await wishing(for: query, environmentSchema) { snapshot in
      var findings = QueryFindings()
      let row = try snapshot.database(database)
      if let row { findings.indexes = try snapshot.indexes(in: row.key) }
      // A search that stops at its cost limit names its place in the marker, even at an unreadable record: markers are
      // opaque.
      var search = QuerySearch(
        query: query, after: marker, limit: request.resultsLimit, isZoneWide: zone == nil, indexes: findings.indexes,
        pageCost: context.queryPageCost, checkWanted: snapshot.checkWanted)
      if let zone {
        let found = try finder.require(zone, in: snapshot)
        if let found { try search.run(in: found, snapshot) }
        findings.syncToken = found?.row.shownSyncToken
      } else if let row {
        // A page is filled zone by zone, so that without an order it is full early.
        let zones = try finder.zones(of: row, in: snapshot).sorted {
          RecordQuery.zone($0.row.zoneName, precedes: $1.row.zoneName)
        }
        for zone in zones where !search.isFinished { try search.run(in: zone, snapshot) }
      }
      findings.page = search.page
      if row?.hasShares == true {
        for (zoneName, hits) in Dictionary(grouping: findings.page.hits, by: \.zoneName) {
          guard let zone = try row.flatMap({ try snapshot.zone(named: zoneName, in: $0.key) }) else { continue }
          findings.shares[zoneName] = try ShownShares.shown(with: hits.map(\.stored), in: zone, to: caller, snapshot)
        }
      }
      findings.wishes = search.wishes
      findings.isCut = search.isCut
      return findings
    }
    if findings.isCut { context.queryCounts.cutPages.increment() }
    maintainIndexes(after: findings, environmentSchema)
    return write(findings.page, as: request, syncToken: findings.syncToken, findings.shares)
  }

  /// Reads, and has the indexes made that the query misses also where it looks at too much without them for one read.
  private func wishing(
    for query: RecordQuery, _ schema: EnvironmentSchema,
    _ body: @escaping @Sendable (any ShardSnapshot) throws -> QueryFindings
  ) async throws(RecordError) -> QueryFindings {
    do throws(RecordError) {
      return try await read(body)
    } catch {
      guard error.code == .tryAgainLater else { throw error }
      if error == .tooMuch { context.queryCounts.givenUp.increment() }
      let database = database
      var findings = try await read { snapshot in
        QueryFindings(indexes: try snapshot.database(database).map { try snapshot.indexes(in: $0.key) } ?? [])
      }
      let plan = QueryPlan(query)
      findings.wishes = plan.wishes + [plan.type]
      maintainIndexes(after: findings, schema)
      throw error
    }
  }

  private var markers: QueryMarker.Maker {
    QueryMarker.Maker(key: context.signing.key, database: database, userRecordName: request.caller.userRecordName)
  }

  /// Builds the index that the query missed most, and removes indexes that the schema no longer declares.
  private func maintainIndexes(after findings: QueryFindings, _ schema: EnvironmentSchema) {
    let environment = database.environment
    let stale = findings.indexes.filter { !schema.declares($0.index, in: environment) }.map(\.key)
    let known = Set(findings.indexes.map(\.index))
    let wish = findings.wishes.first { schema.declares($0, in: environment) && !known.contains($0) }
    let isRoom = known.count < Self.indexLimit
    guard !stale.isEmpty || (wish != nil && isRoom) else { return }
    let database = database
    // The query does not wait for it: until it is done, queries go without the index and ask again.
    _ = store.enqueue { transaction in
      for key in stale { try transaction.dropIndex(key) }
      if let wish, isRoom, let row = try transaction.database(database) {
        _ = try transaction.makeIndex(wish, in: row.key)
      }
    }
  }

  /// Indexes of one database: each is paid for with every save.
  private static let indexLimit = 100

  fileprivate func write(
    _ page: QuerySearch.Page, as request: QueryRecordsRequest, syncToken: String?, _ shares: [String: ShownShares] = [:]
  ) -> PlaneAnswer {
    var writers: [String: RecordDictionaryWriter] = [:]
    var output = JSONWriter(reservingByteCount: 1024 * (page.hits.count + 1))
    var last: QuerySearch.Hit?
    var next = page.next
    output.beginObject()
    output.key("records")
    output.beginArray()
    for hit in page.hits {
      if output.bytes.count > Self.pageByteCount {
        next = last?.marker
        break
      }
      let records =
        writers[hit.zoneName]
        ?? writer(for: Zone.ID(zoneName: hit.zoneName, ownerName: database.owner), showing: shares[hit.zoneName])
      writers[hit.zoneName] = records
      records.write(hit.stored.record, tag: hit.stored.tag, as: request.presentation, to: &output)
      last = hit
    }
    output.endArray()
    if let next { output.member("continuationMarker", next.text(for: request.query, by: markers)) }
    if wantsSyncToken, let syncToken { output.member("syncToken", syncToken) }
    output.endObject()
    return PlaneAnswer(body: output.bytes)
  }
}

extension RecordQuery {
  /// The query limited to readable records; nil when no record of the type is readable, `self` without limits.
  fileprivate func readable(_ readable: RecordPermissions.Readable?) -> RecordQuery? {
    switch readable {
    case nil, .all?: return self
    case .none?: return nil
    case .created(let user)?:
      let own = Filter(key: .system(.createdUserRecordName), comparator: .equals, value: .string(user))
      return RecordQuery(recordType: recordType, filters: filters + [own], orders: orders)
    }
  }
}
