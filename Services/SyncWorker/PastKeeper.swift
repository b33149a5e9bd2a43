// Forgets what records were before, when it is older than it has to be kept, a slice at a time between saves.

import RecordStore
import ServiceKit

/// Keeps a shard's past states from growing for ever.
struct PastKeeper: ShardWork {
  /// Zero: nothing is kept, and what an earlier configuration kept is forgotten.
  let retention: Duration
  let clock: any WallClock
  let log: Log
  /// Returns after that time, or early when its task is cancelled.
  let pause: @Sendable (Duration) async -> Void

  /// States a commit forgets: a few milliseconds on the thread that saves wait for.
  private static let sliceCount = 200
  private static let slicePause = Duration.milliseconds(20)
  private static let longestRound = Duration.seconds(600)

  func run(on store: any ShardStore) async {
    while !Task.isCancelled {
      await forget(in: store)
      await pause(min(max(retention / 4, .seconds(1)), Self.longestRound))
    }
  }

  private func forget(in store: any ShardStore) async {
    let cutoff = retention > .zero ? clock.now - retention.components.seconds * 1000 : .max
    var total = 0
    do {
      while !Task.isCancelled {
        // A commit of its own only where there is something to forget.
        guard try await store.read({ try $0.oldestReplacement() }).map({ $0 < cutoff }) ?? false else { break }
        let count = try await store.enqueue { try $0.forgetPast(replacedBefore: cutoff, limit: Self.sliceCount) }.value
        total += count
        if count < Self.sliceCount { break }
        await pause(Self.slicePause)
      }
      if total > 0 { log.info("past states of records were forgotten", ["shard": .integer(Int64(store.shard)), "states": .integer(Int64(total))]) }
    } catch {
      report("past states can't be forgotten", error, on: store, to: log)
    }
  }
}
