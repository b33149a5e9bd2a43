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

  /// Where a consumer stands. One that is new begins now, so that history is kept for it before it has read a page.
  /// - Parameter start: of a new consumer: the number that it has read; nil: of nothing that is there.
  /// - Throws: `historyTokenExpired` when transactions after the start were purged. The consumer does not begin then.
  package func consumerPosition(_ name: String, beginningAfter start: Int64?) async throws(StoreError) -> Int64 {
    if let known = try await consumerPosition(name) { return known }
    return try await write { writer, outcome in
      outcome.changesFigures = false
      let connection = writer.connection
      if let known = try connection.statement(Self.findConsumer).binding(name).first({ $0.int64(0) }) { return known }
      let purged = try Meta(connection).number("purgedThrough") ?? 0
      let position = start ?? purged
      guard position >= purged else { throw StoreError.historyTokenExpired }
      try connection.statement(Self.setConsumer).binding(name, position, writer.now).run()
      return position
    }
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
      let transaction = StoredTransaction(
        number: row.int64(0), timestamp: Date(milliseconds: row.int64(1)), author: row.optionalText(2),
        contextName: row.optionalText(3), bundleID: row.optionalText(4), processID: row.optionalText(5), changes: [])
      return (transaction: transaction, changes: row.blob(6))
    }
    let page = found.prefix(query.limit)
    var transactions: [StoredTransaction] = []
    for (transaction, bytes) in page where matches(transaction, query) {
      let changes = try changes(in: bytes, query)
      if !changes.isEmpty { transactions.append(transaction.with(changes)) }
    }
    // Without a transaction the position stays, unless what lay before it was purged.
    let last = page.last?.transaction.number ?? max(query.after ?? 0, purged)
    return StoredHistory(transactions: transactions, number: last, moreComing: found.count > page.count)
  }

  private func matches(_ transaction: StoredTransaction, _ query: HistoryQuery) -> Bool {
    if let authors = query.authors, !authors.contains(transaction.author ?? "") { return false }
    if let author = transaction.author, query.excludedAuthors.contains(author) { return false }
    if let names = query.contextNames, !names.contains(transaction.contextName ?? "") { return false }
    return true
  }

  private func changes(in bytes: [UInt8], _ query: HistoryQuery) throws -> [HistoryChange] {
    var changes: [HistoryChange] = []
    try PackedChanges.forEach(in: bytes) { change in
      guard query.changeTypes.contains(change.kind), let object = try snapshot.object(change.object)?.id else { return }
      if let names = query.entityNames, !names.contains(object.entityName) { return }
      let properties = Set(change.properties.compactMap { snapshot.schema.propertyNames[$0] })
      if change.kind == .update, let wanted = query.updatedProperties, wanted.isDisjoint(with: properties) { return }
      let bytes = change.tombstone
      let tombstone = bytes.isEmpty ? [:] : try JSONDecoder().decode([String: Literal].self, from: Data(bytes))
      changes.append(
        HistoryChange(kind: change.kind, object: object, updatedProperties: properties, tombstone: tombstone))
    }
    return changes
  }

  private static let transactions = SQL(
    "history",
    """
    SELECT h.number, h.timestamp, a.text, c.text, b.text, p.text, h.changes FROM history h \
    LEFT JOIN word a ON a.key = h.author LEFT JOIN word c ON c.key = h.contextName \
    LEFT JOIN word b ON b.key = h.bundleID LEFT JOIN word p ON p.key = h.processID \
    WHERE h.number > ? AND h.timestamp > ? ORDER BY h.number LIMIT ?
    """)
}

extension StoredTransaction {
  fileprivate func with(_ changes: [HistoryChange]) -> StoredTransaction {
    StoredTransaction(
      number: number, timestamp: timestamp, author: author, contextName: contextName, bundleID: bundleID,
      processID: processID, changes: changes)
  }
}
