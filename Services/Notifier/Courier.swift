// The web courier (docs/protocol/record-plane.md#web-courier): a long poll that delivers one notification at a
// time, and keeps those that come between two polls.

import Records
import ServiceKit
import Synchronization

/// The mailbox of one courier token.
final class Courier: PingReceiver {
  private struct Waiter {
    let id: Int
    let continuation: CheckedContinuation<Ping?, Never>
    let deadline: ContinuousClock.Instant
  }

  private struct State {
    var pending = PendingPings()
    /// The sequence delivered last, here or by another notifier, for each key of pings.
    var delivered = RecentValues<Int64>(limit: 1000)
    var waiter: Waiter?
    var nextWaiterID = 0
    var lastPoll: ContinuousClock.Instant
    var isReleased = false
    /// The courier was forgotten; nothing is put here any more.
    var isRetired = false
  }

  /// The end of a poll.
  enum Outcome: Sendable {
    /// nil: no ping came, the task was cancelled, or a later poll took over.
    case notification(Ping?)
    /// The courier was forgotten before the poll; another one may hold its token by now.
    case retired
  }

  private let state: Mutex<State>
  private let metrics: NotifierMetrics

  init(metrics: NotifierMetrics, now: ContinuousClock.Instant) {
    self.metrics = metrics
    state = Mutex(State(lastPoll: now))
  }

  /// Waits for a notification until `deadline`.
  func poll(now: ContinuousClock.Instant, until deadline: ContinuousClock.Instant) async -> Outcome {
    // From here on the courier is not idle, so it can't be forgotten during this poll.
    let id = state.withLock { state -> Int? in
      if state.isRetired { return nil }
      state.nextWaiterID += 1
      state.lastPoll = max(state.lastPoll, now)
      return state.nextWaiterID
    }
    guard let id else { return .retired }
    let ping = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let (displaced, isAnswered, ping) = state.withLock {
          state -> (CheckedContinuation<Ping?, Never>?, Bool, Ping?) in
          let displaced = state.waiter?.continuation
          state.waiter = nil
          if let ping = state.pending.take(1).first {
            state.delivered.raise(to: ping.sequence, for: ping.key)
            return (displaced, true, ping)
          }
          if state.isReleased || Task.isCancelled { return (displaced, true, nil) }
          state.waiter = Waiter(id: id, continuation: continuation, deadline: deadline)
          return (displaced, false, nil)
        }
        displaced?.resume(returning: nil)
        if isAnswered { continuation.resume(returning: ping) }
      }
    } onCancel: {
      answer(nil) { $0.id == id }
    }
    return .notification(ping)
  }

  /// Takes back a notification whose client hung up before the answer. The next poll gets it, unless a later one of its
  /// key exists.
  func takeBack(_ ping: Ping) {
    state.withLock { state in
      if state.delivered[ping.key] == ping.sequence { state.delivered.set(ping.sequence - 1, for: ping.key) }
    }
    put(ping)
  }

  func put(_ ping: Ping) {
    let (waiter, outcome) = state.withLock { state -> (CheckedContinuation<Ping?, Never>?, PendingPings.Outcome) in
      if let delivered = state.delivered[ping.key], ping.sequence <= delivered { return (nil, .coalesced) }
      // Removes pings that were implied before the user subscribed; the subscription replaces them.
      if let superseded = ping.superseding { state.pending.remove(keysFrom: superseded) }
      if let waiter = state.waiter {
        state.waiter = nil
        state.delivered.raise(to: ping.sequence, for: ping.key)
        return (waiter.continuation, .added)
      }
      return (nil, state.pending.put(ping))
    }
    waiter?.resume(returning: ping)
    metrics.count(outcome)
  }

  /// Drops the waiting pings of a container's environment.
  func forget(_ container: ContainerID, _ environment: Environment) {
    state.withLock { $0.pending.remove { $0.isOf(container, environment) } }
  }

  /// Notes that another notifier delivered the key's pings up to `sequence`, so that a client of both does not get them
  /// twice.
  func wasDelivered(_ key: String, through sequence: Int64) {
    state.withLock { state in
      state.delivered.raise(to: sequence, for: key)
      state.pending.remove(key, through: sequence)
    }
  }

  /// Answers a poll whose deadline has passed.
  /// - Returns: true when nobody polls, and nobody has polled since `instant`.
  @discardableResult func expire(at now: ContinuousClock.Instant, idleSince instant: ContinuousClock.Instant) -> Bool {
    answer(nil) { $0.deadline <= now }
    return state.withLock { $0.waiter == nil && $0.lastPoll < instant }
  }

  /// Answers the poll, and every later one at once.
  func release() {
    state.withLock { $0.isReleased = true }
    answer(nil) { _ in true }
  }

  private func answer(_ ping: Ping?, if condition: (Waiter) -> Bool) {
    let continuation = state.withLock { state -> CheckedContinuation<Ping?, Never>? in
      guard let waiter = state.waiter, condition(waiter) else { return nil }
      state.waiter = nil
      return waiter.continuation
    }
    continuation?.resume(returning: ping)
  }

  /// Retires the courier if nobody polls and nobody has polled since `instant`.
  /// - Returns: true when it is retired.
  func retire(ifIdleSince instant: ContinuousClock.Instant) -> Bool {
    state.withLock { state in
      if state.waiter == nil && state.lastPoll < instant { state.isRetired = true }
      return state.isRetired
    }
  }

  /// Counts a courier as used: one that was just made or registered again is not idle.
  /// - Returns: false when it was forgotten before.
  func touch(now: ContinuousClock.Instant) -> Bool {
    state.withLock { state in
      state.lastPoll = max(state.lastPoll, now)
      return !state.isRetired
    }
  }
}

extension RecentValues where Value == Int64 {
  fileprivate mutating func raise(to value: Int64, for key: String) { set(max(value, self[key] ?? value), for: key) }
}
