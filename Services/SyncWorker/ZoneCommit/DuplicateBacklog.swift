// Shards with duplicates that a commit left.

import Synchronization

/// Shards where a commit left more duplicates than it could merge; one for all planes of a worker.
package final class DuplicateBacklog: Sendable {
  private let shards = Mutex<Set<Int>>([])

  package init() {
  }

  func note(_ shard: Int) { shards.withLock { _ = $0.insert(shard) } }

  /// True if a commit left duplicates since the last call.
  package func take(_ shard: Int) -> Bool { shards.withLock { $0.remove(shard) != nil } }
}
