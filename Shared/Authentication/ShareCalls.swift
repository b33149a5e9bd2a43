// Calls the share service, with retries, within the time that a client waits.

public import Records
public import ServiceBus
public import ServiceKit

/// The share service, as gateways and notifiers call it.
public struct ShareCalls: Sendable {
  private let bus: any Bus
  private let timing: Timing
  private let limit: Duration

  /// - Parameter limit: the time in which a call is retried.
  public init(bus: any Bus, timing: Timing, limit: Duration) {
    self.bus = bus
    self.timing = timing
    self.limit = limit
  }

  /// Calls, and retries after transient failures. A message that is not repeatable is retried only if it was not
  /// executed.
  /// - Parameter limit: the time for the call and its retries; nil for the limit of the initializer.
  /// - Throws: the service's refusal, or `tryAgainLater` when the time is over.
  public func call<M: Message>(_ message: M, body: [UInt8] = [], within limit: Duration? = nil)
    async throws(RecordError) -> Answer<M.Reply>
  {
    guard let answer = try await callIfKnown(message, body: body, within: limit) else {
      throw RetryPlan.isBeingUpgraded
    }
    return answer
  }

  /// - Returns: nil from a share service of an earlier release, which does not know the message.
  public func callIfKnown<M: Message>(_ message: M) async throws(RecordError) -> M.Reply? {
    try await callIfKnown(message, body: [], within: nil)?.reply
  }

  private func callIfKnown<M: Message>(_ message: M, body: [UInt8], within limit: Duration?)
    async throws(RecordError) -> Answer<M.Reply>?
  {
    let start = timing.now()
    var plan = RetryPlan(limit: limit ?? self.limit)
    while true {
      do {
        return try await bus.call(
          message, body: body, to: .role(.share), within: plan.attemptBudget(after: timing.now() - start))
      } catch {
        if error.code == .unknownMessage { return nil }
        switch plan.step(after: error, elapsed: timing.now() - start) {
        case .retry(let pause):
          guard M.isRepeatable || Self.wasNotExecuted(error) else {
            throw RecordError(
              .tryAgainLater,
              "The share service did not answer; check whether the change was made before you repeat it",
              retryAfter: RetryPlan.retryAfterSeconds)
          }
          try await RetryPlan.pause(pause, timing)
        case .fail(let failure): throw failure
        }
      }
    }
  }

  public func call<M: Message>(_ message: M, within limit: Duration? = nil) async throws(RecordError) -> M.Reply {
    try await call(message, within: limit).reply
  }

  /// Calls once, without retries.
  /// - Throws: the service's refusal, or `tryAgainLater` for a transient failure.
  func callOnce<M: Message>(_ message: M) async throws(RecordError) -> M.Reply {
    var plan = RetryPlan(limit: .zero)
    do {
      return try await bus.call(message, to: .role(.share), within: limit)
    } catch {
      switch plan.step(after: error, elapsed: .zero) {
      case .fail(let failure): throw failure
      case .retry:
        throw RecordError(.tryAgainLater, "The share service did not answer", retryAfter: RetryPlan.retryAfterSeconds)
      }
    }
  }

  private static func wasNotExecuted(_ error: BusError) -> Bool {
    switch error.code {
    case .draining, .overloaded: true
    default: false
    }
  }
}
