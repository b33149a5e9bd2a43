// Writes of field indexes: making, dropping and maintaining them, and the slices that fill and remove them.

import Indexing
import Records
import SQLite

/// The indexes of a shard in memory, so that a save knows without a read whether its database has any.
struct ShardIndexes {
  private(set) var byDatabase: [Int64: [IndexRow]] = [:]
  /// The database of each index.
  private var databases: [Int64: Int64] = [:]
  /// The indexes that are being filled or removed, ascending by key.
  private(set) var unfinished: [Int64] = []

  init(_ rows: [IndexRow] = []) { for row in rows { set(row) } }

  subscript(key: Int64) -> IndexRow? {
    databases[key].flatMap { byDatabase[$0]?.first { $0.key == key } }
  }

  mutating func set(_ row: IndexRow) {
    remove(row)
    byDatabase[row.databaseKey, default: []].append(row)
    databases[row.key] = row.databaseKey
    if row.state != .ready {
      unfinished.insert(row.key, at: unfinished.firstIndex { $0 > row.key } ?? unfinished.count)
    }
  }

  mutating func remove(_ row: IndexRow) {
    byDatabase[row.databaseKey]?.removeAll { $0.key == row.key }
    if byDatabase[row.databaseKey]?.isEmpty == true { byDatabase[row.databaseKey] = nil }
    databases[row.key] = nil
    unfinished.removeAll { $0 == row.key }
  }
}

extension SQLiteTransaction {
  func makeIndex(_ index: FieldIndex, in database: Int64) throws -> StoredIndex {
    try write {
      guard try self.database(key: database) != nil else { throw ContradictingWrite("no database \(database)") }
      if let row = indexes.byDatabase[database]?.first(where: { $0.index == index && $0.state != .dropping }) {
        return row.stored
      }
      let row = IndexRow(
        key: nextKey(), databaseKey: database, index: index, state: try hasRecords(in: database) ? .filling : .ready)
      let insert = try writing(IndexQuery.make)
      try insert.bind(1, row.key)
      try insert.bind(2, database)
      try insert.bind(3, index.recordType)
      try insert.bind(4, index.key.schemaName)
      try insert.bind(5, index.kind.rawValue)
      try insert.bind(6, row.state.rawValue)
      try insert.bind(7, row.afterZone)
      try insert.bind(8, optionalRecordName: nil)
      try insert.run()
      indexes.set(row)
      return row.stored
    }
  }

  /// A database without records needs no filling.
  private func hasRecords(in database: Int64) throws -> Bool {
    try flushCachedRows()
    let select = try statement(ZoneQuery.anyWithRecords)
    try select.bind(1, database)
    return try select.first { _ in true } ?? false
  }

  func dropIndex(_ index: Int64) throws {
    try write {
      guard var row = indexes[index], row.state != .dropping else { return }
      row.state = .dropping
      row.afterZone = ""
      row.afterName = nil
      try store(row)
    }
  }

  private func store(_ row: IndexRow) throws {
    let update = try writing(IndexQuery.update)
    try update.bind(1, row.key)
    try update.bind(2, row.state.rawValue)
    try update.bind(3, row.afterZone)
    try update.bind(4, optionalRecordName: row.afterName)
    try update.run()
    indexes.set(row)
  }

  // MARK: Keeping up

  /// The record of a row before it is replaced; nil for a tombstone.
  func indexedPredecessor(_ earlier: SeenRecord?, named recordName: String, in zone: Int64) throws -> Record? {
    guard let earlier, !earlier.isDeleted else { return nil }
    let select = try statement(StoredRecordQuery.byRow)
    try select.bind(1, earlier.rowID)
    return try select.first { try record($0, named: recordName, zone: zone).record }
  }

  /// Replaces the entries of `earlier` by those of `later`, a record of the same name. nil stands for no record.
  func updateEntries(
    of known: [IndexRow], from earlier: Record?, to later: Record?, named recordName: String, rowID: Int64, zone: Int64
  ) throws {
    for row in known where row.state != .dropping {
      let old = earlier.map { $0.recordType == row.index.recordType ? row.index.keys(of: $0) : [] } ?? []
      let new = later.map { $0.recordType == row.index.recordType ? row.index.keys(of: $0) : [] } ?? []
      if old == new { continue }
      let (oldKeys, newKeys) = (Set(old), Set(new))
      for key in old where !newKeys.contains(key) {
        let delete = try writing(IndexQuery.deleteEntry)
        try bind(delete, zone, row.key, key, recordName)
        try delete.run()
      }
      for key in new where !oldKeys.contains(key) {
        try insertEntry(key, of: row.key, recordName, rowID: rowID, zone: zone)
      }
    }
  }

  private func insertEntry(_ key: [UInt8], of index: Int64, _ recordName: String, rowID: Int64, zone: Int64) throws {
    let insert = try writing(IndexQuery.insertEntry)
    try bind(insert, zone, index, key, recordName)
    try insert.bind(5, rowID)
    try insert.run()
  }

  private func bind(_ statement: StoreStatement, _ zone: Int64, _ index: Int64, _ key: [UInt8], _ recordName: String)
    throws
  {
    try statement.bind(1, zone)
    try statement.bind(2, index)
    try statement.bind(3, key)
    try statement.bind(4, recordName: recordName)
  }

