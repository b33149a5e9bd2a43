// CloudKit Web Services in the worker: one parse of the request, one write of the answer
// (docs/protocol/record-plane.md).

package import Assets
import JSON
package import RecordStore
package import Records
package import ServiceBus
package import ServiceKit
import WebServices
package import ZoneCommit

/// The services of the record plane's calls.
package struct RecordContext: CommittingContext {
  package let commits: CommitContext
  package let assets: any AssetStore
  package let signing: AssetSigning
  /// Finds the users that invitations name.
  package let people: any PeopleSource
  /// Records refused attempts at other users' data.
  package let audit: AccessAudit
  /// The most that one page of a query may cost.
  package let queryPageCost: Int
  /// Counts queries over the cost limit of one answer.
  package let queryCounts: QueryCounts
  package let pages: SharedPages

  package init(
    commits: CommitContext, assets: any AssetStore, signing: AssetSigning, people: any PeopleSource, audit: AccessAudit,
    queryPageCost: Int, queryCounts: QueryCounts, pages: SharedPages
  ) {
    self.pages = pages
    self.commits = commits
    self.assets = assets
    self.signing = signing
    self.people = people
    self.audit = audit
    self.queryPageCost = queryPageCost
    self.queryCounts = queryCounts
  }
}

/// Counts queries with a partial answer, and queries without one.
package final class QueryCounts: Sendable {
  /// Pages that ended early because of their cost.
  package let cutPages = Counter()
  /// Searches that cost too much and could not end with a partial page.
  package let givenUp = Counter()

  package init() {
  }
}

