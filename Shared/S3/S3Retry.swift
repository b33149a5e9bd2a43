// Decides whether and when a request is repeated.

/// The limits of repetition.
public struct S3Retry: Hashable, Sendable {
  /// Attempts in all.
  public let attemptCount: Int
  /// The longest time of one attempt.
  public let attemptTime: Duration

  public init(attemptCount: Int, attemptTime: Duration) {
    self.attemptCount = attemptCount
    self.attemptTime = attemptTime
  }

  /// For calls that a client waits for.
  public static let patient = S3Retry(attemptCount: 4, attemptTime: .seconds(20))
  /// For requests that a later repetition would spoil.
  public static let once = S3Retry(attemptCount: 1, attemptTime: .seconds(5))

  private static let longestPause = Duration.seconds(5)
  private static let firstPause = Duration.milliseconds(100)

  /// True when a repetition of the refused request may succeed.
  public static func isPassing(_ refusal: S3Refusal) -> Bool {
    [429, 500, 502, 503, 504].contains(refusal.status)
      || passingCodes.contains(refusal.code)
  }

  /// The last three tell that the body changed on its way.
  private static let passingCodes: Set = [
    "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted", "IncompleteBody",
    "BadDigest", "XAmzContentSHA256Mismatch",
  ]

  /// The pause before the next attempt; nil after the last one.
  /// - Parameters:
  ///   - attempt: the attempts so far, at least 1.
  ///   - retryAfter: the value of that header, in seconds.
  ///   - chance: evenly drawn from 0 to 1, so that many callers do not come back at once.
  public func pause(after attempt: Int, retryAfter: String?, chance: Double) -> Duration? {
    guard attempt < attemptCount else { return nil }
    if let seconds = retryAfter.flatMap({ Int($0) }), seconds >= 0 {
      return min(.seconds(seconds), Self.longestPause)
    }
    let full = Self.firstPause * (1 << min(attempt - 1, 8))
    return min(full * (0.5 + chance / 2), Self.longestPause)
  }
}