  // MARK: Slices

  /// Fills or removes one step of the first unfinished index.
  /// - Parameter budget: the limits of the step, reduced by its work.
  /// - Returns: the number of records or entries processed.
  func advanceIndexes(_ budget: inout IndexBudget) throws -> Int {
    guard let key = indexes.unfinished.first, var row = indexes[key] else { return 0 }
    var count = 0
    while !budget.isSpent {
      // Even a zone without records costs a little.
      budget.nameCount -= 1
      guard let zone = try currentZone(of: &row) else {
        if row.state == .dropping {
          let remove = try writing(IndexQuery.remove)
          try remove.bind(1, row.key)
          try remove.run()
          indexes.remove(row)
        } else {
          row.state = .ready
          try store(row)
        }
        return count
      }
      count += row.state == .dropping ? try removeEntries(of: &row, in: zone, &budget) : try fillIn(&row, zone, &budget)
    }
    try store(row)
    return count
  }

  /// The zone in which to continue; nil when all are done. Zones that are made meanwhile have entries from their first
  /// record on.
  private func currentZone(of row: inout IndexRow) throws -> Int64? {
    if row.afterName != nil, let zone = try zoneRow(named: row.afterZone, in: row.databaseKey)?.zone, !zone.isDeleted {
      return zone.key
    }
    let select = try statement(ZoneQuery.afterName)
    try select.bind(1, row.databaseKey)
    try select.bind(2, row.afterZone)
    guard let next = try select.first({ (key: $0.int64(0), name: $0.text(1)) }) else { return nil }
    row.afterZone = next.name
    // No record name is empty.
    row.afterName = ""
    return next.key
  }

  /// Steps through the names of records of all types, which an index covers, and reads the records of the type. So a
  /// slice for a rare type takes no longer than one for a common type.
  private func fillIn(_ row: inout IndexRow, _ zone: Int64, _ budget: inout IndexBudget) throws -> Int {
    guard let type = try symbolNumber(row.index.recordType) else {
      row.afterName = nil
      return 0
    }
    let select = try statement(StoredRecordQuery.names)
    try select.bind(1, zone)
    try select.bind(2, afterRecordName: row.afterName.flatMap { $0.isEmpty ? nil : $0 })
    try select.bind(3, budget.nameCount)
    defer { select.reset() }
    var count = 0
    while !budget.isSpent {
      guard try select.step() else {
        row.afterName = nil
        break
      }
      budget.nameCount -= 1
      let (rowID, name) = (select.int64(0), try recordName(select, 1))
      row.afterName = name
      guard select.int64(2) == type else { continue }
      budget.recordCount -= 1
      count += 1
      guard let record = try recordToIndex(rowID, named: name, zone, &budget) else { continue }
      for key in row.index.keys(of: record) { try insertEntry(key, of: row.key, name, rowID: rowID, zone: zone) }
    }
    return count
  }

  /// - Returns: nil for a tombstone, and for a damaged record. The latter is skipped and reported once, so that it does
  ///   not hold up this index or later ones.
  private func recordToIndex(_ rowID: Int64, named recordName: String, _ zone: Int64, _ budget: inout IndexBudget)
    throws -> Record?
  {
    let select = try statement(StoredRecordQuery.byRow)
    try select.bind(1, rowID)
    do {
      return try select.first { row in
        budget.byteCount -= row.withBytes(8) { $0.count }
        let stored = try record(row, named: recordName, zone: zone)
        return stored.isDeleted ? nil : stored.record
      } ?? nil
    } catch StoreError.corrupt(let reason) {
      passOver(rowID, reason)
      return nil
    }
  }

  private func removeEntries(of row: inout IndexRow, in zone: Int64, _ budget: inout IndexBudget) throws -> Int {
    let limit = budget.recordCount
    let delete = try writing(IndexQuery.dropEntries)
    try delete.bind(1, zone)
    try delete.bind(2, row.key)
    try delete.bind(3, limit)
    let count = try delete.runCounting()
    if count < limit { row.afterName = nil }
    budget.recordCount -= count
    return count
  }
}

/// The limits of the work on indexes: of a step between two looks at the clock, or of a slice, which is one commit.
struct IndexBudget {
  /// Records to read, or entries to remove.
  var recordCount: Int
  /// Names to look at, of records of any type.
  var nameCount: Int
  /// Bytes of records to read.
  var byteCount: Int

  var isSpent: Bool { recordCount <= 0 || nameCount <= 0 || byteCount <= 0 }

  /// The lower limits of both.
  func limited(to other: IndexBudget) -> IndexBudget {
    IndexBudget(
      recordCount: min(recordCount, other.recordCount), nameCount: min(nameCount, other.nameCount),
      byteCount: min(byteCount, other.byteCount))
  }

  /// Subtracts the work that reduced `step` to `rest`.
  mutating func spend(from step: IndexBudget, to rest: IndexBudget) {
    recordCount -= step.recordCount - rest.recordCount
    nameCount -= step.nameCount - rest.nameCount
    byteCount -= step.byteCount - rest.byteCount
  }
}
