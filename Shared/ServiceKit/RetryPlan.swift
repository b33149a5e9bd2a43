// Decides what becomes of a call between services that failed: once more after a pause, or an error for the client.

public import Records
public import ServiceBus

/// The retries of one request. A value: it is told failures and the time, and answers what to do.
public struct RetryPlan: Sendable {
  public enum Step: Hashable, Sendable {
    case retry(after: Duration)
    case fail(RecordError)
  }

  static let firstPause: Duration = .milliseconds(5)
  static let longestPause: Duration = .milliseconds(100)
  /// A peer that is full is asked a few times only: more of it would be load on load.
  static let overloadRetryCount = 3
  static let overloadPause: Duration = .milliseconds(25)
  /// Less time than this is not worth another attempt.
  static let shortestAttempt: Duration = .milliseconds(20)
  public static let retryAfterSeconds = 1

  private let limit: Duration
  private var pause = RetryPlan.firstPause
  private var overloadCount = 0

  public init(limit: Duration) { self.limit = limit }

  /// How long the attempt that starts after `elapsed` may take: all that is left. A peer that stopped needs no shorter limit, the bus
  /// finds it silent; and one that is slow would only be asked to begin anew.
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
    case .tooLarge: return .fail(RecordError(.badRequest, "The request or its answer is larger than services pass on", httpStatus: 413))
    case .noSpace: return .fail(.noSpace)
    case .refused: return .fail(RecordError(.accessDenied, error.reason))
    // A peer of another release that doesn't know the message yet.
    case .unknownMessage: return .fail(Self.later("The service is being upgraded"))
    default: return .fail(RecordError(.internalError, "A service failed to answer"))
    }
  }

  /// No worker holds the shard at the moment.
  public mutating func stepWithoutHolder(elapsed: Duration) -> Step { next(pause, elapsed: elapsed) }

  private mutating func next(_ wait: Duration, elapsed: Duration) -> Step {
    guard elapsed + wait + Self.shortestAttempt < limit else { return .fail(Self.later("The service did not answer in time")) }
    pause = min(pause * 2, Self.longestPause)
    return .retry(after: wait)
  }

  /// Sleeps between attempts; a client that hung up needs no further one.
  public static func pause(_ pause: Duration, _ timing: Timing) async throws(RecordError) {
    do {
      try await timing.sleep(pause)
    } catch {
      throw later("The request was cancelled")
    }
  }

  private static func later(_ reason: String) -> RecordError { RecordError(.tryAgainLater, reason, retryAfter: retryAfterSeconds) }
}
