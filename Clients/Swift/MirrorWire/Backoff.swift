// How long a client waits before it tries again.

/// One second, doubled up to five minutes, with full jitter. A value: the same seed waits alike.
public struct Backoff: Hashable, Sendable {
  /// Attempts that failed since the last success.
  public private(set) var failureCount = 0
  private var state: UInt64

  private static let first = 1.0
  private static let longest = 300.0

  public init(seed: UInt64) { state = seed }

  public mutating func succeeded() { failureCount = 0 }

  /// Counts a failure.
  /// - Parameter retryAfter: seconds that the server named; they are kept exactly.
  /// - Returns: how long to wait.
  public mutating func failed(retryAfter: Double? = nil) -> Duration {
    failureCount += 1
    if let retryAfter, retryAfter >= 0, retryAfter.isFinite { return .seconds(min(retryAfter, Self.day)) }
    let limit = min(Self.longest, Self.first * Double(1 << min(failureCount - 1, 16)))
    return .seconds(limit * fraction())
  }

  /// A fifth more or less than the duration, so that devices don't act in step.
  public mutating func spread(_ duration: Duration) -> Duration { duration * (0.8 + 0.4 * fraction()) }

  private static let day = 86_400.0

  /// SplitMix64, as a number in 0..<1.
  private mutating func fraction() -> Double {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return Double((mixed ^ (mixed >> 31)) >> 11) / Double(1 << 53)
  }
}
