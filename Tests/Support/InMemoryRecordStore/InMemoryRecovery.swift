// The oracle's import and recovery state: dictionaries and lists.

import RecordStore
import Records

extension InMemoryTransaction {
  func readableChanges(in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws -> ReadableChanges {
    let page = changes(in: zone, after: sequence).page(limit, byteLimit)
    return ReadableChanges(records: page.rows, isAtEnd: page.isAtEnd)
  }

  func changeMarks(in zone: Int64, after sequence: Int64, limit: Int) throws -> [ChangeMark] {
    changes(in: zone, after: sequence).first(limit).map {
      ChangeMark(sequence: $0.sequence, origin: $0.origin, sequenceOfOthers: $0.sequenceOfOthers)
    }
  }

  func firstChanges(in database: Int64, after sequence: Int64) throws -> [Int64: Int64] {
    var firsts: [Int64: Int64] = [:]
    for zone in rows.zones.values where zone.databaseKey == database && !zone.isDeleted {
      firsts[zone.key] = changes(in: zone.key, after: sequence).first?.sequence
    }
    return firsts
  }

  func syncState(of mirror: Int64) throws -> StoredSyncState { rows.syncStates[mirror] ?? StoredSyncState() }

  func zoneHolds(of mirror: Int64) throws -> [StoredZoneHold] {
    (rows.zoneHolds[mirror] ?? [:]).values.sorted { $0.zoneName.precedes($1.zoneName) }
  }

  func emptyZoneHolds(
    of mirror: Int64, through sequence: Int64, decidedAs decisions: [ZoneEnd: Int], besides zoneName: String?,
    limit: Int
  ) throws -> [StoredZoneHold] {
    guard let database = rows.mirrors[mirror]?.databaseKey else { return [] }
    let placed = Set((rows.placements[database] ?? [:]).values.flatMap(\.keys))
    return try zoneHolds(of: mirror).filter { hold in
      guard let decision = hold.decision, decision == decisions[hold.end], hold.endSequence <= sequence,
        hold.zoneName != zoneName, let zone = try zone(named: hold.zoneName, in: database)
      else { return false }
      return !placed.contains(zone.key)
    }.sorted { $0.endSequence < $1.endSequence }.first(limit)
  }

  func unimported(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredUnimported] {
    rows.unimported.filter { $0.mirror == mirror && $0.key > key }.first(limit)
  }

  func unimported(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredUnimported] {
    let due = rows.unimported.filter { $0.mirror == mirror && $0.dueAt <= time }
    return due.sorted { ($0.dueAt, $0.key) < ($1.dueAt, $1.key) }.first(limit)
  }

  func put(_ state: StoredSyncState, of mirror: Int64) throws {
    try writeRecovery(of: mirror) { rows.syncStates[mirror] = state }
  }

  func put(_ hold: StoredZoneHold, of mirror: Int64) throws {
    try writeRecovery(of: mirror) { rows.zoneHolds[mirror, default: [:]][hold.zoneName] = hold }
  }

  func deleteZoneHold(of zoneName: String, _ mirror: Int64) throws {
    try write { rows.zoneHolds[mirror]?[zoneName] = nil }
  }

  func putUnimported(_ record: StoredUnimported) throws {
    try writeRecovery(of: record.mirror) {
      var stored = record
      if let index = rows.unimported.firstIndex(where: {
        $0.mirror == record.mirror && $0.zone == record.zone && $0.name == record.name
      }) {
        stored.key = rows.unimported[index].key
        rows.unimported[index] = stored
      } else {
        stored.key = (rows.unimported.last?.key ?? 0) + 1
        rows.unimported.append(stored)
      }
    }
  }

  func removeUnimported(_ name: String, in zone: Int64, of mirror: Int64) throws {
    try writeRecovery(of: mirror) {
      rows.unimported.removeAll { $0.mirror == mirror && $0.zone == zone && $0.name == name }
    }
  }

  func retryUnimported(_ names: [String]?, of mirror: Int64, at time: Int64) throws -> Int {
    var count = 0
    try writeRecovery(of: mirror) {
      for index in rows.unimported.indices
      where rows.unimported[index].mirror == mirror && names?.contains(rows.unimported[index].name) ?? true {
        rows.unimported[index].dueAt = time
        count += 1
      }
    }
    return count
  }

  func resetMirror(_ mirror: Int64) throws -> StoredMirror {
    try write {
      guard let row = rows.mirrors[mirror] else { throw ContradictingWrite("no mirror \(mirror)") }
      let fresh = settleTransactions(of: row, through: row.lastTransactionNumber).row.renewed(
        incarnation: makeIncarnation())
      rows.mirrors[mirror] = fresh
      rows.consumers[mirror] = nil
      try countAssets()
      return fresh
    }
  }

  /// Deletes a mirror's import and recovery state.
  func deleteRecovery(of mirror: Int64) {
    rows.syncStates[mirror] = nil
    rows.zoneHolds[mirror] = nil
    rows.unimported.removeAll { $0.mirror == mirror }
  }

  private func writeRecovery(of mirror: Int64, _ body: () -> Void) throws {
    try write {
      guard rows.mirrors[mirror] != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      body()
    }
  }
}
