// Connects the calls of a worker with the export loops of its shards.

import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// An export batch that a save has queued.
package struct ExportStart: Sendable {
  let mirrorKey: Int64
  let commit: PendingCommit<ExportOutcome>
  /// The trace of the save, for the logs.
  var traceID = RequestTrace.id
}

/// Lets calls reach the loops of the shards open here. It is no actor, because a save would change threads to ask one.
package final class ShardExports: Sendable {
  /// The stores whose exports are under way or failing.
  let runs = ExportActivity()

  private struct StoreKey: Hashable {
    let shard: Int
    let mirror: Int64
  }

  private let loops = Mutex<[Int: AsyncStream<ExportSignal>.Continuation]>([:])
  /// Stores whose exports have to wait, with the end of the wait: milliseconds since 1970.
  private let throttled = Mutex<[StoreKey: Int64]>([:])

  /// The signals for a shard's loop; they end when its task is cancelled.
  func open(_ shard: Int) -> AsyncStream<ExportSignal> {
    let (signals, continuation) = AsyncStream.makeStream(of: ExportSignal.self)
    loops.withLock { $0[shard] = continuation }
    return signals
  }

  func close(_ shard: Int) {
    loops.withLock { $0[shard] = nil }
    throttled.withLock { throttled in throttled = throttled.filter { $0.key.shard != shard } }
  }

  /// Reports an export that is already in the writer's queue; without a loop no ping follows it.
  func started(_ export: ExportStart, on shard: Int) { signal(.started(export), on: shard) }

  package func signal(_ signal: ExportSignal, on shard: Int) { _ = loops.withLock { $0[shard] }?.yield(signal) }

  func signalAll(_ signal: ExportSignal) {
    for (_, loop) in loops.withLock({ $0.sorted { $0.key < $1.key } }) { loop.yield(signal) }
  }

  /// Until when a store's exports have to wait, in milliseconds since 1970; nil when they need not.
  func throttledUntil(_ mirrorKey: Int64, on shard: Int, at now: Int64) -> Int64? {
    throttled.withLock { throttled in
      if throttled.isEmpty { return nil }
      return throttled[StoreKey(shard: shard, mirror: mirrorKey)].flatMap { $0 > now ? $0 : nil }
    }
  }

  /// - Parameter waits: all waiting stores of the shard, with the end of each wait; they replace the earlier ones.
  func throttle(_ waits: [Int64: Int64], on shard: Int) {
    throttled.withLock { throttled in
      throttled = throttled.filter { $0.key.shard != shard }
      for (mirror, until) in waits { throttled[StoreKey(shard: shard, mirror: mirror)] = until }
    }
  }

  package var throttledCount: Int { throttled.withLock { $0.count } }
}
