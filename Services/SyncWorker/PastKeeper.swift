// Forgets what records were before, and what conflicts cost, when it is older than it has to be kept, a slice at a time between saves.

import RecordStore
import ServiceKit

/// Keeps a shard's past from growing for ever.
struct PastKeeper: ShardWork {
  /// What grows.
  enum Subject: String, Sendable {
    case states, conflicts
  }

  var subject = Subject.states
  /// Zero: nothing is kept, and what an earlier configuration kept is forgotten.
  let retention: Duration
  let clock: any WallClock
  let log: Log
  /// Returns after that time, or early when its task is cancelled.
  let pause: @Sendable (Duration) async -> Void

  /// How many a commit forgets: a few milliseconds on the thread that saves wait for.
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
        guard try await store.read({ try oldest(in: $0) }).map({ $0 < cutoff }) ?? false else { break }
        let count = try await store.enqueue { try forget(before: cutoff, in: $0) }.value
        total += count
        if count < Self.sliceCount { break }
        await pause(Self.slicePause)
      }
      if total == 0 { return }
      log.info("the past was forgotten", ["shard": .integer(Int64(store.shard)), "subject": .text(subject.rawValue), "count": .integer(Int64(total))])
    } catch {
      report("the past can't be forgotten", error, on: store, to: log)
    }
  }

  private func oldest(in snapshot: any ShardSnapshot) throws -> Int64? {
    switch subject {
    case .states: try snapshot.oldestReplacement()
    case .conflicts: try snapshot.oldestConflict()
    }
  }

  private func forget(before cutoff: Int64, in transaction: any ShardTransaction) throws -> Int {
    switch subject {
    case .states: try transaction.forgetPast(replacedBefore: cutoff, limit: Self.sliceCount)
    case .conflicts: try transaction.forgetConflicts(before: cutoff, limit: Self.sliceCount)
    }
  }
}
