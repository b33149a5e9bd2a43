// The journal of conflicts in a shard's file. An entry is written in the commit that causes it; commits without
// conflicts do not touch it.

import Crypto
import Records
import SQLite

/// The number under which an entry's assets are held in the table `history_asset`. It is below the numbers of
/// quarantine, which never reach the offset.
enum JournalRowID {
  static func of(_ row: Int64) -> Int64 { -(row + offset) }
  static let offset: Int64 = 1 << 48
}

extension SQLiteSnapshot {
  func conflicts(in database: Int64, afterNumber number: Int64, _ filter: ConflictFilter, limit: Int) throws
    -> [StoredConflict]
  {
    guard limit > 0 else { return [] }
    let query: ConflictQuery =
      filter.recordName != nil ? .ofName : filter.state == StoredConflict.open ? .openAfter : .after
    let select = try statement(query)
    try select.bind(1, database)
    try select.bind(2, number)
    try select.bind(3, limit)
    if query != .openAfter { try select.bind(4, filter.state.map { Int64($0) }) }
    try select.bind(5, filter.userRecordName)
    if let name = filter.recordName { try select.bind(6, recordName: name) }
    return try select.all { try conflict($0) }
  }

  func conflict(_ number: Int64, in database: Int64) throws -> StoredConflict? {
    let select = try statement(ConflictQuery.byNumber)
    try select.bind(1, number)
    try select.bind(2, database)
    return try select.first { try conflict($0) }
  }

  func conflictContent(_ number: Int64, in database: Int64) throws -> [UInt8]? {
    let select = try statement(ConflictQuery.payload)
    try select.bind(1, number)
    try select.bind(2, database)
    return try select.first { row in
      let payload = row.blob(10)
      guard let name = row.recordName(3),
        row.int64(9)
          == StoredConflict(
            databaseKey: row.int64(0), zoneName: row.text(1), zoneIncarnation: UInt64(bitPattern: row.int64(2)),
            recordName: name, entity: row.text(4),
            kind: row.int(5), state: 0, userRecordName: row.text(6), deviceID: row.text(7), at: row.int64(8)
          ).checksum(payload)
      else { throw StoreError.corrupt("shard \(shard): conflict \(number) is damaged; restore it from a backup") }
      return try session.opened(payload, for: .journal)
    }
  }

  func openConflictCount(in database: Int64, of userRecordName: String?) throws -> Int {
    let select = try statement(ConflictQuery.openCount)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    return try select.first { $0.int(0) } ?? 0
  }

  func conflictUse(in database: Int64, of userRecordName: String) throws -> ConflictUse {
    let select = try statement(ConflictQuery.use)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    return try select.first { ConflictUse(count: $0.int(0), byteCount: $0.int64(1), evictedCount: $0.int(2)) }
      ?? ConflictUse()
  }

  func evictedConflictCount() throws -> Int { try statement(ConflictQuery.evictedCount).first { $0.int(0) } ?? 0 }

  func oldestConflict() throws -> Int64? {
    try statement(ConflictQuery.oldest).first { $0.optionalInt64(0) } ?? nil
  }

  private func conflict(_ row: StoreStatement) throws -> StoredConflict {
    guard let name = row.recordName(4) else {
      throw StoreError.corrupt("shard \(shard): the name in conflict \(row.int64(0)) has neither form")
    }
    return StoredConflict(
      number: row.int64(0), databaseKey: row.int64(1), zoneName: row.text(2),
      zoneIncarnation: UInt64(bitPattern: row.int64(3)), recordName: name,
      entity: row.text(5), kind: row.int(6), state: row.int(7), userRecordName: row.text(8), deviceID: row.text(9),
      at: row.int64(10),
      settledAt: row.optionalInt64(11))
  }
}

extension SQLiteTransaction {
  func appendConflict(_ conflict: StoredConflict, content: [UInt8], assets: [Asset]) throws -> Int64 {
    try write {
      guard var database = try self.database(key: conflict.databaseKey) else {
        throw ContradictingWrite("no database \(conflict.databaseKey)")
      }
      database.lastConflictNumber += 1
      setDatabase(database)
      let assets = Set(assets)
      let byteCount = conflict.byteCount(content, assets)
      let content = try sealedIfThereIsAKey(content, for: .journal)
      let insert = try writing(ConflictQuery.insert)
      try insert.bind(1, conflict.databaseKey)
      try insert.bind(2, conflict.zoneName)
      try insert.bind(3, Int64(bitPattern: conflict.zoneIncarnation))
      try insert.bind(4, recordName: conflict.recordName)
      try insert.bind(5, conflict.entity)
      try insert.bind(6, conflict.kind)
      try insert.bind(7, conflict.state)
      try insert.bind(8, conflict.userRecordName)
      try insert.bind(9, conflict.deviceID)
      try insert.bind(10, conflict.at)
      try insert.bind(11, conflict.settledAt)
      try insert.bind(12, byteCount)
      try insert.bind(13, conflict.checksum(content))
      try insert.bind(14, content)
      try insert.bind(15, database.lastConflictNumber)
      guard let row = try insert.first({ $0.int64(0) }) else {
        throw StoreError.corrupt("shard \(shard): a conflict has no number")
      }
      try keep(assets, forTransaction: JournalRowID.of(row))
      countWrite(records: 1, bytes: content.count)
      var use = try conflictUse(in: conflict.databaseKey, of: conflict.userRecordName)
      use.count += 1
      use.byteCount += byteCount
      try put(use, in: conflict.databaseKey, of: conflict.userRecordName)
      if use.isTooMuch { try evictConflicts(besides: row, conflict) }
      return database.lastConflictNumber
    }
  }

