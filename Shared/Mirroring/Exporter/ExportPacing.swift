// How long a store's exports wait when they fail: decided without a clock (E10, T-E11).

/// The pace of one store whose exports fail. There is one for each, and whoever wants to export asks it: so there is exactly one retrier.
///
/// Batches need no ladder of smaller ones as Apple's do after `limitExceeded`: a commit takes what a batch has, and what a record can't be
/// is found and held back alone (`ExportIsolation` of the worker).
public struct ExportPacing: Hashable, Sendable {
  private static let longestDelay: Int64 = 300_000

  private var failureCount = 0

  public init() {}

  /// Another failure in a row.
  /// - Parameters:
  ///   - retryAfter: seconds, where it was said how long to wait; it is doubled from one second on where it was not.
  ///   - now: milliseconds since 1970.
  ///   - jitter: any number: spreads those who failed together.
  /// - Returns: until when nothing is tried.
  public mutating func fail(retryAfter: Int?, at now: Int64, jitter: UInt64) -> Int64 {
    failureCount += 1
    let backoff = min(1000 << Int64(min(failureCount - 1, 20)), Self.longestDelay)
    let delay = retryAfter.map { Int64($0) * 1000 } ?? backoff
    // After the time that was asked for, never before it.
    return now + delay + Int64(jitter % UInt64(max(min(delay / 10, 10_000), 1)))
  }
}
