// Calls to the share service within a client's time.

import Records
import ServiceBus
import ServiceKit

struct ShareCalls: Sendable {
  let bus: any Bus
  let timing: Timing
  let limit: Duration

  /// Calls, and again after failures that pass; only messages that may be repeated are.
  /// - Parameter limit: nil: the client's time.
  func call<M: Message>(_ message: M, body: [UInt8] = [], within limit: Duration? = nil) async throws(RecordError) -> Answer<M.Reply> {
    let start = timing.now()
    var plan = RetryPlan(limit: limit ?? self.limit)
    while true {
      do {
        return try await bus.call(message, body: body, to: .role(.share), within: plan.attemptBudget(after: timing.now() - start))
      } catch {
        switch plan.step(after: error, elapsed: timing.now() - start) {
        case .retry(let pause):
          guard M.isRepeatable || Self.wasNotExecuted(error) else {
            throw RecordError(.tryAgainLater, "The share service did not answer; look whether it was done before repeating it", retryAfter: RetryPlan.retryAfterSeconds)
          }
          try await Forwarding.pause(pause, timing)
        case .fail(let failure): throw failure
        }
      }
    }
  }

  func call<M: Message>(_ message: M, within limit: Duration? = nil) async throws(RecordError) -> M.Reply { try await call(message, within: limit).reply }

  private static func wasNotExecuted(_ error: BusError) -> Bool {
    switch error.code {
    case .draining, .overloaded: true
    default: false
    }
  }
}
