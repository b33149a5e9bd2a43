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
    let commit = store.enqueue { transaction in try restorePage(asked, terms, in: transaction) }
    startNext()
    let result = try await value(of: commit)
    result.effects.publish(by: context)
    return PlaneAnswer(body: result.answer.json)
  }

  private struct RestoreResult: Sendable {
    let answer: ZoneRestoreAnswer
    let effects: ZoneEffects
  }

  /// Records that a page looks at.
  private static let restoreLimit = 400

  private func restorePage(_ asked: ZoneRestoreRequest, _ terms: CommitTerms, in transaction: any ShardTransaction)
    throws -> RestoreResult
  {
    let zone = try zone(in: transaction)
    let through = asked.through ?? zone.sequence
    let sequence: Int64
    switch asked.target {
    case .sequence(let number): sequence = number
    case .date(let date): sequence = try Self.sequence(of: zone, at: date, in: transaction)
    }
    try check(sequence, of: zone, through: min(through, zone.sequence), in: transaction)
    var answer = ZoneRestoreAnswer(sequence: sequence, through: through, after: max(asked.after ?? sequence, sequence))
    let commit = try terms.begin(in: transaction.row(ofDatabase: zone.databaseKey), transaction)
    let writer = commit.serversWriter(to: zone)
    let rows = try transaction.changes(in: zone.key, after: answer.after, limit: Self.restoreLimit)
    answer.moreComing = rows.count == Self.restoreLimit
    for row in rows {
      guard row.sequence <= through else {
        answer.moreComing = false
        break
      }
      answer.after = row.sequence
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
    while true {
      let rows = try snapshot.changesBackwards(in: zone.key, after: 0, before: end, limit: restoreLimit)
      let later = rows.filter { $0.record.modified.timestamp > date }
      if let earliest = later.last { first = min(first, earliest.sequence) }
      // Clocks are close enough that no later change follows a whole page of earlier ones.
      guard !later.isEmpty, rows.count == restoreLimit, let last = rows.last else {
        return min(first - 1, zone.sequence)
      }
      end = last.sequence
    }
  }
}

extension Record {
  /// True if only stamps differ.
  fileprivate func saysTheSame(as other: Record) -> Bool {
    recordType == other.recordType && fields == other.fields && parent == other.parent
  }
}
