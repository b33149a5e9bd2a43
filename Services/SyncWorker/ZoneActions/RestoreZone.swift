// Restores a zone to an earlier sequence, one page per commit. The changes are ordinary ones that clients import.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

extension ZoneCall {
  /// `POST restore`. Touches only records that changed after the sequence and up to the first page's end, so that
  /// concurrent saves stay. Unchanged records are left alone, so that a repeated page changes nothing.
  ///
  /// References need no check, because the restored state was whole. A page that makes the database grow beyond its
  /// owner's quota is refused and changes nothing: the quota may be smaller now.
  func restore(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked = try ZoneRestoreRequest(try JSONValue.request(body))
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    let terms = terms(.restore, schema, quota: await ownersQuota())
    let span = try await span(of: asked)
    let commit = store.enqueue { transaction in try restorePage(span, after: asked.after, terms, in: transaction) }
    startNext()
    let result = try await value(of: commit)
    result.effects.publish(by: context)
    return PlaneAnswer(body: result.answer.json)
  }

  private struct RestoreResult: Sendable {
    let answer: ZoneRestoreAnswer
    let effects: ZoneEffects
  }

  /// Records that a page looks at, and bytes of their fields.
  private static let restoreLimit = 400
  private static let restoreByteLimit = Limit.exportByteCount

  /// The sequence to restore, and the last one whose changes are taken back.
  private struct RestoreSpan: Sendable {
    let sequence: Int64
    /// nil: the zone's last one.
    let through: Int64?
  }

  /// A date is looked up beside the shard's writer. Changes that come after that look stay.
  private func span(of asked: ZoneRestoreRequest) async throws(RecordError) -> RestoreSpan {
    switch asked.target {
    case .sequence(let number): return RestoreSpan(sequence: number, through: asked.through)
    case .date(let date):
      return try await read { snapshot in
        let zone = try zone(in: snapshot)
        return RestoreSpan(
          sequence: try Self.sequence(of: zone, at: date, in: snapshot), through: asked.through ?? zone.sequence)
      }
    }
  }

  private func restorePage(
    _ span: RestoreSpan, after last: Int64?, _ terms: CommitTerms, in transaction: any ShardTransaction
  ) throws -> RestoreResult {
    let zone = try zone(in: transaction)
    let sequence = span.sequence
    let through = span.through ?? zone.sequence
    try check(sequence, of: zone, through: min(through, zone.sequence), in: transaction)
    var answer = ZoneRestoreAnswer(sequence: sequence, through: through, after: max(last ?? sequence, sequence))
    let commit = try terms.begin(in: transaction.row(ofDatabase: zone.databaseKey), transaction)
    let writer = commit.serversWriter(to: zone)
    let (rows, moreComing) = try changes(in: zone, after: answer.after, from: transaction)
    answer.moreComing = moreComing
    var byteCount = 0
    for row in rows {
      guard row.sequence <= through else {
        answer.moreComing = false
        break
      }
      if byteCount >= Self.restoreByteLimit {
        answer.moreComing = true
        break
      }
      answer.after = row.sequence
      byteCount += row.record.fields.byteCount
      // Shares are not part of a zone's restored state.
      if row.record.recordType == ReservedName.shareRecordType { continue }
      // A record that is in another zone now is restored there, so that it never exists twice.
      if row.isDeleted, Tombstone.movedTo(row.record) != nil,
        try isElsewhere(row.record.recordName, zone, in: transaction)
      {
        continue
      }
      guard var record = try restored(row, in: zone, at: sequence, terms.schema, transaction) else {
        if row.isDeleted { continue }
        _ = try writer.delete(row, modified: terms.stamp)
        answer.deletedCount += 1
        continue
      }
      byteCount += record.fields.byteCount
      if !row.isDeleted, row.record.saysTheSame(as: record) { continue }
      record.modified = terms.stamp
      // The share URL is not restored either.
      record.shortGUID = row.record.shortGUID ?? record.shortGUID
      _ = try writer.save(record, replacing: row, isRevived: try revive(record, in: zone, transaction))
      answer.restoredCount += 1
    }
    return RestoreResult(answer: answer, effects: try commit.finish())
  }

