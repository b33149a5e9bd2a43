// CloudKit Web Services in the worker: one parse of the request, one write of the answer
// (docs/protocol/record-plane.md).

import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

/// The record plane of the shards this worker holds.
struct RecordPlane: Plane {
  let context: PlaneContext

  func respond(
    to request: DatabaseRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    let endpoint = try Endpoint(request)
    try Self.checkCaller(of: request)
    let call = RecordPlaneCall(request: request, json: try JSONValue.request(body), body: body, store: store, context: context)
    switch endpoint {
    case .recordsModify: return try await call.modifyRecords(startNext: startNext)
    case .recordsLookup: return try await call.lookUpRecords()
    case .recordsQuery: return try await call.queryRecords()
    case .recordsChanges: return try await call.fetchRecordChanges()
    case .changesDatabase: return try await call.fetchDatabaseChanges(tokenKeys: ["syncToken"])
    case .changesZone: return try await call.fetchZoneChanges()
    case .zonesList: return try await call.listZones()
    case .zonesLookup: return try await call.lookUpZones()
    case .zonesModify: return try await call.modifyZones(startNext: startNext)
    case .zonesChanges: return try await call.fetchDatabaseChanges(tokenKeys: ["metaSyncToken", "syncToken"])
    case .subscriptionsList: return try await call.listSubscriptions()
    case .subscriptionsLookup: return try await call.lookUpSubscriptions()
    case .subscriptionsModify: return try await call.modifySubscriptions(startNext: startNext)
    case .assetsRereference: return try await call.rereferenceAssets()
    }
  }

  /// Removes indexes that the schemas no longer declare; queries do the same for their databases.
  func run(on store: any ShardStore) async {
    do {
      var last: Int64 = 0
      while !Task.isCancelled {
        let after = last
        let page = try await store.read { snapshot in
          try snapshot.indexes(afterKey: after, limit: Self.indexPage).map { ($0, try snapshot.database(key: $0.databaseKey)?.id) }
        }
        for case (let stored, let database?) in page {
          let schema = try await context.schemas.schema(of: database.container, database.environment)
          if !schema.declares(stored.index, in: database.environment) { try await store.enqueue { try $0.dropIndex(stored.key) }.value }
        }
        guard page.count == Self.indexPage, let end = page.last else { return }
        last = end.0.key
      }
    } catch {
      // Not lost: the next query of each database, or the next opening, looks again.
      context.log.debug("indexes were not compared with their schemas", ["shard": .integer(Int64(store.shard)), "error": .text(String(describing: error))])
    }
  }

  private static let indexPage = 200

  /// The paths after `/{database}/` that are answered here.
  private enum Endpoint: String {
    case recordsModify = "records/modify"
    case recordsLookup = "records/lookup"
    case recordsQuery = "records/query"
    case recordsChanges = "records/changes"
    case changesDatabase = "changes/database"
    case changesZone = "changes/zone"
    case zonesList = "zones/list"
    case zonesLookup = "zones/lookup"
    case zonesModify = "zones/modify"
    case zonesChanges = "zones/changes"
    case subscriptionsList = "subscriptions/list"
    case subscriptionsLookup = "subscriptions/lookup"
    case subscriptionsModify = "subscriptions/modify"
    case assetsRereference = "assets/rereference"

    init(_ request: DatabaseRequest) throws(RecordError) {
      let path = request.path.joined(separator: "/")
      if request.path.starts(with: ["records", "zip"]) || request.path.starts(with: ["records", "copy"]) {
        throw RecordError(.badRequest, "\(path.prefix(100)) is not offered")
      }
      guard let endpoint = Endpoint(rawValue: path) else { throw RecordError(.notFound, "There is no endpoint \(path.prefix(100))") }
      guard request.method == "POST" || (request.method == "GET" && (endpoint == .zonesList || endpoint == .subscriptionsList)) else {
        throw RecordError(.badRequest, "\(path) takes POST", httpStatus: 405)
      }
      self = endpoint
    }
  }

