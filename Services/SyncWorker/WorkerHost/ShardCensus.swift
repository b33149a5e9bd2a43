// Gathers the worker's metrics of stored data in the background, so that a scrape reads no shard.

import RecordStore
import ServiceKit
import Synchronization
import ZoneCommit

/// Looks at every open shard repeatedly if it was written to since, or if transactions waited.
final class ShardCensus: ShardWork {
  /// The figures of one shard.
  struct Figures: Hashable, Sendable {
    /// Objects with changes that no export could write yet.
    var quarantinedCount = 0
    /// Saved transactions that await export.
    var waitingCount = 0
    /// When the oldest waiting transaction was saved, in milliseconds since 1970.
    var oldestWaitingAt: Int64?
    /// Conflicts forgotten so far because a user had too many.
    var evictedCount = 0
  }

  private let clock: any WallClock
  private let log: Log
  private let pause: @Sendable (Duration) async -> Void
  private let evictions: Counter
  private let figures = Mutex<[Int: Figures]>([:])

  /// Time between two looks at a shard.
  static let interval = Duration.seconds(5)
  /// The most stores of a shard that are looked at. Transactions of other stores are not counted.
  private static let storeLimit = 200

  /// - Parameter pause: returns after that time, or early when its task is cancelled.
  init(metrics: Metrics, clock: any WallClock, log: Log, pause: @escaping @Sendable (Duration) async -> Void) {
    self.clock = clock
    self.log = log
    self.pause = pause
    evictions = metrics.counter("conflicts_evicted_total", "Conflicts dropped because a user had too many.")
    let quarantined = Metrics.Description("quarantined_objects", "Objects with changes that no export could write yet.")
    let waiting = Metrics.Description("export_waiting_transactions", "Saved transactions that are not exported yet.")
    let age = Metrics.Description(
      "export_oldest_waiting_seconds", "Age of the oldest transaction that waits for its export; 0 when none waits.")
    metrics.collect([quarantined, waiting, age]) { [weak self] in
      var readings = Metrics.Readings()
      guard let sum = self?.sum else { return readings }
      readings[quarantined.name] = Double(sum.quarantinedCount)
      readings[waiting.name] = Double(sum.waitingCount)
      readings[age.name] = sum.oldestWaitingAt.map { Double(max(clock.now - $0, 0)) / 1000 } ?? 0
      return readings
    }
  }

  /// The sum over all open shards, as each was last seen.
  var sum: Figures {
    figures.withLock { figures in
      figures.values.reduce(into: Figures()) { sum, next in
        sum.quarantinedCount += next.quarantinedCount
        sum.waitingCount += next.waitingCount
        sum.oldestWaitingAt = [sum.oldestWaitingAt, next.oldestWaitingAt].compactMap(\.self).min()
      }
    }
  }

  func run(on store: any ShardStore) async {
    var seen: (commits: Double, figures: Figures)?
    while !Task.isCancelled {
      let commits = store.statistics.first { $0.name == "commits_total" }?.value ?? 0
      if seen?.commits != commits || seen?.figures.waitingCount != 0 {
        do {
          let found = try await store.read { snapshot in try Self.figures(of: snapshot) }
          if let seen { evictions.increment(by: max(found.evictedCount - seen.figures.evictedCount, 0)) }
          seen = (commits, found)
          figures.withLock { $0[store.shard] = found }
        } catch {
          report("a shard could not be counted", error, on: store, to: log)
        }
      }
      await pause(Self.interval)
    }
    figures.withLock { $0[store.shard] = nil }
  }

  static func figures(of snapshot: any ShardSnapshot) throws -> Figures {
    var figures = Figures(evictedCount: try snapshot.evictedConflictCount())
    for key in try snapshot.mirrorsWithQuarantine(afterKey: 0, limit: storeLimit) {
      figures.quarantinedCount += try snapshot.mirror(key: key)?.quarantinedCount ?? 0
    }
    for key in try snapshot.mirrorsAwaitingExport(afterKey: 0, limit: storeLimit) {
      guard let mirror = try snapshot.mirror(key: key) else { continue }
      figures.waitingCount += Int(clamping: mirror.lastTransactionNumber - mirror.exportedTransactionNumber)
      let oldest = try snapshot.transactions(of: key, after: mirror.exportedTransactionNumber, limit: 1, byteLimit: 1)
        .first?.appendedAt
      figures.oldestWaitingAt = [figures.oldestWaitingAt, oldest].compactMap(\.self).min()
    }
    return figures
  }
}