  func settleConflict(_ number: Int64, in database: Int64, as state: Int, at time: Int64) throws {
    try write {
      let update = try writing(ConflictQuery.settle)
      try update.bind(1, number)
      try update.bind(2, database)
      try update.bind(3, state)
      try update.bind(4, time)
      guard try update.runCounting() == 1 else { throw ContradictingWrite("no conflict \(number)") }
    }
  }

  func forgetConflicts(before cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let select = try statement(ConflictQuery.old)
      try select.bind(1, cutoff)
      try select.bind(2, max(limit, 0))
      return try removeSlice(select).count
    }
  }

  /// Removes entries. Limits the work by bytes as well, because saves wait for this thread.
  /// - Parameter select: finds their keys and bytes.
  /// - Returns: the number of removed entries, and of those that were found.
  private func removeSlice(_ select: StoreStatement) throws -> (count: Int, foundCount: Int) {
    var byteCount: Int64 = 0
    let found = try select.all { ($0.int64(0), $0.int64(1)) }
    let slice = found.prefix { row in
      defer { byteCount += row.1 }
      return byteCount < StoredConflict.sliceByteCount
    }
    for (row, _) in slice { try removeConflict(row) }
    return (slice.count, found.count)
  }

  func deleteConflicts(of database: Int64, inZone zoneName: String, limit: Int) throws -> Bool {
    try write {
      let select = try statement(ConflictQuery.ofZone)
      try select.bind(1, database)
      try select.bind(2, zoneName)
      try select.bind(3, max(limit, 0))
      let (count, foundCount) = try removeSlice(select)
      return count == foundCount && count < limit
    }
  }

  func deleteConflicts(of database: Int64, limit: Int) throws -> Int {
    try write {
      let select = try statement(CutQuery.conflicts)
      try select.bind(1, database)
      try select.bind(2, limit)
      let count = try removeSlice(select).count
      if count == 0 { try deleteRows(ConflictQuery.deleteUses, of: database) }
      return count
    }
  }

  /// Removes entries of a user until the journal is within its limits.
  /// - Parameter row: the entry that was just written, which stays.
  private func evictConflicts(besides row: Int64, _ conflict: StoredConflict) throws {
    while true {
      let use = try conflictUse(in: conflict.databaseKey, of: conflict.userRecordName)
      guard use.isTooMuch else { return }
      let select = try statement(ConflictQuery.surplus)
      try select.bind(1, conflict.databaseKey)
      try select.bind(2, conflict.userRecordName)
      try select.bind(3, row)
      try select.bind(4, 1)
      guard let victim = try select.first({ $0.int64(0) }) else { return }
      try removeConflict(victim, isEvicted: true)
    }
  }

  private func removeConflict(_ row: Int64, isEvicted: Bool = false) throws {
    let assets = JournalRowID.of(row)
    try letGo(heldAssets(inRow: assets), inRow: assets)
    let delete = try writing(ConflictQuery.delete)
    try delete.bind(1, row)
    guard let (database, user, byteCount) = try delete.first({ ($0.int64(0), $0.text(1), $0.int64(2)) }) else { return }
    var use = try conflictUse(in: database, of: user)
    use.count -= 1
    use.byteCount -= byteCount
    if isEvicted { use.evictedCount += 1 }
    try put(use, in: database, of: user)
  }

  private func put(_ use: ConflictUse, in database: Int64, of userRecordName: String) throws {
    let put = try writing(ConflictQuery.putUse)
    try put.bind(1, database)
    try put.bind(2, userRecordName)
    try put.bind(3, use.count)
    try put.bind(4, use.byteCount)
    try put.bind(5, use.evictedCount)
    try put.run()
  }
}

extension StoredConflict {
  /// CRC-32 over the constant columns of the row. Each text has its length in front.
  func checksum(_ content: [UInt8]) -> Int64 {
    var sum = withUnsafeBytes(
      of: (databaseKey.littleEndian, zoneIncarnation.littleEndian, Int64(kind).littleEndian, at.littleEndian)
    ) { Checksum.update(0, $0) }
    for text in [zoneName, recordName, entity, userRecordName, deviceID] {
      sum = withUnsafeBytes(of: Int64(text.utf8.count).littleEndian) { Checksum.update(sum, $0) }
      var text = text
      sum = text.withUTF8 { Checksum.update(sum, UnsafeRawBufferPointer($0)) }
    }
    return Int64(content.withUnsafeBytes { Checksum.update(sum, $0) })
  }
}
