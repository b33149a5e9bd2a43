// What a store takes from its surroundings, so that tests decide it.

import CLinux
import Crypto
import Glibc

struct StoreSurroundings: Sendable {
  /// Draws the incarnations of databases, zones and mirrors.
  var makeIncarnation: @Sendable () -> UInt64
  /// The current time in milliseconds since 1970.
  var now: @Sendable () -> Int64
  /// Called once for each damaged record that background work skips.
  var report: @Sendable (_ problem: String) -> Void

  /// - Parameters:
  ///   - makeIncarnation: nil for strong randomness.
  ///   - now: nil for the machine's clock.
  init(
    makeIncarnation: (@Sendable () -> UInt64)?, now: (@Sendable () -> Int64)?,
    report: @escaping @Sendable (_ problem: String) -> Void
  ) {
    self.makeIncarnation = makeIncarnation ?? { SecureRandom.uint64() }
    self.now = now ?? Self.wallClock
    self.report = report
  }

  static let wallClock: @Sendable () -> Int64 = {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }
}
