// How long a store's exports wait when they fail: decided without a clock (E10, T-E11).

/// The pace of one store whose exports fail. A store has one pace, and every export asks it, so that retries do not
/// multiply.
///
/// It needs no ladder of smaller batches like Apple's after `limitExceeded`: a batch fits into a commit, and the
/// worker's `ExportIsolation` finds and holds back a record that cannot be stored.
public struct ExportPacing: Hashable, Sendable {
  private static let longestDelay: Int64 = 300_000

  private var failureCount = 0

  public init() {}

  /// Counts another failure in a row.
  /// - Parameters:
  ///   - retryAfter: seconds to wait, if the failure named them; nil waits one second, then doubles with each failure
  ///     up to 300 s.
  ///   - now: milliseconds since 1970.
  ///   - jitter: any number; it spreads stores that failed together.
  /// - Returns: milliseconds since 1970: the time before which the store does not try again.
  public mutating func fail(retryAfter: Int?, at now: Int64, jitter: UInt64) -> Int64 {
    failureCount += 1
    let backoff = min(1000 << Int64(min(failureCount - 1, 20)), Self.longestDelay)
    let delay = retryAfter.map { Int64($0) * 1000 } ?? backoff
    // Jitter adds to the time that was asked for and never shortens it.
    return now + delay + Int64(jitter % UInt64(max(min(delay / 10, 10_000), 1)))
  }
}
