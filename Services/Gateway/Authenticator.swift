// Turns credentials into principals: asks the share service once, and remembers its answer for as long as it may.

import Records
import ServiceBus
import ServiceKit

/// A cache over `Authenticate`.
///
/// An answer is forgotten when the directory changes and asked for anew after its lifetime; while the share service is away an old one
/// is good for `staleLimit` more, so that a restart of the directory is invisible to clients that were known. Refusals are not kept: a
/// token that was made a moment ago works at once.
actor Authenticator {
  static let staleLimit: Duration = .seconds(600)
  /// When more credentials than this are known, the older half is forgotten.
  static let entryLimit = 20_000

  struct Question: Hashable, Sendable {
    let container: ContainerID?
    let environment: Environment?
    let apiToken: String?
    let userToken: String?
  }

  private struct Entry {
    let reply: Authenticate.Reply
    let expiry: ContinuousClock.Instant
    /// Rises with every entry: tells old from new.
    let number: Int
  }

  private let timing: Timing
  private var entries: [Question: Entry] = [:]
  private var nextNumber = 0
  /// Rises when the directory changes: an answer that was asked for before is not kept.
  private var generation = 0

  init(timing: Timing) { self.timing = timing }

  /// - Throws: `tryAgainLater` when the share service does not answer within `limit` and nothing is known.
  func answer(to question: Question, from bus: any Bus, within limit: Duration) async throws(RecordError) -> Authenticate.Reply {
    let start = timing.now()
    let known = entries[question]
    if let known, start < known.expiry { return known.reply }
    let asked = generation
    var plan = RetryPlan(limit: limit)
    while true {
      let elapsed = timing.now() - start
      do {
        let reply = try await Self.ask(question, bus, within: plan.attemptBudget(after: elapsed))
        keep(reply, for: question, asked: asked)
        return reply
      } catch {
        if let known, asked == generation, Self.isAway(error), start < known.expiry + Self.staleLimit { return known.reply }
        switch plan.step(after: error, elapsed: timing.now() - start) {
        case .retry(let pause): try await Forwarding.pause(pause, timing)
        case .fail(let failure): throw failure
        }
      }
    }
  }

  /// The directory published a change of credentials.
  func forgetAll() {
    entries.removeAll()
    generation += 1
  }

  private static func ask(_ question: Question, _ bus: any Bus, within budget: Duration) async throws(BusError) -> Authenticate.Reply {
    let message = Authenticate(
      container: question.container, environment: question.environment, apiToken: question.apiToken, userToken: question.userToken)
    return try await bus.call(message, to: .role(.share), within: budget)
  }

  private func keep(_ reply: Authenticate.Reply, for question: Question, asked: Int) {
    guard reply.refusal == nil, reply.lifetimeSeconds > 0, asked == generation else {
      entries[question] = nil
      return
    }
    if entries.count >= Self.entryLimit { forgetOlderHalf() }
    entries[question] = Entry(reply: reply, expiry: timing.now() + .seconds(reply.lifetimeSeconds), number: nextNumber)
    nextNumber += 1
  }

  private func forgetOlderHalf() {
    let middle = entries.values.map(\.number).sorted()[entries.count / 2]
    entries = entries.filter { $0.value.number >= middle }
  }

  private static func isAway(_ error: BusError) -> Bool {
    switch error.code {
    case .unreachable, .timedOut, .draining, .overloaded: true
    default: false
    }
  }
}
