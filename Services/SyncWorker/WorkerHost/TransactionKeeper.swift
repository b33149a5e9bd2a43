// Forgets transactions without history once no client may send them again, a slice at a time between saves.

import RecordStore
import ServiceKit
import ZoneCommit

/// Keeps the table of purged transactions from growing without bound.
struct TransactionKeeper: ShardWork {
  let clock: any WallClock
  let log: Log
  /// Returns after that time, or early when its task is cancelled.
  let pause: @Sendable (Duration) async -> Void

  /// Milliseconds for which a transaction stays known after its save, because a client may send it again that long.
  /// For a removed store the time runs from its removal.
  static let memory: Int64 = 365 * 86_400_000
  /// The most transactions that one commit forgets.
  private static let sliceCount = 500
  private static let slicePause = Duration.milliseconds(50)
  private static let roundPause = Duration.seconds(3600)
  private static let pageCount = 100

  func run(on store: any ShardStore) async {
    while !Task.isCancelled {
      do {
        let count = try await forget(in: store)
        if count > 0 {
          log.info(
            "old transactions were removed", ["shard": .integer(Int64(store.shard)), "count": .integer(Int64(count))])
        }
      } catch {
        report("old transactions can't be removed", error, on: store, to: log)
      }
      await pause(Self.roundPause)
    }
  }

  private func forget(in store: any ShardStore) async throws -> Int {
    let cutoff = clock.now - Self.memory
    var total = 0
    var last: Int64 = 0
    while !Task.isCancelled {
      let after = last
      let page = try await store.read { try $0.mirrors(afterKey: after, limit: Self.pageCount) }
      for mirror in page where mirror.forgottenTransactionNumber < mirror.purgedTransactionNumber {
        total += try await slices(of: store) { transaction, limit in
          // The store was removed after the read.
          guard try transaction.mirror(key: mirror.key) != nil else { return 0 }
          return try transaction.forgetTransactions(of: mirror.key, appendedBefore: cutoff, limit: limit)
        }
      }
      guard page.count == Self.pageCount, let end = page.last?.key else { break }
      last = end
    }
    return total + (try await slices(of: store) { try $0.forgetFormerMirrors(removedBefore: cutoff, limit: $1) })
  }

  private func slices(
    of store: any ShardStore, _ forget: @escaping @Sendable (any ShardTransaction, _ limit: Int) throws -> Int
  ) async throws -> Int {
    var total = 0
    while !Task.isCancelled {
      let count = try await store.enqueue { try forget($0, Self.sliceCount) }.value
      total += count
      if count == 0 { break }
      await pause(Self.slicePause)
    }
    return total
  }
}
