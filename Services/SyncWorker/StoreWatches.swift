// Who waits for a store to do something: a store that nobody watches pays one comparison for it.

import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Stores whose events or state somebody was asked for with `wait`, and how long that was.
final class StoreWatches: Sendable {
  private struct Watch {
    let change: StoreChange
    /// Milliseconds since 1970.
    var end: Int64
  }

  private let watches = Mutex<[MirrorID: Watch]>([:])
  private let count = Atomic<Int>(0)
  /// More stores than this are not remembered: whoever waits for one of them looks again when its time is over.
  private static let limit = 100_000

  /// - Parameter end: milliseconds since 1970.
  func watch(_ mirror: MirrorID, _ change: StoreChange, until end: Int64, now: Int64) {
    watches.withLock { watches in
      if watches.count >= Self.limit { watches = watches.filter { $0.value.end > now } }
      if watches.count < Self.limit || watches[mirror] != nil { watches[mirror] = Watch(change: change, end: max(end, watches[mirror]?.end ?? end)) }
      count.store(watches.count, ordering: .relaxed)
    }
  }

  /// What is to be told of a store that did something; nil when nobody waits.
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

extension PlaneContext {
  /// Tells whoever waits for a store that there is news of it; to be called when the commit is durable.
  func noticed(_ mirror: MirrorID) {
    guard let change = watches.change(of: mirror, now: clock.now) else { return }
    changes.publish(change)
  }
}
