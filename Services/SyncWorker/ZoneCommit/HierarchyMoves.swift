// Records the effect of a changed parent or a deletion on shared hierarchies: records leave some and enter others.

import RecordStore
import Records

/// Notes departures from shared hierarchies. Records that leave or enter one with their ancestor get a change tag, so
/// that feeds tell of them. As for `VisibleRecords`, a hierarchy continues below tombstones.
struct HierarchyMoves {
  let writer: ZoneWriter

  private var transaction: any ShardTransaction { writer.transaction }
  private var zone: StoredZone { writer.zone }

  /// Follows a record to its new parent, with all records below it.
  /// - Parameters:
  ///   - earlier: nil: the record is new.
  ///   - later: as it is stored now.
  /// - Throws: `BAD_REQUEST` when more records hang below than one request may change.
  func follow(from earlier: StoredRecord?, to later: StoredRecord) throws {
    guard try transaction.database(key: zone.databaseKey)?.hasShares == true else { return }
    let from = try earlier.map { try rootsAbove($0.record) } ?? []
    let to = try rootsAbove(later.record)
    if from == to { return }
    // A deleted record has left its hierarchies already.
    try note(later, from: earlier?.isDeleted == false ? from : [], to: to)
    for stored in try below(later.record.recordName) {
      try note(try writer.save(stored.record, replacing: stored), from: from, to: to)
      writer.commit.noteRewritten(stored.record.recordName)
    }
  }

  /// Notes the deletion of a record in a database with shares. Records below it stay where they are.
  func leave(_ tombstone: StoredRecord) throws {
    if tombstone.record.parent != nil { try note(tombstone, from: try rootsAbove(tombstone.record), to: []) }
  }

  private func note(_ stored: StoredRecord, from: Set<String>, to: Set<String>) throws {
    let name = stored.record.recordName
    for root in from.subtracting(to).sorted() {
      try transaction.noteDeparture(of: name, from: root, in: zone.key, at: stored.sequence)
    }
    for root in to.sorted() { try transaction.noteDeparture(of: name, from: root, in: zone.key, at: nil) }
  }

  /// The roots of shares at or above a record: shared hierarchies may be nested.
  private func rootsAbove(_ record: Record) throws -> Set<String> {
    var found: Set<String> = []
    var passed: Set<String> = []
    var next: String? = record.recordName
    var parent = record.parent
    while let name = next, passed.count < VisibleRecords.depthLimit, passed.insert(name).inserted {
      if try transaction.share(ofRoot: name, in: zone.key) != nil { found.insert(name) }
      next = parent
      parent = try next.flatMap { try transaction.record(named: $0, in: zone.key)?.record.parent }
    }
    return found
  }

  /// The live records below a record, without itself.
  private func below(_ name: String) throws -> [StoredRecord] {
    var found: [StoredRecord] = []
    var seen: Set<String> = [name]
    var next = [name]
    while let top = next.popLast() {
      let children = try transaction.children(of: top, in: zone.key, limit: Limit.cascadeCount + 1)
      for child in children where seen.insert(child).inserted {
        next.append(child)
        if let stored = try transaction.record(named: child, in: zone.key), !stored.isDeleted { found.append(stored) }
      }
      if found.count > Limit.cascadeCount || children.count > Limit.cascadeCount {
        throw RecordError(
          .badRequest,
          """
          More than \(Limit.cascadeCount) records are below '\(name)', which is the limit of records that one request \
          moves into a share or out of one
          """
        )
      }
    }
    return found
  }
}
