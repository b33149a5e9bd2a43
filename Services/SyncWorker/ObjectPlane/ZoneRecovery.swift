// Ends and resumes a store's zones: a purge by the owner, and the release of a zone by its user's decision (P3, P4).

import History
import JSON
import Mirroring
import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
package import ZoneCommit

extension StoreCall {
  /// `POST purge`: deletes a zone of the user's own with all its records, for every device. Unexported changes of other
  /// devices do not bring it back.
  package func purgeZone(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let mirror = try await locate()
    if mirror.scope == .shared { return try await refuseSharing() }
    let asked = try PurgeZoneRequest(try JSONValue.request(body))
    let zoneID = asked.zone
    if asked.keepsCopy, zoneID.zoneName == mirror.defaultZoneName {
      throw RecordError(
        .badRequest, "keepCopy: zone '\(zoneID.zoneName)' takes the copies, and can't be copied itself",
        cocoaErrorCode: .mirroring)
    }
    guard mirror.scope == .private else {
      throw RecordError(
        .badRequest,
        "zoneID: only zones of the private database can be purged; the public database keeps its only zone",
        cocoaErrorCode: .mirroring)
    }
    guard zoneID.ownerRecordName ?? request.database.owner == request.database.owner,
      zoneID.zoneName != ReservedName.defaultZone
    else {
      throw RecordError(.zoneNotFound, "zoneID: the store has no zone '\(zoneID.zoneName.prefix(Limit.nameByteCount))'")
    }
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    let at = now
    let key = IdempotencyKey(request: request, body: body)
    let stamp = Stamp(timestamp: at, userRecordName: user, deviceID: mirror.identifier)
    let copying = CommitTerms(.copy, stamp, schema, shard: store.shard, context)
    let ending = CommitTerms(
      .endZone, by: WriteAuthor(userRecordName: user, device: storeIdentifier), stamp, schema, shard: store.shard,
      context)
    let purge = try await exportingFirst(startNext: startNext) { transaction, mirror -> ZonePurge? in
      // A repeated request does not purge a zone that was made again since.
      if let outcome = try key.outcome(in: transaction), case .saved(let count)? = outcome.items.first {
        return ZonePurge(count: Int(count), copies: ZoneCopy.copies(of: outcome.objectIDs, by: key))
      }
      guard let database = try transaction.database(key: mirror.databaseKey),
        let zone = try transaction.zone(named: zoneID.zoneName, in: mirror.databaseKey), !zone.isDeleted
      else {
        try key.put(RequestOutcome(at: at, items: [.saved(sequence: 0)]), in: transaction)
        return ZonePurge()
      }
      guard try transaction.clearConflicts(of: zone, before: .purged) else { return nil }
      let count = try transaction.recordCount(in: zone.key)
      var purge = ZonePurge(count: count)
      if asked.keepsCopy {
        let commit = try copying.begin(in: database, transaction)
        purge.copies = try ZoneCopy(commit: commit, zone: zone, key: key).make(
          in: mirror.defaultZoneName ?? ReservedName.privateMirrorZone)
        purge.effects = try commit.finish()
      }
      let commit = try ending.begin(in: database, transaction)
      let ended = try commit.end(zone, as: .purged)
      purge.effects.add(try commit.finish())
      // The caller's store knows of the end: its later saves are new.
      try transaction.put(
        StoredZoneHold(
          zoneName: zone.zoneName, end: .purged, endSequence: ended.sequence, heldAt: context.clock.now,
          decision: ZonePolicy.delete.rawValue), of: mirror.key)
      try key.put(
        RequestOutcome(at: at, items: [.saved(sequence: Int64(count))], objectIDs: purge.copies.map(\.objectID)),
        in: transaction)
      return purge
    }
    purge.effects.publish(by: context)
    try await journalHeld(of: mirror, in: zoneID.zoneName)
    return PlaneAnswer(body: StoreAnswer.purgedZone(purge.count, copies: asked.keepsCopy ? purge.copies : nil))
  }

  /// The results of a purge.
  private struct ZonePurge: Sendable {
    var count = 0
    var copies: [(objectID: String, copyID: String)] = []
    var effects = ZoneEffects()
  }

