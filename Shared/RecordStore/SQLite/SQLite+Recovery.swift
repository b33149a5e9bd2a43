// Import and recovery state of mirrored stores in a shard's file.

import Records
import SQLite

extension SQLiteSnapshot {
  func readableChanges(in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws -> ReadableChanges {
    guard limit > 0 else { return ReadableChanges() }
    if try isDoomed(zone) { return ReadableChanges(isAtEnd: true) }
    let statement = try boundChanges(in: zone, after: sequence, limit: limit, byteLimit: byteLimit)
    defer { statement.reset() }
    var changes = ReadableChanges()
    var bytes = ReadBytes(limit: byteLimit)
    while try statement.step() {
      let name = statement.recordName(9)
      var byteCount = 0
      do {
        let stored = try record(statement, named: recordName(statement, 9), zone: zone)
        byteCount = stored.record.fields.byteCount
        changes.records.append(stored)
      } catch StoreError.corrupt {
        // Dropped because the caller gets the row in `damaged`, and a read of that row alone throws the error.
        changes.damaged.append(DamagedRecord(recordName: name ?? "", sequence: statement.int64(1)))
      }
      bytes.add(stored: statement.withBytes(8) { $0.count }, content: byteCount)
      if bytes.arePassed { return changes }
    }
    changes.isAtEnd = changes.rowCount < limit
    return changes
  }

  func changeMarks(in zone: Int64, after sequence: Int64, limit: Int) throws -> [ChangeMark] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let statement = try statement(StoredRecordQuery.marks)
    try statement.bind(1, zone)
    try statement.bind(2, sequence)
    try statement.bind(3, limit)
    return try statement.all {
      ChangeMark(sequence: $0.int64(0), origin: $0.int64(1), sequenceOfOthers: $0.int64(2))
    }
  }

  func firstChanges(in database: Int64, after sequence: Int64) throws -> [Int64: Int64] {
    try flush()
    let statement = try statement(StoredRecordQuery.firstInZones)
    try statement.bind(1, database)
    try statement.bind(2, sequence)
    var firsts: [Int64: Int64] = [:]
    try statement.forEach { firsts[$0.int64(0)] = $0.optionalInt64(1) }
    return firsts
  }

  func syncState(of mirror: Int64) throws -> StoredSyncState {
    let select = try statement(RecoveryQuery.syncState)
    try select.bind(1, mirror)
    return try select.first { row in
      var state = StoredSyncState()
      state.sinceSequence = row.int64(0)
      state.firstImportAt = row.optionalInt64(1)
      state.openResetCount = row.int(2)
      state.resetReason = row.int(3)
      state.resetSequence = row.int64(4)
      state.modelEpoch = row.int64(5)
      state.previousModelHash = row.optionalText(6)
      state.previousConfiguration = row.optionalText(7)
      state.leaseUntil = row.int64(8)
      for (index, end) in ZoneEnd.allCases.enumerated() {
        state.zonePolicies[end] = row.optionalInt64(9 + Int32(index)).map { Int($0) }
      }
      return state
    } ?? StoredSyncState()
  }

  func zoneHolds(of mirror: Int64) throws -> [StoredZoneHold] {
    let select = try statement(RecoveryQuery.zoneHolds)
    try select.bind(1, mirror)
    return try holds(select, of: mirror)
  }

  func emptyZoneHolds(
    of mirror: Int64, through sequence: Int64, decidedAs decisions: [ZoneEnd: Int], besides zoneName: String?,
    limit: Int
  ) throws -> [StoredZoneHold] {
    let select = try statement(RecoveryQuery.emptyZoneHolds)
    try select.bind(1, mirror)
    try select.bind(2, sequence)
    try select.bind(3, limit)
    // No zone has an empty name.
    try select.bind(4, zoneName ?? "")
    for end in ZoneEnd.allCases { try select.bind(5 + Int32(end.rawValue), decisions[end].map { Int64($0) }) }
    return try holds(select, of: mirror)
  }

  private func holds(_ select: StoreStatement, of mirror: Int64) throws -> [StoredZoneHold] {
    try select.all { row in
      guard let end = ZoneEnd(rawValue: row.int(1)) else {
        throw StoreError.corrupt("shard \(shard): a zone held for mirror \(mirror) ended for no reason")
      }
      return StoredZoneHold(
        zoneName: row.text(0), end: end, endSequence: row.int64(2), heldAt: row.int64(3),
        decision: row.optionalInt64(4).map { Int($0) })
    }
  }

  func unimported(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredUnimported] {
    try unimported(.unimportedAfter, mirror, key, limit)
  }

  func unimported(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredUnimported] {
    try unimported(.unimportedDue, mirror, time, limit)
  }

