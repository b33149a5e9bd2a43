import Records
import ServiceBus
import Testing

@testable import ServiceKit

private func error(_ code: BusError.Code) -> BusError { BusError(code, "a reason") }

@Test(arguments: [BusError.Code.notMine, .unreachable, .draining, .timedOut])
func `a call that did not reach its worker is repeated until the time is over`(code: BusError.Code) {
  var plan = RetryPlan(limit: .seconds(10))
  var elapsed: Duration = .zero
  var pauses: [Duration] = []
  while case .retry(let pause) = plan.step(after: error(code), elapsed: elapsed) {
    pauses.append(pause)
    elapsed += pause
    guard pauses.count < 1000 else { break }
  }
  #expect(Array(pauses.prefix(6)) == [5, 10, 20, 40, 80, 100].map { .milliseconds($0) })
  #expect(pauses.dropFirst(6).allSatisfy { $0 == RetryPlan.longestPause })
  #expect(elapsed > .seconds(9.5) && elapsed < .seconds(10))
  guard case .fail(let failure) = plan.step(after: error(code), elapsed: elapsed) else { return }
  #expect(failure.code == .tryAgainLater)
  #expect(failure.retryAfter == 1)
}

@Test func `a full service is asked a few times only`() {
  var plan = RetryPlan(limit: .seconds(10))
  for _ in 0..<RetryPlan.overloadRetryCount {
    guard case .retry(let pause) = plan.step(after: error(.overloaded), elapsed: .zero) else {
      Issue.record("not repeated")
      return
    }
    #expect(pause >= RetryPlan.overloadPause)
  }
  #expect(
    plan.step(after: error(.overloaded), elapsed: .zero)
      == .fail(RecordError(.tryAgainLater, "The service is overloaded", retryAfter: 1)))
}

@Test(arguments: [
  (BusError.Code.notFound, ServerErrorCode.notFound), (.refused, .accessDenied), (.internalError, .internalError),
  (.badMessage, .internalError),
  (.unknownMessage, .tryAgainLater), (.cancelled, .tryAgainLater),
  (BusError.Code(rawValue: "of a newer peer"), .internalError),
])
func `an error that a repetition can't mend fails at once`(code: BusError.Code, expected: ServerErrorCode) {
  var plan = RetryPlan(limit: .seconds(10))
  guard case .fail(let failure) = plan.step(after: error(code), elapsed: .zero) else {
    Issue.record("repeated")
    return
  }
  #expect(failure.code == expected)
}

@Test func `no reason of a failing service reaches the client`() {
  var plan = RetryPlan(limit: .seconds(10))
  guard case .fail(let failure) = plan.step(after: BusError(.internalError, "secret"), elapsed: .zero) else { return }
  #expect(!failure.reason.contains("secret"))
}

@Test func `an attempt may take what time is left`() {
  let plan = RetryPlan(limit: .seconds(10))
  #expect(plan.attemptBudget(after: .zero) == .seconds(10))
  #expect(plan.attemptBudget(after: .seconds(9)) == .seconds(1))
  #expect(plan.attemptBudget(after: .seconds(11)) == RetryPlan.shortestAttempt)
}
