// The web courier: a long poll that delivers one notification at a time (wire-protocol section 9.3), and keeps what comes between two polls.

import ServiceKit
import Synchronization

/// One courier token's mailbox.
final class Courier: PingReceiver {
  private struct State {
    var pending = PendingPings()
    var waiter: (id: Int, continuation: CheckedContinuation<Ping?, Never>, deadline: ContinuousClock.Instant)?
    var nextWaiterID = 0
    var lastPoll: ContinuousClock.Instant
    var isReleased = false
  }

  private let state: Mutex<State>
  private let metrics: NotifierMetrics

  init(metrics: NotifierMetrics, now: ContinuousClock.Instant) {
    self.metrics = metrics
    state = Mutex(State(lastPoll: now))
  }

  /// Waits for a notification until `deadline`; nil when none came, the task was cancelled, or the next poll took over.
  func poll(now: ContinuousClock.Instant, until deadline: ContinuousClock.Instant) async -> Ping? {
    let id = state.withLock { state in
      state.nextWaiterID += 1
      state.lastPoll = now
      return state.nextWaiterID
    }
    let ping = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let (displaced, isAnswered, ping) = state.withLock { state -> (CheckedContinuation<Ping?, Never>?, Bool, Ping?) in
          let displaced = state.waiter?.continuation
          state.waiter = nil
          if let ping = state.pending.take(1).first { return (displaced, true, ping) }
          if state.isReleased || Task.isCancelled { return (displaced, true, nil) }
          state.waiter = (id, continuation, deadline)
          return (displaced, false, nil)
        }
        displaced?.resume(returning: nil)
        if isAnswered { continuation.resume(returning: ping) }
      }
    } onCancel: {
      answer(nil) { $0.id == id }
    }
    if ping != nil { metrics.sent["courier"].increment() }
    return ping
  }

  func put(_ ping: Ping) {
    let (waiter, outcome) = state.withLock { state -> (CheckedContinuation<Ping?, Never>?, PendingPings.Outcome) in
      if let waiter = state.waiter {
        state.waiter = nil
        return (waiter.continuation, .added)
      }
      return (nil, state.pending.put(ping))
    }
    waiter?.resume(returning: ping)
    metrics.count(outcome)
  }

  /// Answers a poll whose time has come.
  func expire(at now: ContinuousClock.Instant) { answer(nil) { $0.deadline <= now } }

  /// Answers the poll, and every later one at once.
  func release() {
    state.withLock { $0.isReleased = true }
    answer(nil) { _ in true }
  }

  private func answer(_ ping: Ping?, if condition: ((id: Int, continuation: CheckedContinuation<Ping?, Never>, deadline: ContinuousClock.Instant)) -> Bool) {
    let continuation = state.withLock { state -> CheckedContinuation<Ping?, Never>? in
      guard let waiter = state.waiter, condition(waiter) else { return nil }
      state.waiter = nil
      return waiter.continuation
    }
    continuation?.resume(returning: ping)
  }

  /// Whether nobody polls, and nobody has since `instant`.
  func isIdle(since instant: ContinuousClock.Instant) -> Bool {
    state.withLock { $0.waiter == nil && $0.lastPoll < instant }
  }
}