  private func unimported(_ query: RecoveryQuery, _ mirror: Int64, _ bound: Int64, _ limit: Int) throws
    -> [StoredUnimported]
  {
    guard limit > 0 else { return [] }
    let select = try statement(query)
    try select.bind(1, mirror)
    try select.bind(2, bound)
    try select.bind(3, limit)
    return try select.all { row in
      StoredUnimported(
        key: row.int64(0), mirror: mirror, zone: row.int64(1), name: try recordName(row, 2), entity: row.text(3),
        code: row.text(4), reason: row.text(5),
        sequence: row.int64(6), firstAt: row.int64(7), lastAt: row.int64(8), attempts: row.int(9), dueAt: row.int64(10))
    }
  }
}

extension SQLiteTransaction {
  func put(_ state: StoredSyncState, of mirror: Int64) throws {
    try write {
      guard try self.mirror(key: mirror) != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      let put = try writing(RecoveryQuery.putSyncState)
      try put.bind(1, mirror)
      try put.bind(2, state.sinceSequence)
      try put.bind(3, state.firstImportAt)
      try put.bind(4, state.openResetCount)
      try put.bind(5, state.resetReason)
      try put.bind(6, state.resetSequence)
      try put.bind(7, state.modelEpoch)
      try put.bind(8, state.previousModelHash)
      try put.bind(9, state.previousConfiguration)
      try put.bind(10, state.leaseUntil)
      for (index, end) in ZoneEnd.allCases.enumerated() {
        try put.bind(11 + Int32(index), state.zonePolicies[end].map { Int64($0) })
      }
      try put.run()
    }
  }

  func put(_ hold: StoredZoneHold, of mirror: Int64) throws {
    try write {
      guard try self.mirror(key: mirror) != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      let put = try writing(RecoveryQuery.putZoneHold)
      try put.bind(1, mirror)
      try put.bind(2, hold.zoneName)
      try put.bind(3, hold.end.rawValue)
      try put.bind(4, hold.endSequence)
      try put.bind(5, hold.heldAt)
      try put.bind(6, hold.decision.map { Int64($0) })
      try put.run()
    }
  }

  func deleteZoneHold(of zoneName: String, _ mirror: Int64) throws {
    try write {
      let delete = try writing(RecoveryQuery.deleteZoneHold)
      try delete.bind(1, mirror)
      try delete.bind(2, zoneName)
      try delete.run()
    }
  }

  func putUnimported(_ record: StoredUnimported) throws {
    try write {
      guard try mirror(key: record.mirror) != nil else { throw ContradictingWrite("no mirror \(record.mirror)") }
      let put = try writing(RecoveryQuery.putUnimported)
      try put.bind(1, record.mirror)
      try put.bind(2, record.zone)
      try put.bind(3, recordName: record.name)
      try put.bind(4, record.entity)
      try put.bind(5, record.code)
      try put.bind(6, record.reason)
      try put.bind(7, record.sequence)
      try put.bind(8, record.firstAt)
      try put.bind(9, record.lastAt)
      try put.bind(10, record.attempts)
      try put.bind(11, record.dueAt)
      try put.run()
    }
  }

  func removeUnimported(_ name: String, in zone: Int64, of mirror: Int64) throws {
    try write {
      guard try self.mirror(key: mirror) != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      let delete = try writing(RecoveryQuery.removeUnimported)
      try delete.bind(1, mirror)
      try delete.bind(2, zone)
      try delete.bind(3, recordName: name)
      try delete.run()
    }
  }

  func retryUnimported(_ names: [String]?, of mirror: Int64, at time: Int64) throws -> Int {
    try write {
      guard try self.mirror(key: mirror) != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      func retry(_ query: RecoveryQuery, _ name: String?) throws -> Int {
        let update = try writing(query)
        try update.bind(1, mirror)
        try update.bind(2, time)
        if let name { try update.bind(3, recordName: name) }
        return try update.runCounting()
      }
      guard let names else { return try retry(.retryUnimported, nil) }
      return try Set(names).reduce(0) { count, name in count + (try retry(.retryUnimportedName, name)) }
    }
  }

  func resetMirror(_ mirror: Int64) throws -> StoredMirror {
    try write {
      guard let row = try self.mirror(key: mirror) else { throw ContradictingWrite("no mirror \(mirror)") }
      let settled = try settleTransactions(of: row, through: row.lastTransactionNumber).row
      try deleteRows(HistoryQuery.deleteConsumers, of: mirror)
      let fresh = settled.renewed(incarnation: nextIncarnation())
      let renew = try writing(MirrorQuery.renew)
      try renew.bind(1, mirror)
      try renew.bind(2, Int64(bitPattern: fresh.incarnation))
      try renew.run()
      setMirror(fresh)
      return fresh
    }
  }

  /// Deletes a mirror's import and recovery state.
  func deleteRecovery(of mirror: Int64) throws {
    for query in [RecoveryQuery.deleteSyncState, .deleteZoneHolds, .deleteUnimported] {
      try deleteRows(query, of: mirror)
    }
  }
}
