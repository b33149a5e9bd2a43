// Runs an export batch in one zone: plans, judges and writes it, and undoes changes that the store's user may not make.

import History
import Mirroring
import RecordStore
import Records
import ServiceKit
import ZoneCommit

/// A batch's part in one zone.
struct ZoneExport {
  /// The key of the zone's row.
  let zone: Int64
  var written: [PlannedWrite] = []
  var leftOut: [LeftOutChange] = []
  /// To be held back.
  var refused: [ExportWrites.Refusal] = []
  /// The changes that were undone, for the event.
  var reverted: [MirroringProblem] = []
  /// The losses that the store's user is told of, for the event.
  var conflicts: [MirroringProblem] = []
}

extension ExportRun {
  /// - Parameters:
  ///   - earlier: the transactions that go before the batch.
  ///   - sent: all transactions, the batch included.
  ///   - lost: the batch's changes of objects that went with their zones.
  func export(
    _ batch: ExportBatch, after earlier: [HistoryTransaction], sent: [HistoryTransaction], lost: [HistoryChange],
    of mirror: StoredMirror, to zone: StoredZone,
    _ locator: ObjectLocator, _ commit: ZoneCommit
  ) throws -> ZoneExport {
    let transaction = commit.transaction
    let source = locator.source(in: zone)
    let permissions = try access(of: mirror, to: zone, in: transaction)
    source.restrictPast(to: permissions)
    let writes = ExportWrites(
      .export, zone: zone, source: source, transaction: transaction, permissions: permissions, schema: schema,
      database: database, quota: quota,
      isolation: isolation)
    var reverting: [String: ExportWrites.Refusal] = [:]
    var export = ZoneExport(zone: zone.key)
    while true {
      var exporter = exporter(
        of: mirror, from: source, elsewhere: locator.elsewhere(than: zone), reverting: Set(reverting.keys),
        isolatesErrors: isolation != nil,
        judge: ConflictJudge(rules: schema.conflictRules, store: mirror.key, stamp: stamp(of: mirror)))
      if source.hasRedirects {
        exporter.importedAt =
          try transaction.latestEvent(of: mirror.key, kind: .import).map { max($0.startedAt, $0.endedAt ?? 0) } ?? 0
      }
      for transaction in earlier { try exporter.apply(transaction) }
      if !earlier.isEmpty { exporter.tellOfLateChanges() }
      try batch.apply(to: &exporter)
      for change in lost { try exporter.tellOfLost(change) }
      let plan = exporter.plan()
      let verdict = try writes.verdict(on: plan.writes)
      // All changes of a record that its user may not write are undone together, and nothing follows from them.
      let forbidden = verdict.refused.filter { $0.problem.cause == .permission }
      let more = forbidden.isEmpty ? [] : own(forbidden, in: sent).filter { reverting[$0.problem.recordName] == nil }
      guard more.isEmpty else {
        for refusal in more { reverting[refusal.problem.recordName] = refusal }
        continue
      }
      let (losses, conflicts) = try journal(plan.losses, verdict.refused, of: mirror, in: zone, transaction)
      export.conflicts = conflicts
      // The journal has these changes: they are not held back, which would lose them again.
      export.leftOut = plan.leftOut.filter { item in
        item.problem.cause != .deleted
          || !losses.contains { $0.objectID == item.change.objectID && $0.isOfEdit(by: mirror.deviceID) }
      }
      export.refused = verdict.refused.filter { $0.problem.cause != .permission }
      export.written = try write(verdict, of: mirror, to: zone, from: source, commit)
      let told = Set(export.written.map(\.item.recordName))
      let undone = forbidden.map(\.write.item.record).filter { !told.contains($0.recordName) } + plan.withdrawn
      export.written += try tellAgain(undone, in: zone, from: source, commit)
      commit.restrictMerges(to: permissions)
      export.written += try commit.mergeDuplicates(in: zone).writes
      // Changes of other objects that concern an undone object were in its record when that was refused.
      let undoings =
        reverting.values.sorted { $0.problem.recordName < $1.problem.recordName }
        + forbidden.filter { reverting[$0.problem.recordName] == nil }
      for refusal in undoings { try note(refusal, of: batch, after: earlier, of: mirror, in: zone, transaction) }
      export.reverted = undoings.map(\.problem)
      return export
    }
  }

