// The oracle's journal of conflicts: a list, filtered at each question.

import Records

extension InMemoryTransaction {
  func conflicts(in database: Int64, afterNumber number: Int64, _ filter: ConflictFilter, limit: Int) throws -> [StoredConflict] {
    Array(rows.journal.map(\.conflict).filter { $0.databaseKey == database && $0.number > number && filter.contains($0) }.prefix(max(limit, 0)))
  }

  func conflict(_ number: Int64) throws -> StoredConflict? { rows.journal.first { $0.conflict.number == number }?.conflict }

  func conflictContent(_ number: Int64) throws -> [UInt8]? { rows.journal.first { $0.conflict.number == number }?.content }

  func openConflictCount(in database: Int64, of userRecordName: String?) throws -> Int {
    try conflicts(in: database, afterNumber: 0, ConflictFilter(state: StoredConflict.open, userRecordName: userRecordName), limit: .max).count
  }

  func oldestConflict() throws -> Int64? { rows.journal.first?.conflict.at }

  func appendConflict(_ conflict: StoredConflict, content: [UInt8], assets: [Asset]) throws -> Int64 {
    try write {
      guard rows.databases[conflict.databaseKey] != nil else { throw ContradictingWrite("no database \(conflict.databaseKey)") }
      rows.lastConflict += 1
      var stored = conflict
      stored.number = rows.lastConflict
      rows.journal.append(InMemoryRows.JournalRow(conflict: stored, content: content, assets: Set(assets)))
      let surplus = stored.number % StoredConflict.pruningInterval == 0 && pruneConflicts(of: conflict.databaseKey)
      if surplus || !assets.isEmpty { try countAssets() }
      return stored.number
    }
  }

  func settleConflict(_ number: Int64, as state: Int, at time: Int64) throws {
    try write {
      guard let index = rows.journal.firstIndex(where: { $0.conflict.number == number }) else { throw ContradictingWrite("no conflict \(number)") }
      rows.journal[index].conflict.state = state
      rows.journal[index].conflict.settledAt = time
    }
  }

  func forgetConflicts(before cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let count = rows.journal.prefix(max(limit, 0)).prefix { $0.conflict.at < cutoff }.count
      rows.journal.removeFirst(count)
      try countAssets()
      return count
    }
  }

  func deleteConflicts(of database: Int64) throws {
    try write {
      rows.journal.removeAll { $0.conflict.databaseKey == database }
      try countAssets()
    }
  }

  private func pruneConflicts(of database: Int64) -> Bool {
    var (count, byteCount) = (0, 0)
    var surplus: Set<Int64> = []
    for row in rows.journal.reversed() where row.conflict.databaseKey == database {
      count += 1
      byteCount += row.content.count
      if count > StoredConflict.keptCount || byteCount > StoredConflict.keptByteCount { surplus.insert(row.conflict.number) }
    }
    rows.journal.removeAll { surplus.contains($0.conflict.number) }
    return !surplus.isEmpty
  }
}

extension ConflictFilter {
  fileprivate func contains(_ conflict: StoredConflict) -> Bool {
    (recordName.map { $0 == conflict.recordName } ?? true) && (state.map { $0 == conflict.state } ?? true)
      && (userRecordName.map { $0 == conflict.userRecordName } ?? true)
  }
}
