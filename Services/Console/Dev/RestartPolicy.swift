// Decides when a process that ended is restarted, as a pure value.

struct RestartPolicy: Hashable, Sendable {
  static let firstPause: Duration = .milliseconds(50)
  static let standardPause: Duration = .seconds(5)
  /// A process that ran this long did not fail at its start.
  static let steadyTime: Duration = .seconds(10)
  /// Failures in a row after which an installation that was never ready gives up: more attempts would not help.
  static let startFailureLimit = 3

  /// The limit of the pauses between restarts of a process that keeps failing.
  var longestPause = RestartPolicy.standardPause
  private(set) var failureCount = 0

  /// - Parameter lifetime: the time that the process ran.
  /// - Returns: the pause before the next start.
  mutating func pause(afterLifetime lifetime: Duration) -> Duration {
    if lifetime >= Self.steadyTime { failureCount = 0 }
    failureCount += 1
    let doublings = min(failureCount - 1, 10)
    return min(longestPause, Self.firstPause * (1 << doublings))
  }
}

/// Decides when a silent process is given up. It counts questions, not time, so that a sleeping machine makes nobody
/// late.
struct Silence: Hashable, Sendable {
  static let limit = 5
  private var count = 0

  /// - Returns: true when `limit` questions in a row had no answer.
  mutating func isOver(afterAnswer isAnswered: Bool) -> Bool {
    count = isAnswered ? 0 : count + 1
    return count >= Self.limit
  }
}