  /// `POST zones/{zoneName}/resume`: decides about the objects of a zone that is paused for this store.
  package func resumeZone(_ zoneName: String, startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer
  {
    let decision = try ResumeZoneRequest(try JSONValue.request(body)).decision
    let at = now
    let commit = store.enqueue { transaction -> StoredMirror in
      let mirror = try self.mirror(in: transaction)
      guard var hold = try transaction.zoneHolds(of: mirror.key).first(where: { $0.zoneName == zoneName }) else {
        throw RecordError(
          .notFound, "No zone '\(zoneName.prefix(Limit.nameByteCount))' waits for a decision of this store")
      }
      if let earlier = hold.decision {
        guard earlier == decision.rawValue else {
          throw RecordError(.conflict, "An earlier request decided: \(ZonePolicy(rawValue: earlier)?.action ?? "")")
        }
        return mirror
      }
      hold.decision = decision.rawValue
      try transaction.put(hold, of: mirror.key)
      return mirror
    }
    startNext()
    let mirror = try await value(of: commit)
    if decision == .delete {
      try await journalHeld(of: mirror, in: zoneName)
    } else {
      try await retryPaused(of: mirror, in: zoneName, at: at)
    }
    if mirror.quarantinedCount > 0 { exports.signal(.backlog(mirrorKey: mirror.key), on: store.shard) }
    context.noticed(id(of: mirror))
    return PlaneAnswer(
      body: StoreAnswer.resumed(Zone.ID(zoneName: zoneName, ownerName: request.database.owner), decision))
  }
}

extension StoreCall {
  /// Rows of one commit.
  private static let heldPageCount = 100

  /// Journals the held-back changes of a zone that went with its objects, so that none comes back by itself. Changes
  /// that came since stay: the call may be a repeated one.
  func journalHeld(of mirror: StoredMirror, in zoneName: String) async throws(RecordError) {
    try await forEachHeld(of: mirror, in: zoneName) { [at = now] rows, transaction in
      guard let hold = try transaction.zoneHolds(of: mirror.key).first(where: { $0.zoneName == zoneName }) else {
        return
      }
      let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: at)
      for row in rows {
        guard let payload = try transaction.quarantinedChanges(row.key) else { continue }
        let (gone, since) = hold.split(try HeldTransactions(decoding: payload).parts, heldFor: row.cause)
        if gone.isEmpty { continue }
        for loss in UnexportedChanges(gone, of: mirror).losses { try journal.append(loss, inZone: zoneName) }
        if since.isEmpty {
          try transaction.removeQuarantined(row.name, of: mirror.key)
        } else {
          let rest = HeldTransactions(since)
          try transaction.putQuarantined(
            row, changes: rest.encoded(), assets: rest.assets.filter { try transaction.hasContent(of: $0) })
        }
      }
    }
  }

  /// Makes due the changes that waited for a decision about a zone.
  private func retryPaused(of mirror: StoredMirror, in zoneName: String, at: Int64) async throws(RecordError) {
    try await forEachHeld(of: mirror, in: zoneName) { rows, transaction in
      let names = rows.filter { $0.cause == QuarantineCause.zonePaused.rawValue }.map(\.name)
      if !names.isEmpty { _ = try transaction.retryQuarantined(.names(names), of: mirror.key, at: at) }
    }
  }

  /// Visits the held-back rows of a zone's objects, a page in each commit; a repeated call continues.
  private func forEachHeld(
    of mirror: StoredMirror, in zoneName: String,
    _ body: @escaping @Sendable ([StoredQuarantine], any ShardTransaction) throws -> Void
  ) async throws(RecordError) {
    if try await read({ snapshot in try snapshot.mirror(key: mirror.key)?.quarantinedCount ?? 0 }) == 0 { return }
    var last: Int64 = 0
    while true {
      let after = last
      let end = try await value(
        of: store.enqueue { transaction -> Int64? in
          guard let current = try transaction.mirror(key: mirror.key) else { return nil }
          let rows = try transaction.quarantined(of: mirror.key, afterKey: after, limit: Self.heldPageCount)
          let locator = try ObjectLocator(of: current, in: transaction)
          try body(try rows.filter { try locator.lastZoneName(of: $0.name) == zoneName }, transaction)
          return rows.count == Self.heldPageCount ? rows.last?.key : nil
        })
      guard let end else { return }
      last = end
    }
  }
}