  /// Refusals for objects that the transactions change themselves; the others follow from changes of other objects.
  private func own(_ refusals: [ExportWrites.Refusal], in sent: [HistoryTransaction]) -> [ExportWrites.Refusal] {
    let changed = Set(sent.lazy.filter { Exporter.exports(author: $0.author) }.flatMap(\.changes).map(\.objectID))
    return refusals.filter { changed.contains($0.problem.recordName) }
  }

  /// Puts undone changes into the journal, for a user who gets the permission later. A transaction in slices is noted
  /// as a whole, with the slice that has the object's own step.
  private func note(
    _ refusal: ExportWrites.Refusal, of batch: ExportBatch, after earlier: [HistoryTransaction],
    of mirror: StoredMirror, in zone: StoredZone,
    _ transaction: any ShardTransaction
  ) throws {
    let sent = earlier + (batch.slice.map { [$0.transaction] } ?? batch.transactions)
    let lost = HeldChanges.compacted(changes(of: refusal, sent: sent))
    guard let first = lost.first, batch.slice?.begins(first.objectID) ?? true else { return }
    let saved = sent.last { $0.timestamp > 0 && $0.changes.contains { $0.objectID == first.objectID } }
    // The home of a guest writes it down, where its user can see it.
    if mirror.isGuest {
      return try keep(
        lost, timestamp: saved?.timestamp ?? context.clock.now, refusal.problem, of: mirror, in: transaction)
    }
    let edit = Stamp(
      timestamp: saved?.timestamp ?? context.clock.now, userRecordName: mirror.userRecordName, deviceID: mirror.deviceID
    )
    let loss = ConflictLoss(kind: .reverted, objectID: first.objectID, entity: first.entity, lost: lost, edit: edit)
    try ConflictJournal(transaction: transaction, databaseKey: mirror.databaseKey, now: context.clock.now).append(
      loss, inZone: zone.zoneName)
  }

  // MARK: Writing

  /// - Returns: the writes that were made, including deletions that references took along.
  private func write(
    _ verdict: ExportWrites.Verdict, of mirror: StoredMirror, to zone: StoredZone, from source: ZoneSource,
    _ commit: ZoneCommit
  ) throws -> [PlannedWrite] {
    let (own, servers) = (commit.writer(to: zone), commit.serversWriter(to: zone))
    let going = Set(verdict.cascade)
    var written: [PlannedWrite] = []
    written.reserveCapacity(verdict.writes.count + verdict.cascade.count)
    for write in verdict.writes where going.isEmpty || !going.contains(write.item.recordName) {
      isolation?.begin(write.item.recordName)
      let existing = try source.row(named: write.item.recordName)
      switch write.item {
      case .save(let record, _): _ = try (write.isServersOwn ? servers : own).save(record, replacing: existing)
      case .delete(let record):
        if let existing {
          _ = try (write.isServersOwn ? servers : own).delete(existing, modified: stamp(of: mirror))
        } else {
          _ = try own.bury(record, replacing: nil)
        }
      }
      written.append(write)
    }
    // A record that can't be deleted stays, just as if no reference to the deleted record had been found.
    for name in verdict.cascade where isolation?.excludes(name) != true {
      isolation?.begin(name)
      guard let stored = try commit.transaction.record(named: name, in: zone.key), !stored.isDeleted else { continue }
      _ = try servers.delete(stored, modified: stamp(of: mirror))
      written.append(PlannedWrite(item: .delete(stored.record), isServersOwn: true))
    }
    isolation?.end()
    return written
  }

  /// Puts these records into the feed again, as they are or as deleted, so that the store imports the zone's state.
  private func tellAgain(
    _ records: [Record], in zone: StoredZone, from source: ZoneSource, _ commit: ZoneCommit
  ) throws -> [PlannedWrite] {
    let writer = commit.serversWriter(to: zone)
    var told: [PlannedWrite] = []
    for record in records {
      let existing = try source.row(named: record.recordName)
      if let existing, !existing.isDeleted {
        _ = try writer.save(existing.record, replacing: existing)
        told.append(PlannedWrite(item: .save(existing.record, changedKeys: []), isServersOwn: true))
      } else {
        _ = try writer.bury(record, replacing: existing)
        told.append(PlannedWrite(item: .delete(record), isServersOwn: true))
      }
    }
    return told
  }
}
