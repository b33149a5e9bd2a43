// A move as one transaction (A9): each record under its name in the new zone, and a tombstone with the new zone in
// the old one.

import Mirroring
import RecordStore
import Records
import ServiceKit
import ZoneCommit

/// Writes a planned move in one commit.
///
/// A move changes no value, so stamps and field versions stay, and comparisons by time are not affected. The tombstones
/// tell the user and time of the move. References need no check, because sources and targets move together. A database
/// grows only by the move receipts, which no quota counts.
struct MoveWriter {
  let commit: ZoneCommit
  let target: StoredZone
  /// Gets the number of records written so far.
  let progress: (Int) -> Void
  private(set) var writtenCount = 0

  private var transaction: any ShardTransaction { commit.transaction }
  /// The database at the beginning of the commit.
  private var database: StoredDatabase { commit.database }
  /// The user and device that move, and the time.
  private var stamp: Stamp { commit.terms.stamp }
  /// The commit's first sequence number, which identifies this move in the records' receipts.
  private var sequence: Int64 { database.sequence + 1 }

  init(_ commit: ZoneCommit, to target: StoredZone, progress: @escaping (Int) -> Void) {
    self.commit = commit
    self.target = target
    self.progress = progress
  }

  /// - Throws: `UNIQUE_FIELD_ERROR` if the target zone has the same unique values; `BAD_REQUEST` if it has another
  ///   record of the same name.
  mutating func move(_ part: PlannedMove.Part, expecting isUnknown: (String) throws -> Bool) throws {
    let there = commit.serversWriter(to: target)
    let here = commit.plainWriter(to: part.zone)
    // Before the move, because afterwards these names have a known place.
    let expected = try part.plan.expected.filter(isUnknown)
    try cut(part.plan, here)
    let cuts = Dictionary(grouping: part.plan.cuts, by: \.source)
    for item in part.plan.items {
      guard let row = try transaction.record(named: item.recordName, in: part.zone.key), !row.isDeleted else {
        throw StaleMove()
      }
      var record = row.record
      // The short GUID belongs to a share that ended.
      record.shortGUID = nil
      if let cuts = cuts[item.recordName] {
        for cut in cuts { record.fields[cut.field] = nil }
        record.modified = stamp
      }
      MoveReceipts.add(
        MoveReceipts.Move(zoneName: part.zone.zoneName, movedAt: stamp.timestamp, sequence: sequence), to: &record,
        in: database.incarnation)
      let earlier = try transaction.record(named: item.recordName, in: target.key)
      if earlier?.isDeleted == false {
        throw RecordError(
          .badRequest, "Zone '\(target.zoneName)' has another record '\(item.recordName)'", cocoaErrorCode: .mirroring)
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

  /// Cuts the relationships at a share boundary. The journal of conflicts does not record them: the boundary is
  /// declared, and no restore could succeed while the two zones are apart. The records' past states keep them.
  private func cut(_ plan: MovePlan, _ here: ZoneWriter) throws {
    let moving = plan.cuts.isEmpty ? [] : plan.names
    for (source, cuts) in Dictionary(grouping: plan.cuts, by: \.source).sorted(by: { $0.key < $1.key })
    where !moving.contains(source) {
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

  /// Moves a duplicate's redirect along, because its name stands for the object that left.
  private func take(_ duplicate: String, from zone: StoredZone, _ here: ZoneWriter, _ there: ZoneWriter) throws {
    guard let redirect = try transaction.redirect(of: duplicate, in: zone.key) else { return }
    try transaction.removeRedirect(of: duplicate, in: zone.key)
    try transaction.put(redirect, in: target.key)
    guard let row = try transaction.record(named: duplicate, in: zone.key), row.isDeleted,
      Tombstone.movedTo(row.record) == nil
    else { return }
    _ = try there.bury(row.record, replacing: try transaction.record(named: duplicate, in: target.key))
    _ = try here.delete(row, modified: row.record.modified, movedTo: target.zoneName)
  }
}

/// The plan does not hold any more; the move is planned again.
struct StaleMove: Error {}
