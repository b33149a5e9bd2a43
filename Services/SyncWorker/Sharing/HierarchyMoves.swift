// What follows when a record of a zone with shared hierarchies gets another parent: it and all below it leave one hierarchy and come into another.

import RecordStore
import Records

/// Gives records that left or entered a shared hierarchy with one of their ancestors a new tag, so that feeds tell, and notes what left.
struct HierarchyMoves {
  let writer: ZoneWriter

  private var transaction: any ShardTransaction { writer.transaction }
  private var zone: StoredZone { writer.zone }

  /// - Parameters:
  ///   - earlier: nil: the record is new.
  ///   - later: as it is stored now.
  /// - Throws: `BAD_REQUEST` when more records hang below than one request may change.
  func follow(from earlier: StoredRecord?, to later: StoredRecord) throws {
    guard try transaction.database(key: zone.databaseKey)?.hasShares == true else { return }
    let from = try earlier.map { try rootsAbove($0.record) } ?? []
    let to = try rootsAbove(later.record)
    if from == to { return }
    try move(later, from: from, to: to)
    for name in try below(later.record.recordName) {
      guard let stored = try transaction.record(named: name, in: zone.key), !stored.isDeleted else { continue }
      try move(try writer.save(stored.record, replacing: stored), from: from, to: to)
      writer.rewritten?.note(name)
    }
  }

  private func move(_ stored: StoredRecord, from: Set<String>, to: Set<String>) throws {
    let name = stored.record.recordName
    for root in from.subtracting(to).sorted() { try transaction.noteDeparture(of: name, from: root, in: zone.key, at: stored.sequence) }
    for root in to.sorted() { try transaction.noteDeparture(of: name, from: root, in: zone.key, at: nil) }
  }

  /// The records on top of what is shared that a record is below of: shared hierarchies may stand in one another.
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

  /// The names of what hangs below a record, without itself.
  private func below(_ name: String) throws -> [String] {
    var found: [String] = []
    var seen: Set<String> = [name]
    var next = [name]
    while let top = next.popLast() {
      for child in try transaction.children(of: top, in: zone.key, limit: Limit.cascadeCount + 1) where seen.insert(child).inserted {
        found.append(child)
        next.append(child)
        if found.count > Limit.cascadeCount {
          throw RecordError(.badRequest, "More than \(Limit.cascadeCount) records hang below '\(name)', which is what one request may move out of a share or into one")
        }
      }
    }
    return found
  }
}