  private func isElsewhere(_ recordName: String, _ zone: StoredZone, in snapshot: any ShardSnapshot) throws -> Bool {
    let present = try snapshot.presentZone(of: recordName, from: zone)
    return try present.key != zone.key && snapshot.record(named: recordName, in: present.key)?.isDeleted == false
  }

  /// The record's state at the sequence. A record that moved here since takes the state of its former zone, and stays.
  ///
  /// A record that moved away and was deleted there comes back, without its references to objects elsewhere (R16).
  private func restored(
    _ row: StoredRecord, in zone: StoredZone, at sequence: Int64, _ schema: EnvironmentSchema,
    _ snapshot: any ShardSnapshot
  ) throws -> Record? {
    if let state = try snapshot.state(of: row.record.recordName, in: zone.key, at: sequence), !state.isDeleted {
      if !row.isDeleted || Tombstone.movedTo(row.record) == nil { return state.record }
      var record = state.record
      for reference in schema.references(of: record) where try isElsewhere(reference.target, zone, in: snapshot) {
        if LinkRecord(record) != nil { return nil }
        record.fields[reference.field] = nil
      }
      return record
    }
    guard !row.isDeleted, var record = try snapshot.formerState(of: row.record, in: zone, at: sequence) else {
      return nil
    }
    if row.record.fields[ReservedName.moveReceipt] == nil { return record }
    record.fields[ReservedName.moveReceipt] = row.record.fields[ReservedName.moveReceipt]
    return record
  }

  /// Makes a restored duplicate independent of its survivor. A later save may merge it again.
  /// - Returns: true if the record was a duplicate.
  private func revive(_ record: Record, in zone: StoredZone, _ transaction: any ShardTransaction) throws -> Bool {
    guard try transaction.hasRedirects(in: zone.databaseKey),
      try transaction.redirect(of: record.recordName, in: zone.key) != nil
    else { return false }
    try transaction.removeRedirect(of: record.recordName, in: zone.key)
    return true
  }

  /// The last sequence at a time: the one before the first later change. Imported records count by their own stamps.
  static func sequence(of zone: StoredZone, at date: Int64, in snapshot: any ShardSnapshot) throws -> Int64 {
    var first = try snapshot.firstReplacement(in: zone.key, after: date) ?? .max
    var end = Int64.max
    var earlierCount = 0
    while true {
      var rows = RecordRows(of: zone.key)
      try snapshot.readChangesBackwards(after: 0, before: end, limit: rowsAtOnce, into: &rows)
      for index in rows.indices {
        end = rows[index].sequence
        earlierCount += 1
        guard try rows.record(at: index).record.modified.timestamp > date else { continue }
        first = min(first, end)
        earlierCount = 0
      }
      // Clocks are close enough that no later change follows so many earlier ones.
      if rows.count < rowsAtOnce || earlierCount >= restoreLimit { return min(first - 1, zone.sequence) }
    }
  }

  /// Rows that are in memory together, each of which may be large.
  private static let rowsAtOnce = 20

  /// The next rows of a page, ascending by sequence, and whether there are more.
  private func changes(in zone: StoredZone, after sequence: Int64, from snapshot: any ShardSnapshot) throws -> (
    rows: [StoredRecord], moreComing: Bool
  ) {
    var found: [StoredRecord] = []
    var byteCount = 0
    while found.count < Self.restoreLimit, byteCount < Self.restoreByteLimit {
      let rows = try snapshot.changes(in: zone.key, after: found.last?.sequence ?? sequence, limit: Self.rowsAtOnce)
      found += rows
      byteCount += rows.reduce(0) { $0 + $1.record.fields.byteCount }
      if rows.count < Self.rowsAtOnce { return (found, false) }
    }
    return (found, true)
  }
}

extension Record {
  /// True if only stamps differ.
  fileprivate func saysTheSame(as other: Record) -> Bool {
    recordType == other.recordType && fields == other.fields && parent == other.parent
  }
}
