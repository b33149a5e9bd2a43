import ServiceKit
import Synchronization

extension Timing {
  /// Time that only pauses move: a gateway gives a dead service up after its whole limit, and no time passes really.
  /// A busy machine is never too slow for it.
  static func skippingPauses() -> Timing {
    let time = SkippedTime()
    return Timing(now: { time.now }, sleep: { try await time.skip($0) })
  }
}

private final class SkippedTime: Sendable {
  private let start = ContinuousClock.now
  private let passed = Mutex<Duration>(.zero)

  var now: ContinuousClock.Instant { start + passed.withLock { $0 } }

  func skip(_ pause: Duration) async throws {
    try Task.checkCancellation()
    passed.withLock { $0 += pause }
    await Task.yield()
  }
}
