// Purges history beyond its retention, never above the low-water mark, a slice at a time between saves (H8).

import ObjectPlane
import RecordStore
import ServiceKit
import ZoneCommit

/// Keeps the history of stores from growing without bound.
struct HistoryKeeper: ShardWork {
  /// Zero keeps history without end.
  let retention: Duration
  let clock: any WallClock
  let log: Log
  /// Returns after that time, or early when its task is cancelled.
  let pause: @Sendable (Duration) async -> Void

  private static let slicePause = Duration.milliseconds(50)
  private static let longestRound = Duration.seconds(3600)
  private static let pageCount = 100
  /// A consumer silent for this many retentions is dropped, so that one dead extension does not keep all history.
  private static let consumerPatience: Int64 = 4

  func run(on store: any ShardStore) async {
    guard retention > .zero else { return }
    while !Task.isCancelled {
      await purge(in: store)
      await pause(min(max(retention / 4, .seconds(1)), Self.longestRound))
    }
  }

  private func purge(in store: any ShardStore) async {
    let cutoff = clock.now - retention.components.seconds * 1000
    let unseen = clock.now - Self.consumerPatience * retention.components.seconds * 1000
    var last: Int64 = 0
    do {
      while !Task.isCancelled {
        let after = last
        let page = try await store.read { snapshot in
          try snapshot.mirrors(afterKey: after, limit: Self.pageCount).map { mirror in
            let hasDeadConsumer = try snapshot.consumers(of: mirror.key).contains { $0.seenAt < unseen }
            return (
              mirror: mirror,
              isDue: try hasDeadConsumer
                || Self.end(of: mirror, before: cutoff, in: snapshot) > mirror.purgedTransactionNumber
            )
          }
        }
        for (mirror, _) in page.filter(\.isDue) where !Task.isCancelled {
          try await purge(mirror, before: cutoff, unseenSince: unseen, in: store)
        }
        guard page.count == Self.pageCount, let end = page.last?.mirror.key else { return }
        last = end
      }
    } catch {
      report("old history can't be purged", error, on: store, to: log)
    }
  }

  private func purge(_ mirror: StoredMirror, before cutoff: Int64, unseenSince unseen: Int64, in store: any ShardStore)
    async throws
  {
    var total = 0
    while !Task.isCancelled {
      let (count, dropped, isDone) = try await store.enqueue { transaction -> (Int, [String], Bool) in
        // The store was removed after the read.
        guard let mirror = try transaction.mirror(key: mirror.key) else { return (0, [], true) }
        let dropped = try transaction.consumers(of: mirror.key).filter { $0.seenAt < unseen }.map(\.name)
        for name in dropped { try transaction.deleteConsumer(named: name, of: mirror.key) }
        let end = try Self.end(of: mirror, before: cutoff, in: transaction)
        let through = min(end, mirror.purgedTransactionNumber + StoredMirror.historySliceCount)
        guard through > mirror.purgedTransactionNumber else { return (0, dropped, true) }
        return (try transaction.purgeTransactions(of: mirror.key, through: through), dropped, through == end)
      }.value
      for name in dropped {
        log.warning(
          "a consumer of history was silent for long and is dropped",
          ["store": .text(mirror.identifier), "consumer": .text(name)])
      }
      total += count
      if isDone { break }
      await pause(Self.slicePause)
    }
    if total > 0 {
      log.info("old history was purged", ["store": .text(mirror.identifier), "transactions": .integer(Int64(total))])
    }
  }

  /// The last transaction that may be purged: older than the cutoff, and processed by every consumer.
  private static func end(of mirror: StoredMirror, before cutoff: Int64, in snapshot: any ShardSnapshot) throws -> Int64
  {
    guard mirror.purgedTransactionNumber < mirror.lastTransactionNumber else { return mirror.purgedTransactionNumber }
    let next =
      try snapshot.firstTransaction(of: mirror.key, appendedAtOrAfter: cutoff) ?? mirror.lastTransactionNumber + 1
    return min(next - 1, try LowWaterMark(of: mirror, in: snapshot).transactionNumber)
  }
}
