// Reports a store's remaining work and its progress.

import Mirroring
package import RecordStore
package import Records
import ServiceBus
package import WebServices
package import ZoneCommit

extension StoreCall {
  /// With `caughtUp=<token>` also whether the client's store has all that the token covers; `wait` waits for that.
  package func status() async throws(RecordError) -> PlaneAnswer {
    let waits = try waitsForStatus()
    let status = try await storeStatus()
    return PlaneAnswer(mayWait: waits && !status.caughtUp, body: status.json)
  }

  package func waitsForStatus() throws(RecordError) -> Bool {
    try integer("wait", default: 0, minimum: 0, maximum: 60) > 0
  }

  package func storeStatus() async throws(RecordError) -> StoreStatus {
    let waits = try waitsForStatus()
    let state = try await read { snapshot -> Standing in
      let current = try self.mirror(in: snapshot)
      if waits { watch(current) }
      return try Standing(of: current, in: snapshot)
    }
    let mirror = state.mirror
    let quarantined = mirror.quarantinedCount
    let downloads = try await news(
      for: mirror, after: imports.position(of: held(mirror)) ?? mirror.importedSequence, through: .max)
    var isCaughtUp = state.uploads.transactionCount == 0 && downloads == 0
    if let target = try await barrier() {
      let confirmed = await imports.confirmed(of: held(mirror)) ?? mirror.importedSequence
      isCaughtUp = confirmed >= target
      if !isCaughtUp { isCaughtUp = try await news(for: mirror, after: confirmed, through: target) == 0 }
    } else if waits {
      throw RecordError(.badRequest, "wait needs caughtUp: a token to wait for")
    }
    let facts = await facts(of: mirror, quarantined: quarantined)
    let pending = StoreStatus.Pending(
      uploads: state.uploads.transactionCount, objects: state.uploads.objectCount, downloads: downloads,
      quarantined: quarantined,
      notImported: state.notImportedCount, conflicts: state.conflictCount, bytes: state.uploads.byteCount,
      isPartial: !state.uploads.isComplete || downloads == Self.newsLimit)
    var status = StoreStatus(
      pending: pending, activity: facts.activity, throttledUntil: facts.throttledUntil,
      lastExport: state.lastExport.map(event),
      lastImport: state.lastImport.map(event), caughtUp: isCaughtUp)
    status.firstImportAt = state.sync.firstImportAt
    status.openReset = state.sync.openResetCount > 0 ? ResetReason(rawValue: state.sync.resetReason) ?? .other : nil
    status.heldZones = state.holds.map {
      StoreStatus.HeldZone(
        zone: Zone.ID(zoneName: $0.zoneName, ownerName: request.database.owner), end: $0.end, since: $0.heldAt)
    }
    switch plane.moves.phase(of: id(of: mirror)) {
    case .planning(let count)?: status.move = StoreStatus.Move(phase: "planning", done: count, total: nil)
    case .writing(let count, let total)?: status.move = StoreStatus.Move(phase: "writing", done: count, total: total)
    case nil: break
    }
    return status
  }

  /// The stored part of a store's status.
  private struct Standing: Sendable {
    let mirror: StoredMirror
    let lastExport: StoredEvent?
    let lastImport: StoredEvent?
    let uploads: PendingUploads
    let sync: StoredSyncState
    /// Paused zones.
    let holds: [StoredZoneHold]
    let notImportedCount: Int
    /// Conflicts that wait for a decision.
    let conflictCount: Int

