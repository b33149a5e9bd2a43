// Reads within bounds the transactions that a store has saved and not exported.

package import History
package import RecordStore

package enum PendingTransactions {
  /// Rows read at once.
  private static let chunk = 100
  private static let chunkByteCount = 8_000_000
  package static let byteLimit = 64_000_000

  /// Visits each transaction in order; the export reports unreadable ones.
  /// - Returns: whether all were visited.
  package static func forEach(
    of mirror: StoredMirror, rowLimit: Int, byteLimit: Int = byteLimit, in snapshot: any ShardSnapshot,
    _ body: (StoredTransaction, HistoryTransaction) throws -> Void
  ) throws -> Bool {
    var last = mirror.exportedTransactionNumber
    var (rowCount, byteCount) = (0, 0)
    while last < mirror.lastTransactionNumber {
      if rowCount >= rowLimit || byteCount >= byteLimit { return false }
      let rows: [StoredTransaction]
      do {
        rows = try snapshot.transactions(
          of: mirror.key, after: last, limit: min(chunk, rowLimit - rowCount),
          byteLimit: min(chunkByteCount, byteLimit - byteCount))
      } catch StoreError.corrupt {
        // Dropped because the export reports a transaction that can't be read.
        last += 1
        continue
      }
      guard let end = rows.last else { return true }
      for row in rows {
        byteCount += row.payload.count
        // Dropped because the export reports a transaction that can't be read.
        if let transaction = try? HistoryTransaction(decoding: row.payload) { try body(row, transaction) }
      }
      rowCount += rows.count
      last = end.number
    }
    return true
  }
}

/// How much of a store waits for its export.
struct PendingUploads: Sendable {
  let transactionCount: Int64
  /// Objects that the transactions name, each once.
  private(set) var objectCount = 0
  /// Bytes of the stored transactions; large values are in files and do not count.
  private(set) var byteCount = 0
  /// True if `objectCount` and `byteCount` cover all transactions and not just the first ones.
  private(set) var isComplete = true

  /// Transactions that `status`, a frequent call, counts at most.
  private static let countedTransactions = 1000

  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    transactionCount = mirror.lastTransactionNumber - mirror.exportedTransactionNumber
    guard transactionCount > 0 else { return }
    var objects: Set<String> = []
    var bytes = 0
    isComplete = try PendingTransactions.forEach(of: mirror, rowLimit: Self.countedTransactions, in: snapshot) {
      row, transaction in
      for change in transaction.changes { objects.insert(change.objectID) }
      bytes += row.payload.count
    }
    objectCount = objects.count
    byteCount = bytes
  }
}
