// Clocks that tests set: no test waits for real time, and no machine is too slow for one.

package import ServiceKit
import Synchronization

/// A wall clock that stands until it is set.
package final class FixedClock: WallClock {
  private let time = Atomic<Int64>(1_700_000_000_000)

  package init() {}

  package var now: Int64 { time.load(ordering: .relaxed) }
  package func advance(by milliseconds: Int64) { time.add(milliseconds, ordering: .relaxed) }
}

/// A monotonic clock that stands until it is set.
package final class FixedTime: Sendable {
  private let start = ContinuousClock.now
  private let passed = Mutex<Duration>(.zero)

  package init() {}

  package var now: ContinuousClock.Instant { start + passed.withLock { $0 } }
  package func advance(by span: Duration) { passed.withLock { $0 += span } }

  /// A pause moves the clock and is over at once, so a caller that waits for an answer gives up after its whole limit.
  package var skippingPauses: Timing {
    Timing(
      now: { self.now },
      sleep: {
        try Task.checkCancellation()
        self.advance(by: $0)
        await Task.yield()
      })
  }

  /// A pause takes its time and does not move the clock.
  package var standing: Timing { Timing(now: { self.now }, sleep: { try await Task.sleep(for: $0) }) }
}
