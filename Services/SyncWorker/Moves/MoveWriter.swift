// A move as one transaction (A9): every record under its name in the other zone, and a tombstone that says so in the
// zone that it left.

import Mirroring
import RecordStore
import Records
import ServiceKit

/// Writes what was planned. Nobody ever sees half of it.
///
/// Stamps and versions of fields stay as they are, because a move says nothing of any value: what is compared by time goes on as if nothing
/// had happened. Who moved what, and when, the tombstones say. References bind nothing here: sources and targets go together. A move makes no
/// database larger but by its receipts, and is charged to nobody.
struct MoveWriter {
  let commit: ZoneCommit
  let target: StoredZone
  /// Told how many records are written.
  let progress: (Int) -> Void
  private(set) var writtenCount = 0

  private var transaction: any ShardTransaction { commit.transaction }
  /// As it was when the commit began.
  private var database: StoredDatabase { commit.database }
  /// Who moves.
  private var stamp: Stamp { commit.terms.stamp }
  /// The first sequence number of the commit, which tells this move from others in the records' receipts.
  private var sequence: Int64 { database.sequence + 1 }

  init(_ commit: ZoneCommit, to target: StoredZone, progress: @escaping (Int) -> Void) {
    self.commit = commit
    self.target = target
    self.progress = progress
  }

  /// - Throws: `UNIQUE_FIELD_ERROR` where the new zone has already what a rule does not allow twice; `BAD_REQUEST` where it has another record of
  ///   the same name.
  mutating func move(_ part: PlannedMove.Part, expecting isUnknown: (String) throws -> Bool) throws {
    let there = commit.serversWriter(to: target)
    let here = commit.plainWriter(to: part.zone)
    // Before the move: afterwards it is known where they point from.
    let expected = try part.plan.expected.filter(isUnknown)
    try cut(part.plan, here)
    let cuts = Dictionary(grouping: part.plan.cuts, by: \.source)
    for item in part.plan.items {
      guard let row = try transaction.record(named: item.recordName, in: part.zone.key), !row.isDeleted else { throw StaleMove() }
      var record = row.record
      // Of a share that ended: its URL leads nowhere any more.
      record.shortGUID = nil
      if let cuts = cuts[item.recordName] {
        for cut in cuts { record.fields[cut.field] = nil }
        record.modified = stamp
      }
      MoveReceipts.add(
        MoveReceipts.Move(zoneName: part.zone.zoneName, movedAt: stamp.timestamp, sequence: sequence), to: &record, in: database.incarnation)
      let earlier = try transaction.record(named: item.recordName, in: target.key)
      if earlier?.isDeleted == false {
        throw RecordError(.badRequest, "Zone '\(target.zoneName)' has another record '\(item.recordName)'", cocoaErrorCode: .mirroring)
      }
      _ = try there.save(record, replacing: earlier)
      _ = try here.delete(row, modified: stamp, movedTo: target.zoneName)
      writtenCount += 1
      if writtenCount % Self.progressStep == 0 { progress(writtenCount) }
    }
    for duplicate in part.plan.duplicates { try take(duplicate, from: part.zone, here, there) }
    for name in expected { try transaction.place(name, in: target.key) }
  }

  private static let progressStep = 250

  /// What ends at a share boundary. It is not kept in the journal of conflicts: who declared the boundary wants it, and nothing could restore it
  /// while the two are apart. The past states of the records have it.
  private func cut(_ plan: MovePlan, _ here: ZoneWriter) throws {
    let moving = plan.cuts.isEmpty ? [] : plan.names
    for (source, cuts) in Dictionary(grouping: plan.cuts, by: \.source).sorted(by: { $0.key < $1.key }) where !moving.contains(source) {
      guard let row = try transaction.record(named: source, in: here.zone.key), !row.isDeleted else { continue }
      var record = row.record
      for cut in cuts where record.fields.string(cut.field) == cut.target { record.fields[cut.field] = nil }
      record.modified = stamp
      _ = try here.save(record, replacing: row)
    }
    for name in plan.cutLinks {
      guard let row = try transaction.record(named: name, in: here.zone.key), !row.isDeleted else { continue }
      _ = try here.delete(row, modified: stamp)
    }
  }

  /// Whoever says something of a duplicate means the object that has left: its name goes along.
  private func take(_ duplicate: String, from zone: StoredZone, _ here: ZoneWriter, _ there: ZoneWriter) throws {
    guard let redirect = try transaction.redirect(of: duplicate, in: zone.key) else { return }
    try transaction.removeRedirect(of: duplicate, in: zone.key)
    try transaction.put(redirect, in: target.key)
    guard let row = try transaction.record(named: duplicate, in: zone.key), row.isDeleted, Tombstone.movedTo(row.record) == nil else { return }
    _ = try there.bury(row.record, replacing: try transaction.record(named: duplicate, in: target.key))
    _ = try here.delete(row, modified: row.record.modified, movedTo: target.zoneName)
  }
}

/// What was planned does not hold any more: it is planned anew.
struct StaleMove: Error {}