    init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
      self.mirror = mirror
      lastExport = try snapshot.latestEvent(of: mirror.key, kind: .export)
      lastImport = try snapshot.latestEvent(of: mirror.key, kind: .import)
      uploads = try PendingUploads(of: mirror, in: snapshot)
      sync = try snapshot.syncState(of: mirror.key)
      holds = try snapshot.zoneHolds(of: mirror.key).filter { $0.decision == nil }
      conflictCount = try snapshot.openConflictCount(for: mirror)
      notImportedCount = try snapshot.unimported(of: mirror.key, afterKey: 0, limit: ImportBatch.unimportedLimit).count
    }
  }

  package func id(of mirror: StoredMirror) -> MirrorID { MirrorID(shard: store.shard, key: mirror.key) }

  package func held(_ mirror: StoredMirror) -> HeldMirror { HeldMirror(mirror: id(of: mirror), epoch: store.epoch) }

  /// Lets gateways hear of the store's activity, for a little longer than a request may wait.
  package func watch(_ mirror: StoredMirror) {
    context.watches.watch(
      id(of: mirror), StoreChange(database: request.database, storeIdentifier: storeIdentifier),
      until: now + Self.watchTime, now: now)
  }

  /// Milliseconds for which a store is watched.
  private static let watchTime: Int64 = 90_000

  func facts(of mirror: StoredMirror, quarantined: Int) async -> StoreFacts {
    await plane.facts(of: mirror, in: request.database, quarantined: quarantined, id(of: mirror))
  }

  /// The sequence that `caughtUp` names: an import token's, or the sync token of a save's answer.
  private func barrier() async throws(RecordError) -> Int64? {
    guard let text = request.query["caughtUp"], !text.isEmpty else { return nil }
    var positions: [SyncToken.Position]?
    for kind in [SyncToken.Kind.database, .importBatch] where positions == nil {
      // Dropped because a token of neither kind is refused below.
      positions = try? SyncToken(text, as: kind).positions
    }
    guard let position = positions?.first else { throw SyncToken.Refusal.unknownType.recordError }
    return try await read { snapshot in
      guard let database = try snapshot.database(request.database), position.incarnation == database.incarnation,
        position.sequence <= database.sequence
      else {
        throw SyncToken.Refusal.unknownType.recordError
      }
      return position.sequence
    }
  }

  /// The number of records that others changed after a position and up to `last`. It looks at most at the first few
  /// hundred changes of a zone, and counts all of these when there are more. It reads records for the stores of users
  /// with partial sight alone.
  private func news(for mirror: StoredMirror, after position: Int64, through last: Int64) async throws(RecordError)
    -> Int
  {
    try await read { snapshot in
      let guest = mirror.isGuest ? try GuestZones(of: mirror, snapshot) : nil
      var count = 0
      for zone in try snapshot.mirroredZones(of: mirror, after: position)
      where !zone.isDeleted && count < Self.newsLimit {
        let visible = guest?.visible(in: zone, snapshot)
        do {
          count += try Self.news(in: zone, seenAs: visible, for: mirror, after: position, through: last, snapshot)
        } catch StoreError.corrupt {
          // Dropped because the import reports the damage, and the log tells an operator.
          return Self.newsLimit
        }
      }
      return min(count, Self.newsLimit)
    }
  }

  private static func news(
    in zone: StoredZone, seenAs visible: VisibleRecords?, for mirror: StoredMirror, after position: Int64,
    through last: Int64, _ snapshot: any ShardSnapshot
  ) throws -> Int {
    guard let visible, !visible.seesEverything else {
      let marks = try snapshot.changeMarks(in: zone.key, after: position, limit: newsLimit)
      if marks.count == newsLimit, let end = marks.last?.sequence, end <= last { return newsLimit }
      return marks.count { $0.sequence <= last && ($0.origin != mirror.key || $0.sequenceOfOthers > position) }
    }
    // A longer look, so that hidden records do not count.
    var (count, lookCount, end) = (0, 0, position)
    while count < newsLimit, lookCount < sightLimit {
      var rows = RecordRows(of: zone.key)
      let isAtEnd = try snapshot.readChanges(after: end, limit: newsLimit, byteLimit: sightByteLimit, into: &rows)
      for index in rows.indices {
        let row = rows[index]
        (end, lookCount) = (row.sequence, lookCount + 1)
        if end > last { return count }
        guard row.origin != mirror.key || row.sequenceOfOthers > position else { continue }
        switch try visible.sight(of: rows.record(at: index)) {
        case .visible: count += 1
        case .gone(let sequence): if sequence > position { count += 1 }
        case .hidden: break
        }
      }
      if isAtEnd { return count }
    }
    return newsLimit
  }

  private static let newsLimit = 500
  /// Changes of a zone that are looked at for a user with partial sight, and bytes of them that are in memory together.
  private static let sightLimit = 20 * newsLimit
  private static let sightByteLimit = 1 << 20
}
