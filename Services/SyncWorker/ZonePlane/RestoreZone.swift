// A zone brought back to what it was at an earlier sequence, a page a commit, by changes like any others: clients get there by importing.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import WebServices

extension ZoneCall {
  /// `POST restore`. Only records that changed after the sequence and up to the first page's end are touched, so that what is saved meanwhile
  /// stays; what is as it was already is left alone, so that a page that is sent again changes nothing.
  ///
  /// References bind nothing here: the state was whole. A page by which the database would grow beyond its owner's quota is refused, and changes nothing:
  /// what it held then may be more than it may hold now.
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

  /// Records a page looks at.
  private static let restoreLimit = 400

  private func restorePage(_ asked: ZoneRestoreRequest, _ terms: CommitTerms, in transaction: any ShardTransaction) throws -> RestoreResult {
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
      // With whom the zone is shared is none of what it was.
      if row.record.recordType == ReservedName.shareRecordType { continue }
      // What is in another zone by now is restored there, and never becomes two.
      if row.isDeleted, Tombstone.movedTo(row.record) != nil, try isElsewhere(row.record.recordName, zone, in: transaction) { continue }
      guard var record = try restored(row, in: zone, at: sequence, terms.schema, transaction) else {
        if row.isDeleted { continue }
        _ = try writer.delete(row, modified: terms.stamp)
        answer.deletedCount += 1
        continue
      }
      if !row.isDeleted, row.record.saysTheSame(as: record) { continue }
      record.modified = terms.stamp
      // Where its URL leads is none of it either.
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

  /// What a record was at the sequence; of one that was moved here since, what it was where it was: it stays here, and has the values of then.
  ///
  /// What was moved away and deleted there comes back here, without what it had to do with objects that are elsewhere (R16).
  private func restored(_ row: StoredRecord, in zone: StoredZone, at sequence: Int64, _ schema: EnvironmentSchema, _ snapshot: any ShardSnapshot) throws -> Record? {
    if let state = try snapshot.state(of: row.record.recordName, in: zone.key, at: sequence), !state.isDeleted {
      if !row.isDeleted || Tombstone.movedTo(row.record) == nil { return state.record }
      var record = state.record
      for reference in schema.references(of: record) where try isElsewhere(reference.target, zone, in: snapshot) {
        if LinkRecord(record) != nil { return nil }
        record.fields[reference.field] = nil
      }
      return record
    }
    guard !row.isDeleted, var record = try snapshot.formerState(of: row.record, in: zone, at: sequence) else { return nil }
    if row.record.fields[ReservedName.moveReceipt] == nil { return record }
    record.fields[ReservedName.moveReceipt] = row.record.fields[ReservedName.moveReceipt]
    return record
  }

  /// A duplicate that is as it was before it was merged is an object like any other, and nobody's edit of the survivor; it may be merged anew.
  /// - Returns: whether the record was one.
  private func revive(_ record: Record, in zone: StoredZone, _ transaction: any ShardTransaction) throws -> Bool {
    guard try transaction.hasRedirects(in: zone.databaseKey), try transaction.redirect(of: record.recordName, in: zone.key) != nil else { return false }
    try transaction.removeRedirect(of: record.recordName, in: zone.key)
    return true
  }

  /// The last sequence at a time: the one before the first change that came later. Records that were imported count by their own stamps.
  private static func sequence(of zone: StoredZone, at date: Int64, in snapshot: any ShardSnapshot) throws -> Int64 {
    var first = try snapshot.firstReplacement(in: zone.key, after: date) ?? .max
    var end = Int64.max
    while true {
      let rows = try snapshot.changesBackwards(in: zone.key, after: 0, before: end, limit: restoreLimit)
      let later = rows.filter { $0.record.modified.timestamp > date }
      if let earliest = later.last { first = min(first, earliest.sequence) }
      // Clocks are near enough to one another that a whole page of earlier changes has nothing later behind it.
      guard !later.isEmpty, rows.count == restoreLimit, let last = rows.last else { return min(first - 1, zone.sequence) }
      end = last.sequence
    }
  }
}

extension Record {
  /// Whether only stamps differ.
  fileprivate func saysTheSame(as other: Record) -> Bool { recordType == other.recordType && fields == other.fields && parent == other.parent }
}
