// A shard under concurrency: a write happens between two reads, or a read fails.

import RecordStore
import Synchronization

/// Passes everything on, and does something once, behind the read of a number.
final class MeddlingStore: ShardStore {
  private let base: any ShardStore
  private let number: Int
  private let meddle: @Sendable () async throws -> Void
  private let count = Mutex(0)

  /// - Parameters:
  ///   - number: the read, from 1 on, after which `meddle` runs.
  ///   - meddle: its errors become the read's errors.
  init(_ base: any ShardStore, behindRead number: Int, _ meddle: @escaping @Sendable () async throws -> Void) {
    self.base = base
    self.number = number
    self.meddle = meddle
  }

  /// How many reads there were.
  var readCount: Int { count.withLock { $0 } }

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var statistics: [StoreStatistic] { base.statistics }

  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> { base.enqueue(expecting: lookups, body) }

  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    let value = try await base.read(body)
    let isDue = count.withLock { count in
      count += 1
      return count == number
    }
    if isDue { try await meddle() }
    return value
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    try await base.removeUnknownContent(after: part)
  }
  func close() async { await base.close() }
}