  /// Decides whether a caller may ask at all; the write decides about writing.
  private static func checkCaller(of request: DatabaseRequest) throws(RecordError) {
    let user = request.caller.userRecordName
    switch request.scope {
    case .public:
      guard request.database.isPublic else { throw RecordError(.accessDenied, "The database is not public") }
    case .private:
      if request.caller.isOperator { return }
      guard let user else { throw RecordError(.authenticationRequired, "request needs authorization") }
      guard user == request.database.owner else { throw RecordError(.accessDenied, "The database belongs to another user") }
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
  let context: PlaneContext

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
      guard isOwn, zone.isDefault else { throw Self.missing(reference.zoneName) }
    case .private:
      guard reference.ownerRecordName ?? database.owner == database.owner else {
        context.audit.denied(Zone.ID(zoneName: reference.zoneName, ownerName: reference.ownerRecordName ?? ""), to: caller)
        throw Self.missing(reference.zoneName)
      }
    case .shared:
      // A user has no access to own zones as shared ones; the read of the zone decides the rest.
      guard reference.ownerRecordName == database.owner, caller != database.owner, !zone.isDefault else { throw Self.missing(reference.zoneName) }
    }
    return zone
  }

  /// Finds zones for the caller.
  var finder: ZoneFinder {
    ZoneFinder(database: database, participant: request.scope == .shared ? request.caller.userRecordName ?? "" : nil, audit: context.audit)
  }

  static func missing(_ zoneName: String) -> RecordError {
    RecordError(.zoneNotFound, "Zone '\(zoneName.prefix(Limit.nameByteCount))' does not exist")
  }

  /// Writes the records of a zone into an answer.
  func writer(for zone: Zone.ID, showing shares: ShownShares? = nil) -> RecordDictionaryWriter {
    var writer = RecordDictionaryWriter(zone: zone, assets: context.assetLinks(for: request, zone: zone, shard: store.shard))
    writer.shares = shares
    return writer
  }

  /// The size at which a page ends, whatever its `resultsLimit`: one more record of maximal size fits the bus's message
  /// limit.
  static let pageByteCount = 3_000_000
}

extension PlaneContext {
  /// Writes the records of a zone into an answer.
  /// - Parameter shard: the zone's shard.
  func writer(for zone: Zone.ID, baseURL: String, shard: Int) -> RecordDictionaryWriter {
    RecordDictionaryWriter(zone: zone, assets: assetLinks(baseURL: baseURL, shard: shard))
  }

  /// Links to an answer's assets for its reader; those of shared zones hold only as long as the share.
  /// - Parameter zone: the zone of the assets; nil: zones of the database that the caller may read.
  func assetLinks(for request: DatabaseRequest, zone: Zone.ID? = nil, shard: Int) -> RecordDictionaryWriter.AssetLinks {
    let database = request.database
    let reader = request.caller.userRecordName.flatMap { user in
      request.scope != .shared || user == database.owner
        ? nil
        : AssetURL.Reader(
          container: database.container, environment: database.environment, owner: database.owner, userRecordName: user, zoneName: zone?.zoneName)
    }
    return assetLinks(baseURL: request.baseURL, shard: shard, reader: reader)
  }

  /// Links to an answer's assets.
  private func assetLinks(baseURL: String, shard: Int, reader: AssetURL.Reader? = nil) -> RecordDictionaryWriter.AssetLinks {
    RecordDictionaryWriter.AssetLinks(
      baseURL: baseURL, signingKey: signingKey, expiry: clock.now / 1000 + AssetLifetime.urlSeconds, shard: shard, reader: reader)
  }
}

extension StoredZone {
  /// The zone's feed up to its last change.
  var syncToken: SyncToken { SyncToken(.zone, incarnation: incarnation, sequence: sequence) }

  /// The token clients are shown; the default zone keeps no feed for them.
  var shownSyncToken: String? { zoneName == ReservedName.defaultZone ? nil : syncToken.text }
}

extension StoredRecord {
  var tag: RecordChangeTag { RecordChangeTag(sequence: sequence) }
}
