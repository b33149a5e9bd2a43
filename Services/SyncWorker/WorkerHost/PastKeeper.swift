// Forgets old states of records and old conflicts beyond their retention, a slice at a time between saves.

import RecordStore
import ServiceKit
import ZoneCommit

/// Keeps a shard's past states and conflicts from growing without bound.
struct PastKeeper: ShardWork {
  /// The table that the keeper empties.
  enum Subject: String, Sendable {
    case states, conflicts
  }

  var subject = Subject.states
  /// Zero keeps nothing, and forgets rows that an earlier configuration kept.
  let retention: Duration
  let clock: any WallClock
  let log: Log
  /// Returns after that time, or early when its task is cancelled.
  let pause: @Sendable (Duration) async -> Void

  /// Rows that one commit forgets: a few milliseconds on the writer thread that saves wait for.
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
        // Reads first, so that a shard with nothing to forget pays no commit.
        guard try await store.read({ try oldest(in: $0) }).map({ $0 < cutoff }) ?? false else { break }
        let count = try await store.enqueue { try forget(before: cutoff, in: $0) }.value
        total += count
        if count < Self.sliceCount { break }
        await pause(Self.slicePause)
      }
      if total == 0 { return }
      log.info(
        "earlier states were removed",
        ["shard": .integer(Int64(store.shard)), "subject": .text(subject.rawValue), "count": .integer(Int64(total))])
    } catch {
      report("earlier states can't be removed", error, on: store, to: log)
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
