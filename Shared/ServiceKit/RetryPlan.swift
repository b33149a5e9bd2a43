// Decides what follows a failed call between services: another attempt after a pause, or an error for the client.

public import Records
public import ServiceBus

/// The retries of one request. A value without side effects: it takes failures and elapsed time, and returns the next
/// step.
public struct RetryPlan: Sendable {
  public enum Step: Hashable, Sendable {
    case retry(after: Duration)
    case fail(RecordError)
  }

  static let firstPause: Duration = .milliseconds(5)
  static let longestPause: Duration = .milliseconds(100)
  /// The most retries against an overloaded peer, because further ones add to its load.
  static let overloadRetryCount = 3
  static let overloadPause: Duration = .milliseconds(25)
  /// The shortest time that is worth another attempt.
  static let shortestAttempt: Duration = .milliseconds(20)
  public static let retryAfterSeconds = 1

  private let limit: Duration
  private var pause = RetryPlan.firstPause
  private var overloadCount = 0

  public init(limit: Duration) { self.limit = limit }

  /// The time limit of the attempt that starts after `elapsed`: all the remaining time. A shorter limit helps neither
  /// with a dead peer, whose silence the bus detects, nor with a slow one, which would start again.
  public func attemptBudget(after elapsed: Duration) -> Duration { max(Self.shortestAttempt, limit - elapsed) }

  public mutating func step(after error: BusError, elapsed: Duration) -> Step {
    switch error.code {
    case .notMine, .unreachable, .draining, .timedOut: return next(pause, elapsed: elapsed)
    case .overloaded:
      overloadCount += 1
      guard overloadCount <= Self.overloadRetryCount else { return .fail(Self.later("The service is overloaded")) }
      return next(max(pause, Self.overloadPause), elapsed: elapsed)
    case .cancelled: return .fail(Self.later("The request was cancelled"))
    case .notFound: return .fail(RecordError(.notFound, error.reason))
    case .tooLarge:
      return .fail(RecordError(.badRequest, "The request or its answer is larger than the bus allows", httpStatus: 413))
    case .noSpace: return .fail(.noSpace)
    case .refused: return .fail(RecordError(.accessDenied, error.reason))
    case .unknownMessage: return .fail(Self.isBeingUpgraded)
    default: return .fail(RecordError(.internalError, "A service failed to answer"))
    }
  }

  /// The step while no worker holds the shard.
  public mutating func stepWithoutHolder(elapsed: Duration) -> Step { next(pause, elapsed: elapsed) }

  private mutating func next(_ wait: Duration, elapsed: Duration) -> Step {
    guard elapsed + wait + Self.shortestAttempt < limit else {
      return .fail(Self.later("The service did not answer in time"))
    }
    pause = min(pause * 2, Self.longestPause)
    return .retry(after: wait)
  }

  /// Sleeps between attempts. Throws `tryAgainLater` when the task is cancelled, because the client has hung up.
  public static func pause(_ pause: Duration, _ timing: Timing) async throws(RecordError) {
    do {
      try await timing.sleep(pause)
    } catch {
      throw later("The request was cancelled")
    }
  }

  /// A peer of an earlier release does not know the message.
  public static var isBeingUpgraded: RecordError { later("The service is being upgraded") }

  private static func later(_ reason: String) -> RecordError {
    RecordError(.tryAgainLater, reason, retryAfter: retryAfterSeconds)
  }
}