/// The record plane of the shards this worker holds.
package struct RecordPlane: ShardWork {
  package let context: RecordContext

  package init(context: RecordContext) {
    self.context = context
  }

  package func respond(
    to request: DatabaseRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    let route: RecordRoute
    switch request.route {
    case .record(let known): route = known
    case .unknown(let unknown): throw unknown.error
    case .store, .guest, .zone: throw RecordError(.notFound, "There is no call \(request.route.label)")
    }
    try Self.checkCaller(of: request)
    let call = RecordPlaneCall(
      request: request, json: try JSONValue.request(body), body: body, store: store, context: context)
    switch route {
    case .modifyRecords: return try await call.modifyRecords(startNext: startNext)
    case .lookUpRecords: return try await call.lookUpRecords()
    case .queryRecords: return try await call.queryRecords()
    case .fetchRecordChanges: return try await call.fetchRecordChanges()
    case .fetchDatabaseChanges: return try await call.fetchDatabaseChanges(tokenKeys: ["syncToken"])
    case .fetchZoneChanges: return try await call.fetchZoneChanges()
    case .listZones, .listZonesAsDocumented: return try await call.listZones()
    case .lookUpZones: return try await call.lookUpZones()
    case .modifyZones: return try await call.modifyZones(startNext: startNext)
    case .fetchChangedZones: return try await call.fetchDatabaseChanges(tokenKeys: ["metaSyncToken", "syncToken"])
    case .listSubscriptions, .listSubscriptionsAsDocumented: return try await call.listSubscriptions()
    case .lookUpSubscriptions: return try await call.lookUpSubscriptions()
    case .modifySubscriptions: return try await call.modifySubscriptions(startNext: startNext)
    case .rereferenceAssets: return try await call.rereferenceAssets()
    case .prepareZip, .startCopy, .checkCopy:
      throw RecordError(.badRequest, "This server does not offer \(route.pattern)")
    }
  }

  /// Removes indexes that the schemas no longer declare; queries do the same for their databases.
  package func run(on store: any ShardStore) async {
    do {
      var last: Int64 = 0
      while !Task.isCancelled {
        let after = last
        let page = try await store.read { snapshot in
          try snapshot.indexes(afterKey: after, limit: Self.indexPage).map {
            ($0, try snapshot.database(key: $0.databaseKey)?.id)
          }
        }
        for case (let stored, let database?) in page {
          let schema = try await context.schemas.schema(of: database.container, database.environment)
          if !schema.declares(stored.index, in: database.environment) {
            try await store.enqueue { try $0.dropIndex(stored.key) }.value
          }
        }
        guard page.count == Self.indexPage, let end = page.last else { return }
        last = end.0.key
      }
    } catch {
      // Not lost: the next query of each database, or the next opening, looks again.
      context.log.debug(
        "indexes were not compared with their schemas",
        ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
  }

  private static let indexPage = 200

  /// Decides whether a caller may ask at all; the write decides about writing.
  private static func checkCaller(of request: DatabaseRequest) throws(RecordError) {
    let user = request.caller.userRecordName
    switch request.scope {
    case .public:
      guard request.database.isPublic else { throw RecordError(.accessDenied, "The database is not public") }
    case .private:
      if request.caller.isOperator { return }
      guard let user else { throw RecordError(.authenticationRequired, "request needs authorization") }
      guard user == request.database.owner else {
        throw RecordError(.accessDenied, "The database belongs to another user")
      }
    case .shared:
      guard user != nil else { throw RecordError(.authenticationRequired, "request needs authorization") }
    }
  }
}

/// One request with the context that all handlers need. The handlers are extensions, one file per endpoint.
struct RecordPlaneCall: ShardCall {
  let request: DatabaseRequest
  let json: JSONValue
  let body: [UInt8]
  let store: any ShardStore
  let context: RecordContext

  var database: DatabaseID { request.database }
  /// The owner to show where a request names none.
  var ownerRecordName: String { database.isPublic ? DatabaseID.publicOwner : database.owner }
  /// True when the answer carries a `syncToken` at its top level.
  var wantsSyncToken: Bool { request.query["getCurrentSyncToken"] == "true" }

  /// The zone that a reference names, if the database can have it. Another owner's zone looks like a missing one.
  func zone(_ reference: ZoneReference) throws(RecordError) -> Zone.ID {
    let zone = Zone.ID(zoneName: reference.zoneName, ownerName: database.owner)
    let caller = request.caller.userRecordName
    switch request.scope {
    case .public:
      let isOwn = reference.ownerRecordName.map { $0 == database.owner || $0 == caller } ?? true
      guard isOwn, zone.isDefault else { throw RecordError.noZone(named: reference.zoneName) }
    case .private:
      guard reference.ownerRecordName ?? database.owner == database.owner else {
        context.audit.denied(
          Zone.ID(zoneName: reference.zoneName, ownerName: reference.ownerRecordName ?? ""), to: caller)
        throw RecordError.noZone(named: reference.zoneName)
      }
    case .shared:
      // A user has no access to own zones as shared ones; the read of the zone decides the rest.
      guard reference.ownerRecordName == database.owner, caller != database.owner, !zone.isDefault else {
        throw RecordError.noZone(named: reference.zoneName)
      }
    }
    return zone
  }

  /// Finds zones for the caller.
  var finder: ZoneFinder {
    ZoneFinder(
      database: database, participant: request.scope == .shared ? request.caller.userRecordName ?? "" : nil,
      audit: context.audit)
  }

  /// Writes the records of a zone into an answer.
  func writer(for zone: Zone.ID, showing shares: ShownShares? = nil) -> RecordDictionaryWriter {
    var writer = RecordDictionaryWriter(
      zone: zone, assets: context.signing.links(for: request, zone: zone, shard: store.shard))
    writer.shares = shares
    return writer
  }

  /// Writes a record from its row.
  func write(
    _ rows: RecordRows, at index: Int, by records: RecordDictionaryWriter, as presentation: RecordPresentation,
    to output: inout JSONWriter
  ) throws(RecordError) {
    let row = rows[index]
    do throws(StoreError) {
      try rows.read(at: index) { name, content throws(StoredFormatError) in
        try records.write(
          stored: content, recordName: name, recordType: row.recordType, tag: row.tag, as: presentation, to: &output)
      }
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }

  /// The bytes that the JSON of rows may take, so that it need not be moved while it grows.
  func room(for rows: RecordRows) -> Int {
    min(rows.byteCount + rows.count * Self.membersByteCount, Self.pageByteCount)
  }

  /// The size at which a page ends, whatever its `resultsLimit`: one more record of maximal size fits the bus's message
  /// limit.
  static let pageByteCount = 3_000_000

  /// What a record's JSON usually has beyond its fields' names and values, for making room.
  static let membersByteCount = 768
}

extension RecordPlaneCall {
  /// The caller's permissions; nil in a private database, where the caller is the owner.
  func permissions() async throws(RecordError) -> RecordPermissions? {
    guard database.isPublic else { return nil }
    return try await context.schemas.schema(of: database.container, database.environment).permissions(
      of: request.caller, in: database)
  }
}
