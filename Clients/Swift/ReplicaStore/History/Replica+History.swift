// Reads and purges history, and keeps the positions of named readers.

package import FoundationEssentials
import SQLite

extension Replica {
  /// - Throws: `historyTokenExpired` when transactions after the token were purged.
  package func history(_ query: HistoryQuery) async throws(StoreError) -> StoredHistory {
    do { return try await read { snapshot in try HistoryReading(snapshot).page(query) } } catch {
      throw storeError(error)
    }
  }

  /// - Returns: how many transactions were deleted.
  package func purgeHistory(before date: Date, force: Bool) async throws(StoreError) -> Int {
    try await write { writer, _ in try HistoryPurge(writer.connection).purge(before: date.milliseconds, force: force) }
  }

  /// Who keeps history from being purged: the outbox, or consumers with their names, and the last number that each
  /// lets go.
  package func historyHolders() async throws(StoreError) -> [(name: String?, number: Int64)] {
    do {
      return try await read { snapshot in
        try snapshot.connection.statement(Self.holders).all { (name: $0.optionalText(0), number: $0.int64(1)) }
      }
    } catch { throw storeError(error) }
  }

  /// Where a consumer stands; nil: it is new.
  package func consumerPosition(_ name: String) async throws(StoreError) -> Int64? {
    do {
      return try await read { snapshot in
        try snapshot.connection.statement(Self.findConsumer).binding(name).first { $0.int64(0) }
      }
    } catch { throw storeError(error) }
  }

  package func setConsumer(_ name: String, to number: Int64) async throws(StoreError) {
    try await write { writer, _ in
      try writer.connection.statement(Self.setConsumer).binding(name, number, writer.now).run()
    }
  }

  package func removeConsumer(_ name: String) async throws(StoreError) {
    try await write { writer, _ in try writer.connection.statement(Self.removeConsumer).binding(name).run() }
  }

  private static let holders = SQL(
    "holders",
    "SELECT NULL, min(number) - 1 FROM outbox HAVING count(*) > 0 UNION ALL SELECT name, number FROM consumer")
  private static let findConsumer = SQL("find consumer", "SELECT number FROM consumer WHERE name = ?")
  private static let setConsumer = SQL(
    "set consumer", "INSERT OR REPLACE INTO consumer(name, number, at) VALUES (?, ?, ?)")
  private static let removeConsumer = SQL("remove consumer", "DELETE FROM consumer WHERE name = ?")
}

extension Snapshot {
  package func history(_ query: HistoryQuery) throws -> StoredHistory { try HistoryReading(self).page(query) }
}

/// Reads pages of history.
struct HistoryReading {
  private let snapshot: Snapshot
  private var connection: Connection { snapshot.connection }

  init(_ snapshot: Snapshot) { self.snapshot = snapshot }

  /// Looks at `limit` transactions at most.
  func page(_ query: HistoryQuery) throws -> StoredHistory {
    let purged = try Meta(connection).number("purgedThrough") ?? 0
    if let after = query.after, after < purged { throw StoreError.historyTokenExpired }
    let statement = try connection.statement(Self.transactions).binding(
      query.after ?? 0, query.afterDate?.milliseconds ?? .min, query.limit + 1)
    let found = try statement.all { row in
      StoredTransaction(
        number: row.int64(0), timestamp: Date(milliseconds: row.int64(1)), author: row.optionalText(2),
        contextName: row.optionalText(3),
        bundleID: row.optionalText(4), processID: row.optionalText(5), changes: [])
    }
    let page = found.prefix(query.limit)
    var transactions: [StoredTransaction] = []
    for transaction in page where matches(transaction, query) {
      let changes = try changes(of: transaction.number, query)
      if !changes.isEmpty { transactions.append(transaction.with(changes)) }
    }
    // Without a transaction the position stays, unless what lay before it was purged.
    let last = page.last?.number ?? max(query.after ?? 0, purged)
    return StoredHistory(transactions: transactions, number: last, moreComing: found.count > page.count)
  }

  private func matches(_ transaction: StoredTransaction, _ query: HistoryQuery) -> Bool {
    if let authors = query.authors, !authors.contains(transaction.author ?? "") { return false }
    if let author = transaction.author, query.excludedAuthors.contains(author) { return false }
    if let names = query.contextNames, !names.contains(transaction.contextName ?? "") { return false }
    return true
  }

  private func changes(of number: Int64, _ query: HistoryQuery) throws -> [HistoryChange] {
    let statement = try connection.statement(Self.changes).binding(number << 20, (number + 1) << 20)
    var changes: [HistoryChange] = []
    try statement.forEach { row in
      guard let kind = HistoryChange.Kind(rawValue: row.int(0)), query.changeTypes.contains(kind) else { return }
      let entity = snapshot.schema.entitiesByKey[row.int64(1)]?.name ?? ""
      if let names = query.entityNames, !names.contains(entity) { return }
      let properties = Set(HistoryWriter.decode(row.blob(3)).compactMap { snapshot.schema.propertyNames[$0] })
      if kind == .update, let wanted = query.updatedProperties, wanted.isDisjoint(with: properties) { return }
      let bytes = row.blob(4)
      let tombstone = bytes.isEmpty ? [:] : try JSONDecoder().decode([String: Literal].self, from: Data(bytes))
      changes.append(
        HistoryChange(
          kind: kind, object: AnyObjectID(entityName: entity, recordName: RecordName.read(row, 2)),
          updatedProperties: properties, tombstone: tombstone))
    }
    return changes
  }

  private static let transactions = SQL(
    "history",
    "SELECT t.number, t.timestamp, a.text, c.text, b.text, p.text FROM htransaction t LEFT JOIN word a ON a.key = "
      + "t.author "
      + "LEFT JOIN word c ON c.key = t.contextName LEFT JOIN word b ON b.key = t.bundleID LEFT JOIN word p ON p.key "
      + "= t.processID "
      + "WHERE t.number > ? AND t.timestamp > ? ORDER BY t.number LIMIT ?")
  private static let changes = SQL(
    "history changes",
    "SELECT c.kind, o.entity, o.name, c.properties, c.tombstone FROM hchange c JOIN object o ON o._pk = c.object "
      + "WHERE c.id >= ? AND c.id < ? ORDER BY c.id"
  )
}

extension StoredTransaction {
  fileprivate func with(_ changes: [HistoryChange]) -> StoredTransaction {
    StoredTransaction(
      number: number, timestamp: timestamp, author: author, contextName: contextName, bundleID: bundleID,
      processID: processID, changes: changes)
  }
}
