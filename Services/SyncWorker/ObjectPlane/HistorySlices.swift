// Ends long histories a slice in each commit, so that requests of others take turns with it.

import Mirroring
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
import ZoneCommit

extension StoredMirror {
  /// The most transactions that one commit purges.
  package static let historySliceCount: Int64 = 500

  /// Purges a slice of a history that is longer than one.
  /// - Parameter withUnexported: true if transactions that are not exported go as well. No export writes them then.
  /// - Returns: true if nothing was to do: the rest goes with the store's next commit, or is not exported yet.
  package func hasShortHistory(in transaction: any ShardTransaction, withUnexported: Bool = false) throws -> Bool {
    guard lastTransactionNumber - purgedTransactionNumber > Self.historySliceCount else { return true }
    let mark = withUnexported ? lastTransactionNumber : exportedTransactionNumber
    let end = min(mark, purgedTransactionNumber + Self.historySliceCount)
    guard end > purgedTransactionNumber else { return true }
    _ = try transaction.purgeTransactions(of: key, through: end)
    return false
  }
}

extension StoreCall {
  /// Purges exported transactions up to a number, as far as it is still allowed.
  /// - Parameter isForced: also those that consumers have not dealt with.
  /// - Returns: the number of purged transactions.
  func purgeSlices(of mirror: StoredMirror, through number: Int64, isForced: Bool) async throws(RecordError) -> Int {
    var total = 0
    while true {
      let count = try await value(
        of: store.enqueue { transaction -> Int in
          let current = try self.mirror(in: transaction)
          // The store was reset meanwhile, which ended its history.
          guard current.incarnation == mirror.incarnation else { return 0 }
          let mark =
            try isForced
            ? current.exportedTransactionNumber : LowWaterMark(of: current, in: transaction).transactionNumber
          let end = min(number, mark, current.purgedTransactionNumber + StoredMirror.historySliceCount)
          guard end > current.purgedTransactionNumber else { return 0 }
          return try transaction.purgeTransactions(of: current.key, through: end)
        })
      if count == 0 { return total }
      total += count
    }
  }

  /// Ends a history but for its last slice, before the store itself ends.
  package func shortenHistory() async throws(RecordError) {
    while true {
      let isShort = try await value(
        of: store.enqueue { transaction in try self.mirror(in: transaction).hasShortHistory(in: transaction) })
      if isShort { return }
    }
  }
}
