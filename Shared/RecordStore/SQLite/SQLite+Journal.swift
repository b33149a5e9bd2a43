// The journal of conflicts in a shard's file: written in the commit that it tells of, and by nobody without a conflict.

import Records
import SQLite

/// The place of an entry's assets in the table of history's: below those of quarantine, whose numbers never come so far.
enum JournalRowID {
  static func of(_ number: Int64) -> Int64 { -(number + offset) }
  static let offset: Int64 = 1 << 48
}

extension SQLiteSnapshot {
  func conflicts(in database: Int64, afterNumber number: Int64, _ filter: ConflictFilter, limit: Int) throws -> [StoredConflict] {
    guard limit > 0 else { return [] }
    let select = try statement(filter.recordName == nil ? .conflictsAfter : .conflictsOfName)
    try select.bind(1, database)
    try select.bind(2, number)
    try select.bind(3, limit)
    try select.bind(4, filter.state.map { Int64($0) })
    try select.bind(5, filter.userRecordName)
    if let name = filter.recordName { try select.bind(6, recordName: name) }
    return try select.all { try conflict($0) }
  }

  func conflict(_ number: Int64) throws -> StoredConflict? {
    let select = try statement(.conflictByNumber)
    try select.bind(1, number)
    return try select.first { try conflict($0) }
  }

  func conflictContent(_ number: Int64) throws -> [UInt8]? {
    let select = try statement(.conflictPayload)
    try select.bind(1, number)
    return try select.first { row in
      let payload = row.blob(1)
      guard row.int64(0) == Self.checksum(of: payload) else {
        throw StoreError.corrupt("shard \(shard): conflict \(number) is not what was written; restore it from a backup")
      }
      return payload
    }
  }

  func openConflictCount(in database: Int64, of userRecordName: String?) throws -> Int {
    let select = try statement(.openConflicts)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    return try select.first { $0.int(0) } ?? 0
  }

  func oldestConflict() throws -> Int64? {
    try statement(.oldestConflict).first { $0.int64(1) }
  }

  static func checksum(of payload: [UInt8]) -> Int64 { Int64(payload.withUnsafeBytes { Checksum.update(0, $0) }) }

  private func conflict(_ row: Statement) throws -> StoredConflict {
    guard let name = row.recordName(3) else { throw StoreError.corrupt("shard \(shard): the name in conflict \(row.int64(0)) has neither form") }
    return StoredConflict(
      number: row.int64(0), databaseKey: row.int64(1), zoneName: row.text(2), recordName: name, entity: row.text(4), kind: row.int(5), state: row.int(6),
      userRecordName: row.text(7), deviceID: row.text(8), at: row.int64(9), settledAt: row.optionalInt64(10))
  }
}

extension SQLiteTransaction {
  func appendConflict(_ conflict: StoredConflict, content: [UInt8], assets: [Asset]) throws -> Int64 {
    try write {
      guard try self.database(key: conflict.databaseKey) != nil else { throw ContradictingWrite("no database \(conflict.databaseKey)") }
      let insert = try writing(.insertConflict)
      try insert.bind(1, conflict.databaseKey)
      try insert.bind(2, conflict.zoneName)
      try insert.bind(3, recordName: conflict.recordName)
      try insert.bind(4, conflict.entity)
      try insert.bind(5, conflict.kind)
      try insert.bind(6, conflict.state)
      try insert.bind(7, conflict.userRecordName)
      try insert.bind(8, conflict.deviceID)
      try insert.bind(9, conflict.at)
      try insert.bind(10, conflict.settledAt)
      try insert.bind(11, content.count)
      try insert.bind(12, SQLiteSnapshot.checksum(of: content))
      try insert.bind(13, content)
      guard let number = try insert.first({ $0.int64(0) }) else { throw StoreError.corrupt("shard \(shard): a conflict has no number") }
      try keep(Set(assets), forTransaction: JournalRowID.of(number))
      countWrite(records: 1, bytes: content.count)
      if number % StoredConflict.pruningInterval == 0 { try pruneConflicts(of: conflict.databaseKey) }
      return number
    }
  }

  func settleConflict(_ number: Int64, as state: Int, at time: Int64) throws {
    try write {
      let update = try writing(.settleConflict)
      try update.bind(1, number)
      try update.bind(2, state)
      try update.bind(3, time)
      try update.run()
      guard session.connection.changes == 1 else { throw ContradictingWrite("no conflict \(number)") }
    }
  }

  func forgetConflicts(before cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let select = try statement(.oldConflicts)
      try select.bind(1, max(limit, 0))
      // Those at the front, whatever is behind them: clocks go back, and none must be looked at again and again.
      let numbers = try select.all { ($0.int64(0), $0.int64(1)) }.prefix { $0.1 < cutoff }.map(\.0)
      for number in numbers { try removeConflict(number) }
      return numbers.count
    }
  }

  func deleteConflicts(of database: Int64) throws {
    try write {
      while case let rows = try conflicts(in: database, afterNumber: 0, ConflictFilter(), limit: 500), !rows.isEmpty {
        for row in rows { try removeConflict(row.number) }
      }
    }
  }

  /// Too many of a database, or with too much in them.
  private func pruneConflicts(of database: Int64) throws {
    let select = try statement(.conflictSizes)
    try select.bind(1, database)
    var (count, byteCount) = (0, 0)
    let surplus = try select.all { row -> Int64? in
      count += 1
      byteCount += row.int(1)
      return count > StoredConflict.keptCount || byteCount > StoredConflict.keptByteCount ? row.int64(0) : nil
    }
    for number in surplus.compactMap(\.self) { try removeConflict(number) }
  }

  private func removeConflict(_ number: Int64) throws {
    let row = JournalRowID.of(number)
    try letGo(heldAssets(inRow: row), inRow: row)
    let delete = try writing(.deleteConflict)
    try delete.bind(1, number)
    try delete.run()
  }
}
