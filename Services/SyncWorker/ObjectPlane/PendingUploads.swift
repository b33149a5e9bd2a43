// What a store has saved and not exported, looked through within bounds.

import History
import RecordStore

enum PendingTransactions {
  /// Read at once.
  private static let chunk = 100
  private static let chunkByteCount = 8_000_000
  private static let byteLimit = 64_000_000

  /// Passes over each in order; what can't be read is the export's to report.
  /// - Returns: whether that was all of them.
  static func forEach(
    of mirror: StoredMirror, rowLimit: Int, in snapshot: any ShardSnapshot, _ body: (StoredTransaction, HistoryTransaction) throws -> Void
  ) throws -> Bool {
    var last = mirror.exportedTransactionNumber
    var (rowCount, byteCount) = (0, 0)
    while last < mirror.lastTransactionNumber {
      if rowCount >= rowLimit || byteCount >= byteLimit { return false }
      let rows: [StoredTransaction]
      do {
        rows = try snapshot.transactions(of: mirror.key, after: last, limit: chunk, byteLimit: chunkByteCount)
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
  /// Of the transactions as they are stored; large values, which lie in files, are not in it.
  private(set) var byteCount = 0
  /// False: `objectCount` and `byteCount` are of the first of very many transactions.
  private(set) var isComplete = true

  /// Status is asked for often: of more than these transactions the first are looked at.
  private static let countedTransactions = 1000

  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    transactionCount = mirror.lastTransactionNumber - mirror.exportedTransactionNumber
    guard transactionCount > 0 else { return }
    var objects: Set<String> = []
    var bytes = 0
    isComplete = try PendingTransactions.forEach(of: mirror, rowLimit: Self.countedTransactions, in: snapshot) { row, transaction in
      for change in transaction.changes { objects.insert(change.objectID) }
      bytes += row.payload.count
    }
    objectCount = objects.count
    byteCount = bytes
  }
}
