// Transactions whose history is gone, in a shard's file. They are recognized when they are sent again.

import Records
import SQLite

extension SQLiteSnapshot {
  func keptTransactionNumber(of transactionID: String, in mirror: Int64) throws -> Int64? {
    try boundTransaction(transactionID, of: mirror).first { HistoryRowID.number($0.int64(0)) }
  }

  func boundTransaction(_ transactionID: String, of mirror: Int64) throws -> StoreStatement {
    let select = try statement(HistoryQuery.numberByID)
    try select.bind(1, mirror)
    try select.bind(2, recordName: transactionID)
    return select
  }

  func settledTransaction(withID transactionID: String, of mirror: Int64) throws -> SettledTransaction? {
    // Most stores have none, so this saves the lookup.
    guard let row = try self.mirror(key: mirror), row.forgottenTransactionNumber < row.purgedTransactionNumber else {
      return nil
    }
    let select = try statement(SettledQuery.byID)
    try select.bind(1, row.lineage)
    try select.bind(2, recordName: transactionID)
    return try select.first {
      SettledTransaction(
        number: HistoryRowID.number($0.int64(0)), transactionID: transactionID, appendedAt: $0.int64(1),
        objects: $0.optionalBlob(2))
    }
  }
}

/// The row about a removed store.
struct FormerMirror {
  /// The key of its lineage.
  let lineage: Int64
  let lastTransactionNumber: Int64
  let forgottenTransactionNumber: Int64
  let forgottenAt: Int64

  init(_ row: StoreStatement) {
    lineage = row.int64(0)
    lastTransactionNumber = row.int64(1)
    forgottenTransactionNumber = row.int64(2)
    forgottenAt = row.int64(3)
  }
}

extension SQLiteTransaction {
  /// Removes transactions from a store's history and keeps their identifiers.
  /// - Returns: the number of transactions, and the row to store.
  func settleTransactions(of row: StoredMirror, through number: Int64) throws -> (count: Int, row: StoredMirror) {
    var row = row
    let (first, last) = (HistoryRowID.of(row.key, 0), HistoryRowID.of(row.key, number))
    if row.takesParts { try settleOneByOne(row, through: number) } else { try settle(row, after: first, through: last) }
    let count = try removeTransactions(of: row.key, after: first, through: last)
    row.purgedTransactionNumber = max(row.purgedTransactionNumber, min(number, row.lastTransactionNumber))
    let surplus = row.purgedTransactionNumber - SettledTransaction.keptCount
    if surplus > row.forgottenTransactionNumber {
      forgottenTransactionCount += Int(surplus - row.forgottenTransactionNumber)
      try forget(&row, through: surplus)
    }
    return (count, row)
  }

  /// Removes rows of a store's history.
  /// - Returns: the number of transactions.
  func removeTransactions(of mirror: Int64, after first: Int64, through last: Int64) throws -> Int {
    let delete = try writing(HistoryQuery.purge)
    try delete.bind(1, first)
    try delete.bind(2, last)
    let count = try delete.runCounting()
    let purge = try writing(HistoryQuery.purgeTimes)
    try purge.bind(1, mirror)
    try purge.bind(2, HistoryRowID.number(last))
    try purge.run()
    try letGo(ofTransactionsAfter: first, through: last)
    return count
  }

  private func settle(_ row: StoredMirror, after first: Int64, through last: Int64) throws {
    let settle = try writing(SettledQuery.settleAll)
    try settle.bind(1, first)
    try settle.bind(2, last)
    try settle.bind(3, row.lineage)
    try settle.run()
  }

  /// Keeps the changed objects of each transaction as well, to recognize its later parts.
  private func settleOneByOne(_ row: StoredMirror, through number: Int64) throws {
    var last = row.purgedTransactionNumber
    while last < min(number, row.lastTransactionNumber) {
      var page: [StoredTransaction]
      do {
        page = try transactions(
          of: row.key, after: last, limit: Self.settledPageCount, byteLimit: Self.settledPageByteCount)
      } catch StoreError.corrupt {
        // Dropped because an unreadable transaction is removed with the rest, and its identifier still recognizes it.
        try settle(row, after: HistoryRowID.of(row.key, last), through: HistoryRowID.of(row.key, last + 1))
        last += 1
        continue
      }
      page.removeAll { $0.number > number }
      guard let end = page.last?.number else { return }
      for transaction in page { try settle(SettledTransaction(transaction, namesObjects: true), in: row.lineage) }
      last = end
    }
  }

  private static let settledPageCount = 100
  private static let settledPageByteCount = 4 << 20

  private func settle(_ transaction: SettledTransaction, in lineage: Int64) throws {
    let insert = try writing(SettledQuery.settle)
    try insert.bind(1, HistoryRowID.of(lineage, transaction.number))
    try insert.bind(2, lineage)
    try insert.bind(3, transaction.appendedAt)
    try insert.bind(4, recordName: transaction.transactionID)
    try insert.bind(5, transaction.objects)
    try insert.run()
  }

  /// Forgets identifiers up to `number`, and notes in the store's row that number and the time of the last append.
  private func forget(_ row: inout StoredMirror, through number: Int64) throws {
    let appendedAt = try forget(row.lineage, after: row.forgottenTransactionNumber, through: number)
    row.forgottenTransactionNumber = number
    row.forgottenAt = max(row.forgottenAt, appendedAt)
    try note(forgotten: row.forgottenTransactionNumber, row.forgottenAt, in: row.key, MirrorQuery.noteForgotten)
  }

