// The oracle's journal of conflicts: a list that each call filters and counts.

import RecordStore
import Records

extension InMemoryTransaction {
  func conflicts(in database: Int64, afterNumber number: Int64, _ filter: ConflictFilter, limit: Int) throws
    -> [StoredConflict]
  {
    rows.journal.map(\.conflict).filter { $0.databaseKey == database && $0.number > number && filter.contains($0) }
      .first(limit)
  }

  func conflict(_ number: Int64, in database: Int64) throws -> StoredConflict? { row(number, in: database)?.conflict }

  func conflictContent(_ number: Int64, in database: Int64) throws -> [UInt8]? { row(number, in: database)?.content }

  private func row(_ number: Int64, in database: Int64) -> InMemoryRows.JournalRow? {
    rows.journal.first { $0.conflict.number == number && $0.conflict.databaseKey == database }
  }

  func openConflictCount(in database: Int64, of userRecordName: String?) throws -> Int {
    try conflicts(
      in: database, afterNumber: 0, ConflictFilter(state: StoredConflict.open, userRecordName: userRecordName),
      limit: .max
    ).count
  }

  func conflictUse(in database: Int64, of userRecordName: String) throws -> ConflictUse {
    let own = rows.journal.filter {
      $0.conflict.databaseKey == database && $0.conflict.userRecordName == userRecordName
    }
    return ConflictUse(
      count: own.count, byteCount: own.reduce(0) { $0 + $1.conflict.byteCount($1.content, $1.assets) },
      evictedCount: rows.evictedConflicts[InMemoryRows.JournalUser(database: database, user: userRecordName)] ?? 0)
  }

  func evictedConflictCount() throws -> Int { rows.evictedConflicts.values.reduce(0, +) }

  func oldestConflict() throws -> Int64? {
    rows.journal.map(\.conflict).filter { $0.state != StoredConflict.open }.map(\.at).min()
  }

  func appendConflict(_ conflict: StoredConflict, content: [UInt8], assets: [Asset]) throws -> Int64 {
    try write {
      guard let last = rows.databases[conflict.databaseKey]?.lastConflictNumber else {
        throw ContradictingWrite("no database \(conflict.databaseKey)")
      }
      rows.databases[conflict.databaseKey]?.lastConflictNumber = last + 1
      var stored = conflict
      stored.number = last + 1
      rows.journal.append(InMemoryRows.JournalRow(conflict: stored, content: content, assets: Set(assets)))
      let evicted = try evictConflicts(besides: stored)
      if evicted || !assets.isEmpty { try countAssets() }
      return stored.number
    }
  }

  func settleConflict(_ number: Int64, in database: Int64, as state: Int, at time: Int64) throws {
    try write {
      guard
        let index = rows.journal.firstIndex(where: {
          $0.conflict.number == number && $0.conflict.databaseKey == database
        })
      else {
        throw ContradictingWrite("no conflict \(number)")
      }
      rows.journal[index].conflict.state = state
      rows.journal[index].conflict.settledAt = time
    }
  }

  func forgetConflicts(before cutoff: Int64, limit: Int) throws -> Int {
    try write {
      var byteCount: Int64 = 0
      // Entries of one time go in the order in which they were written.
      let old = rows.journal.enumerated().filter {
        $0.element.conflict.state != StoredConflict.open && $0.element.conflict.at < cutoff
      }
      .sorted { ($0.element.conflict.at, $0.offset) < ($1.element.conflict.at, $1.offset) }.map(\.element).first(limit)
      .prefix { row in
        defer { byteCount += row.conflict.byteCount(row.content, row.assets) }
        return byteCount < StoredConflict.sliceByteCount
      }
      for row in old {
        rows.journal.removeAll {
          $0.conflict.number == row.conflict.number && $0.conflict.databaseKey == row.conflict.databaseKey
        }
      }
      try countAssets()
      return old.count
    }
  }

  func deleteConflicts(of database: Int64, inZone zoneName: String, limit: Int) throws -> Bool {
    func left() -> [InMemoryRows.JournalRow] {
      rows.journal.filter { $0.conflict.databaseKey == database && $0.conflict.zoneName == zoneName }
    }
    return try write {
      let count = try removeSlice(left(), of: database, limit)
      return count < limit && left().isEmpty
    }
  }

  func deleteConflicts(of database: Int64, limit: Int) throws -> Int {
    try write {
      let count = try removeSlice(rows.journal.filter { $0.conflict.databaseKey == database }, of: database, limit)
      if count == 0 { rows.evictedConflicts = rows.evictedConflicts.filter { $0.key.database != database } }
      return count
    }
  }

  private func removeSlice(_ found: [InMemoryRows.JournalRow], of database: Int64, _ limit: Int) throws -> Int {
    var byteCount: Int64 = 0
    let slice = found.prefix(max(limit, 0)).prefix { row in
      defer { byteCount += row.conflict.byteCount(row.content, row.assets) }
      return byteCount < StoredConflict.sliceByteCount
    }
    let numbers = Set(slice.map(\.conflict.number))
    rows.journal.removeAll { $0.conflict.databaseKey == database && numbers.contains($0.conflict.number) }
    try countAssets()
    return slice.count
  }

  private func evictConflicts(besides conflict: StoredConflict) throws -> Bool {
    let user = InMemoryRows.JournalUser(database: conflict.databaseKey, user: conflict.userRecordName)
    // Counting is slow here, so it runs only when the limit may be exceeded.
    guard
      rows.journal.count > StoredConflict.keptCount
        || rows.journal.contains(where: { !$0.assets.isEmpty || $0.content.count > 50_000 })
    else { return false }
    var isEvicting = false
    while try conflictUse(in: user.database, of: user.user).isTooMuch {
      let own = rows.journal.map(\.conflict).filter {
        $0.databaseKey == user.database && $0.userRecordName == user.user && $0.number != conflict.number
      }
      guard let victim = own.min(by: { (-$0.state, $0.number) < (-$1.state, $1.number) }) else { break }
      rows.journal.removeAll { $0.conflict.number == victim.number && $0.conflict.databaseKey == victim.databaseKey }
      rows.evictedConflicts[user, default: 0] += 1
      isEvicting = true
    }
    return isEvicting
  }
}

extension ConflictFilter {
  fileprivate func contains(_ conflict: StoredConflict) -> Bool {
    (recordName.map { $0 == conflict.recordName } ?? true) && (state.map { $0 == conflict.state } ?? true)
      && (userRecordName.map { $0 == conflict.userRecordName } ?? true)
  }
}
