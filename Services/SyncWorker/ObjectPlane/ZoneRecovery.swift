// A store's zones come to their end, and go on: purged by their owner, and released when a user has decided (P3, P4).

import History
import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  /// `POST purge`: deletes a zone of the user's own with all its records, for every device. What other devices have not exported by then does
  /// not bring it back.
  func purgeZone(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let mirror = try await locate()
    if mirror.scope == .shared { return try await refuseSharing() }
    let zoneID = try PurgeZoneRequest(try JSONValue.request(body)).zone
    guard mirror.scope == .private else {
      throw RecordError(.badRequest, "zoneID: zones are purged in the private database; the public one has one zone, which stays", cocoaErrorCode: .mirroring)
    }
    guard zoneID.ownerRecordName ?? request.database.owner == request.database.owner, zoneID.zoneName != ReservedName.defaultZone else {
      throw RecordError(.zoneNotFound, "zoneID: the store has no zone '\(zoneID.zoneName.prefix(Limit.nameByteCount))'")
    }
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    let watch = context.watch(schema, by: user)
    let (count, ended) = try await exportingFirst(startNext: startNext) { transaction, mirror -> (Int, EndedZone?) in
      guard let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey), !zone.isDeleted else { return (0, nil) }
      let count = try transaction.recordCount(in: zone.key)
      let ended = try EndedZone(zone, as: .purged, watch: watch, by: storeIdentifier, in: transaction)
      // The store that asks knows of the end: what it saves from now on is new.
      var state = try transaction.syncState(of: mirror.key)
      state.sinceSequence = max(state.sinceSequence, ended.zone.sequence)
      try transaction.put(state, of: mirror.key)
      return (count, ended)
    }
    ended?.publish(of: request.database, by: context)
    return PlaneAnswer(body: StoreAnswer.purgedZone(count))
  }

  /// `POST zones/{zoneName}/resume`: what becomes of the objects of a zone that stands still for this store.
  func resumeZone(_ zoneName: String, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let decision = try ResumeZoneRequest(try JSONValue.request(body)).decision
    let at = now
    let commit = store.enqueue { transaction -> StoredMirror in
      let mirror = try self.mirror(in: transaction)
      guard var hold = try transaction.zoneHolds(of: mirror.key).first(where: { $0.zoneName == zoneName }) else {
        throw RecordError(.notFound, "No zone '\(zoneName.prefix(Limit.nameByteCount))' stands still for this store")
      }
      if let earlier = hold.decision {
        guard earlier == decision.rawValue else { throw RecordError(.conflict, "It was decided before: \(ZonePolicy(rawValue: earlier)?.action ?? "")") }
        return mirror
      }
      hold.decision = decision.rawValue
      try transaction.put(hold, of: mirror.key)
      let cause = QuarantineSelection.cause(QuarantineCause.zonePaused.rawValue)
      if decision == .keepAndReupload { _ = try transaction.retryQuarantined(cause, of: mirror.key, at: at) }
      return mirror
    }
    startNext()
    let mirror = try await value(of: commit)
    if decision == .delete { try await journalPaused(of: mirror, zoneName) }
    if mirror.quarantinedCount > 0 { await exports.signal(.backlog(mirrorKey: mirror.key), on: store.shard) }
    context.noticed(id(of: mirror))
    return PlaneAnswer(body: StoreAnswer.resumed(Zone.ID(zoneName: zoneName, ownerName: request.database.owner), decision))
  }
}

extension StoreCall {
  /// Rows looked at in one commit.
  private static let pausedPageCount = 100

  /// Puts what was saved while the zone stood still into the journal, a page a commit: said again, it goes on.
  private func journalPaused(of mirror: StoredMirror, _ zoneName: String) async throws(RecordError) {
    if mirror.quarantinedCount == 0 { return }
    let at = now
    var last: Int64 = 0
    while true {
      let after = last
      let end = try await value(
        of: store.enqueue { transaction -> Int64? in
          let rows = try transaction.quarantined(of: mirror.key, afterKey: after, limit: Self.pausedPageCount)
          let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: at)
          for row in rows where row.cause == QuarantineCause.zonePaused.rawValue {
            guard let payload = try transaction.quarantinedChanges(row.key) else { continue }
            for loss in UnexportedChanges([try HistoryTransaction(decoding: payload)], of: mirror).losses { try journal.append(loss, inZone: zoneName) }
            try transaction.removeQuarantined(row.name, of: mirror.key)
          }
          return rows.count == Self.pausedPageCount ? rows.last?.key : nil
        })
      guard let end else { return }
      last = end
    }
  }
}

/// A zone that was just deleted, with what that fired.
struct EndedZone: Sendable {
  let zone: StoredZone
  private let fired: [FiredSubscription]?

  /// Deletes a zone.
  /// - Parameter device: the one that asked for it, which need not be told.
  init(_ zone: StoredZone, as end: ZoneEnd, watch: SubscriptionWatch, by device: String?, in transaction: any ShardTransaction) throws {
    try transaction.deleteZone(zone.key, as: end)
    guard let deleted = try transaction.zone(key: zone.key) else { throw StoreError.corrupt("zone \(zone.key) is gone with its deletion") }
    self.zone = deleted
    let firing = try watch.firing(in: zone.databaseKey, transaction)
    firing?.zone(deleted: zone.zoneName, sequence: deleted.sequence, by: device)
    fired = try firing?.finish()
  }

  /// To be called when the commit is durable: every store hears of it.
  func publish(of database: DatabaseID, by context: PlaneContext) {
    context.changes.publish(ZoneChange(zone, of: database, originStore: nil, originUser: nil, hasSubscriptions: fired != nil))
    context.publish(fired ?? [])
  }
}
