// Decides when a process that ended is started again: pure.

struct RestartPolicy: Hashable, Sendable {
  static let firstPause: Duration = .milliseconds(50)
  static let standardPause: Duration = .seconds(5)
  /// One that ran this long before it ended did not fail at starting.
  static let steadyTime: Duration = .seconds(10)
  /// Failures in a row after which an installation that was never ready gives up: something is wrong that time won't mend.
  static let startFailureLimit = 3

  /// One that ends again and again waits ever longer, and at most so long.
  var longestPause = RestartPolicy.standardPause
  private(set) var failureCount = 0

  /// - Parameter lifetime: how long it ran.
  /// - Returns: the pause before the next start.
  mutating func pause(afterLifetime lifetime: Duration) -> Duration {
    if lifetime >= Self.steadyTime { failureCount = 0 }
    failureCount += 1
    let doublings = min(failureCount - 1, 10)
    return min(longestPause, Self.firstPause * (1 << doublings))
  }
}

/// Decides when a process that does not answer is given up. It counts questions, not time: after the whole machine slept nobody is late.
struct Silence: Hashable, Sendable {
  static let limit = 5
  private var count = 0

  /// - Returns: whether so many questions in a row had no answer that no further one is asked.
  mutating func isOver(afterAnswer isAnswered: Bool) -> Bool {
    count = isAnswered ? 0 : count + 1
    return count >= Self.limit
  }
}
