// The requests that wait for a change of a store. A store without a waiting request pays one comparison.

import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Stores with requests that wait for events or state (`wait`), and how long they do.
package final class StoreWatches: Sendable {
  private struct Watch {
    let change: StoreChange
    /// Milliseconds since 1970.
    var end: Int64
  }

  private let watches = Mutex<[MirrorID: Watch]>([:])
  private let count = Atomic<Int>(0)

  package init() {
  }
  /// Further stores are not remembered: their waiting requests look again when their time is over.
  private static let limit = 100_000

  /// - Parameter end: milliseconds since 1970.
  func watch(_ mirror: MirrorID, _ change: StoreChange, until end: Int64, now: Int64) {
    watches.withLock { watches in
      if watches.count >= Self.limit { watches = watches.filter { $0.value.end > now } }
      if watches.count < Self.limit || watches[mirror] != nil {
        watches[mirror] = Watch(change: change, end: max(end, watches[mirror]?.end ?? end))
      }
      count.store(watches.count, ordering: .relaxed)
    }
  }

  /// The change to publish for a store; nil if no request waits for it.
  func change(of mirror: MirrorID, now: Int64) -> StoreChange? {
    if count.load(ordering: .relaxed) == 0 { return nil }
    return watches.withLock { watches in
      guard let watch = watches[mirror] else { return nil }
      if watch.end > now { return watch.change }
      watches[mirror] = nil
      count.store(watches.count, ordering: .relaxed)
      return nil
    }
  }
}