  /// - Returns: the time at which the last of them was appended, in milliseconds since 1970; 0 when there is none.
  private func forget(_ lineage: Int64, after start: Int64, through number: Int64) throws -> Int64 {
    let (first, last) = (HistoryRowID.of(lineage, start), HistoryRowID.of(lineage, number))
    let select = try statement(SettledQuery.lastAt)
    try select.bind(1, first)
    try select.bind(2, last)
    let appendedAt = try select.first { $0.optionalInt64(0) } ?? nil
    let delete = try writing(SettledQuery.forget)
    try delete.bind(1, first)
    try delete.bind(2, last)
    try delete.run()
    return appendedAt ?? 0
  }

  private func note(forgotten number: Int64, _ appendedAt: Int64, in row: Int64, _ query: some Query) throws {
    let note = try writing(query)
    try note.bind(1, row)
    try note.bind(2, number)
    try note.bind(3, appendedAt)
    try note.run()
  }

  func forgetTransactions(of mirror: Int64, appendedBefore cutoff: Int64, limit: Int) throws -> Int {
    try write {
      guard var row = try self.mirror(key: mirror) else { throw ContradictingWrite("no mirror \(mirror)") }
      let end = min(row.forgottenTransactionNumber + Int64(max(limit, 0)), row.purgedTransactionNumber)
      guard end > row.forgottenTransactionNumber else { return 0 }
      let select = try statement(SettledQuery.firstAt)
      try select.bind(1, HistoryRowID.of(row.lineage, row.forgottenTransactionNumber))
      try select.bind(2, HistoryRowID.of(row.lineage, end))
      try select.bind(3, cutoff)
      let kept = try select.first { HistoryRowID.number($0.int64(0)) }
      let through = kept.map { $0 - 1 } ?? end
      guard through > row.forgottenTransactionNumber else { return 0 }
      let count = Int(through - row.forgottenTransactionNumber)
      try forget(&row, through: through)
      setMirror(row)
      return count
    }
  }

  // MARK: Stores that were removed

  /// Takes over the row of a removed store with the same identifier and user, and deletes it.
  func takeFormerMirror(_ identifier: String, of userRecordName: String, in database: Int64) throws -> FormerMirror? {
    let select = try statement(SettledQuery.formerMirror)
    try select.bind(1, database)
    try select.bind(2, identifier)
    try select.bind(3, userRecordName)
    guard let former = try select.first(FormerMirror.init) else { return nil }
    try delete(former)
    return former
  }

  private func delete(_ former: FormerMirror) throws {
    let delete = try writing(SettledQuery.deleteFormerMirror)
    try delete.bind(1, former.lineage)
    try delete.run()
  }

  /// Remembers a removed store if identifiers of its transactions are kept. Beyond the limit, forgets the oldest
  /// removed store.
  func noteFormerMirror(_ row: StoredMirror) throws {
    guard row.lastTransactionNumber > row.forgottenTransactionNumber else { return }
    let insert = try writing(SettledQuery.insertFormerMirror)
    try insert.bind(1, row.lineage)
    try insert.bind(2, row.databaseKey)
    try insert.bind(3, row.identifier)
    try insert.bind(4, row.userRecordName)
    try insert.bind(5, row.lastTransactionNumber)
    try insert.bind(6, row.forgottenTransactionNumber)
    try insert.bind(7, row.forgottenAt)
    try insert.bind(8, now())
    try insert.run()
    let surplus = try statement(SettledQuery.surplusFormerMirror)
    try surplus.bind(1, row.databaseKey)
    try surplus.bind(2, SettledTransaction.formerStoreCount)
    guard let oldest = try surplus.first(FormerMirror.init) else { return }
    forgottenTransactionCount += try forgetTransactions(of: oldest, limit: Int(SettledTransaction.keptCount))
    try delete(oldest)
  }

  /// - Returns: the number of identifiers forgotten.
  private func forgetTransactions(of former: FormerMirror, limit: Int) throws -> Int {
    let start = former.forgottenTransactionNumber
    let end = min(former.lastTransactionNumber, start + Int64(limit))
    let appendedAt = try forget(former.lineage, after: start, through: end)
    // Noted in the row, so that a store that takes it over meanwhile knows which identifiers are left.
    try note(
      forgotten: end, max(former.forgottenAt, appendedAt), in: former.lineage, SettledQuery.noteForgottenOfFormer)
    return Int(end - start)
  }

  func forgetFormerMirrors(removedBefore cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let select = try statement(SettledQuery.oldestFormerMirror)
      try select.bind(1, cutoff)
      guard limit > 0, let former = try select.first(FormerMirror.init) else { return 0 }
      let count = try forgetTransactions(of: former, limit: limit)
      guard count < limit else { return count }
      try delete(former)
      return count + 1
    }
  }

  /// Forgets a part of what is kept of a database's removed stores.
  /// - Returns: the number of identifiers and stores that were forgotten.
  func forgetFormerMirrors(of database: Int64, limit: Int) throws -> Int {
    try write {
      let select = try statement(SettledQuery.surplusFormerMirror)
      try select.bind(1, database)
      try select.bind(2, 0)
      guard let former = try select.first(FormerMirror.init) else { return 0 }
      let count = try forgetTransactions(of: former, limit: limit)
      guard count < limit else { return count }
      try delete(former)
      return count + 1
    }
  }

  func forgetFormerMirrors(of database: Int64) throws {
    try write {
      for query in [SettledQuery.forgetFormerMirrors, .deleteFormerMirrors] { try deleteRows(query, of: database) }
    }
  }
}
