// Exports to a zone that ended: changes saved before the store heard of the end do not make the zone again.

import History
import Mirroring
import RecordStore
import Records
import ServiceKit
import ZoneCommit

extension ExportRun {
  /// The changes of a batch that are not written.
  struct Unwritten {
    var problems: [MirroringProblem]
    var retryAt: Int64?
    /// Changes that will never be written.
    var lost: [HistoryChange] = []
    /// True if the other changes for the zone are written.
    var takesOthers = false
  }

  /// Takes the changes for one zone out of a batch if the zone ended. They wait in the quarantine while the zone is
  /// paused; where the objects go with their zone, the journal keeps them, and a user can bring them back.
  /// - Parameter zone: in its present state.
  /// - Returns: nil when the zone is the one that the store takes it for.
  func leaveOut(
    _ batch: inout ExportBatch, _ retried: inout [RetriedObject], from zone: StoredZone?, of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> Unwritten? {
    guard let zone else { return nil }
    let standing = try ZoneStanding(of: mirror, to: zone, in: transaction)
    if case .letGo(let hold) = standing { return try leaveOutHeld(&retried, hold, of: mirror, in: transaction) }
    guard let refusal = standing.refusal else { return nil }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    func isGone(_ objectID: String) throws -> Bool { try locator.lastZoneName(of: objectID) == zone.zoneName }
    let lost = try retried.filter { try isGone($0.row.name) }
    retried = try retried.filter { try !isGone($0.row.name) }
    var gone: [HistoryTransaction] = []
    for index in batch.transactions.indices {
      let changes = batch.transactions[index].changes
      if Exporter.exports(author: batch.transactions[index].author) {
        gone.append(batch.transactions[index])
        gone[gone.count - 1].changes = try changes.filter { try isGone($0.objectID) }
      }
      batch.transactions[index].changes = try changes.filter { try !isGone($0.objectID) }
    }
    // The slice's changes are in the transactions.
    batch.slice = nil
    let again = lost.flatMap { object in
      object.held.parts.map { ChangeOrigin($0).part($0.changes, at: object.row.firstAt) }
    }
    return try keep(again + gone, retried: lost, for: refusal, from: zone.zoneName, of: mirror, in: transaction)
  }

  /// Takes out the held-back changes from before the store let the zone's objects go: they go with them. A worker may
  /// have died before it journaled them.
  private func leaveOutHeld(
    _ retried: inout [RetriedObject], _ hold: StoredZoneHold, of mirror: StoredMirror,
    in transaction: any ShardTransaction
  ) throws -> Unwritten? {
    if retried.isEmpty { return nil }
    let locator = try ObjectLocator(of: mirror, in: transaction)
    var (lost, kept): ([RetriedObject], [RetriedObject]) = ([], [])
    var changes: [HistoryTransaction] = []
    for var object in retried {
      if try locator.lastZoneName(of: object.row.name) == hold.zoneName {
        let (gone, since) = hold.split(object.held.parts, heldFor: object.row.cause)
        changes += gone
        if since.isEmpty {
          lost.append(object)
          continue
        }
        object.held.parts = since
      }
      kept.append(object)
    }
    if changes.isEmpty { return nil }
    retried = kept
    var unwritten = try keep(
      changes, retried: lost, for: ZoneStanding.gone(hold.end), from: hold.zoneName, of: mirror, in: transaction)
    unwritten.takesOthers = true
    return unwritten
  }

  /// As `leaveOut`, for all zones but the default one. A zone in which objects are made again is made again.
  /// - Returns: nil when every zone is the one that the store takes it for.
  func leaveOutOfEndedZones(
    _ batch: inout ExportBatch, _ retried: inout [RetriedObject], of mirror: StoredMirror, _ commit: ZoneCommit
  ) throws -> Unwritten? {
    let transaction = commit.transaction
    let locator = try ObjectLocator(of: mirror, in: transaction)
    if locator.isSingle { return nil }
    var unwritten: Unwritten?
    let sent = batch.transactions + retried.flatMap(\.held.parts)
    for zone in try locator.endedZones(of: sent) where zone.zoneName != mirror.defaultZoneName {
      let left = try leaveOut(&batch, &retried, from: zone, of: mirror, in: transaction)
      if zone.isDeleted, left?.takesOthers ?? true {
        let isWanted = try (batch.transactions + retried.flatMap(\.held.parts)).contains { transaction in
          try Exporter.exports(author: transaction.author)
            && transaction.changes.contains {
              try $0.changeType == .insert && locator.lastZone(of: $0.objectID)?.key == zone.key
            }
        }
        if isWanted { _ = try commit.makeZone(named: zone.zoneName) }
      }
      guard let left else { continue }
      unwritten = Unwritten(
        problems: (unwritten?.problems ?? []) + left.problems,
        retryAt: [unwritten?.retryAt, left.retryAt].compactMap(\.self).min(),
        lost: (unwritten?.lost ?? []) + left.lost)
    }
    return unwritten
  }

  private func keep(
    _ unwritten: [HistoryTransaction], retried: [RetriedObject], for refusal: (cause: QuarantineCause, reason: String),
    from zoneName: String,
    of mirror: StoredMirror, in transaction: any ShardTransaction
  ) throws -> Unwritten {
    func problem(_ change: HistoryChange) -> MirroringProblem {
      MirroringProblem(
        recordName: change.objectID, entity: change.entity, code: .zoneNotFound, reason: refusal.reason,
        cause: refusal.cause)
    }
    if refusal.cause == .zonePaused {
      let leftOut = unwritten.flatMap { transaction in
        transaction.changes.map { LeftOutChange($0, problem($0), of: ChangeOrigin(transaction)) }
      }
      let settled = try settle(leftOut, [], retried: retried, sent: unwritten, of: mirror, in: transaction)
      return Unwritten(problems: settled.problems, retryAt: settled.retryAt)
    }
    let losses = UnexportedChanges(unwritten, of: mirror).losses
    let journal = ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: context.clock.now)
    for loss in losses { try journal.append(loss, inZone: zoneName) }
    for object in retried { try transaction.removeQuarantined(object.row.name, of: mirror.key) }
    return Unwritten(problems: losses.compactMap(\.lost.last).map(problem), lost: unwritten.flatMap(\.changes))
  }
}

/// Saved changes that will not be exported, object by object.
struct UnexportedChanges {
  let losses: [ConflictLoss]

  init(_ transactions: [HistoryTransaction], of mirror: StoredMirror) {
    var order: [String] = []
    var changes: [String: (changes: [HistoryChange], timestamp: Int64)] = [:]
    for transaction in transactions {
      for change in transaction.changes {
        if changes[change.objectID] == nil { order.append(change.objectID) }
        changes[change.objectID, default: ([], 0)].changes.append(change)
        changes[change.objectID]?.timestamp = transaction.timestamp
      }
    }
    losses = order.compactMap { name in
      guard let object = changes[name], let last = object.changes.last else { return nil }
      return ConflictLoss(
        kind: .unexported, objectID: name, entity: last.entity, lost: HeldChanges.compacted(object.changes),
        edit: Stamp(timestamp: object.timestamp, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID))
    }
  }
}
