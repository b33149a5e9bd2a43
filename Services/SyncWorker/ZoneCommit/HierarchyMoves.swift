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
  /// - Throws: `BAD_REQUEST` when more records hang below than one request may change, or pass.
  func follow(from earlier: StoredRecord?, to later: StoredRecord) throws {
    guard try transaction.database(key: zone.databaseKey)?.hasShares == true else { return }
    let from = try earlier.map { try rootsAbove($0.record) } ?? []
    let to = try rootsAbove(later.record)
    if from == to { return }
    // A deleted record has left its hierarchies already.
    try note(later, from: earlier?.isDeleted == false ? from : [], to: to)
    for name in try below(later.record.recordName) {
      guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { continue }
      try writer.commit.walk.move(stored.record)
      try note(try writer.save(stored.record, replacing: stored), from: from, to: to)
      writer.commit.noteRewritten(name)
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
      try writer.commit.walk.pass(name)
      if try transaction.share(ofRoot: name, in: zone.key) != nil { found.insert(name) }
      next = parent
      parent = try next.flatMap { try transaction.place(of: $0, in: zone.key)?.parent }
    }
    return found
  }

  /// The names of the live records below a record, without itself.
  private func below(_ name: String) throws -> [String] {
    var found: [String] = []
    var seen: Set<String> = [name]
    var next = [name]
    while let top = next.popLast() {
      let children = try transaction.children(of: top, in: zone.key, limit: Limit.hierarchyStepCount + 1)
      for child in children where seen.insert(child).inserted {
        try writer.commit.walk.pass(child)
        next.append(child)
        if try transaction.place(of: child, in: zone.key)?.isDeleted == false { found.append(child) }
        if found.count > Limit.cascadeCount {
          throw RecordError(
            .badRequest,
            """
            More than \(Limit.cascadeCount) records are below '\(name)', which is the limit of records that one \
            request moves into a share or out of one
            """
          )
        }
      }
    }
    return found
  }
}
