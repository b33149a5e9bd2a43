// The memory of requests that are taken apart: what is sent to several owners, and what they answered, until one answer is made of it.

import Records
import ServiceKit
import Synchronization

/// Bytes in hand, of all such requests together and of each user's. Nobody waits for room: a request that finds none holds some already.
final class PartBudget: Sendable {
  struct Limits: Sendable {
    let total: Int
    let perUser: Int

    init(total: Int = 64 << 20, perUser: Int = 32 << 20) {
      self.total = total
      self.perUser = perUser
    }

    /// An eighth of a gateway's memory, half of that for one user.
    init(memoryByteCount: Int) { self.init(total: memoryByteCount / 8, perUser: memoryByteCount / 16) }
  }

  private struct State {
    var total = 0
    var users: [String: Int] = [:]
    var refusedCount = 0
  }

  let limits: Limits
  private let state = Mutex(State())

  init(_ limits: Limits = Limits()) { self.limits = limits }

  /// Bytes in hand, and how often there was no room for more.
  var counts: (held: Int, refused: Int) { state.withLock { ($0.total, $0.refusedCount) } }

  /// - Throws: `throttled` when the user has his share, `tryAgainLater` when all have theirs.
  fileprivate func take(_ count: Int, of user: String) throws(RecordError) {
    let refusal: RecordError? = state.withLock { state in
      let own = state.users[user, default: 0] + count
      guard own <= limits.perUser, state.total + count <= limits.total else {
        state.refusedCount += 1
        return own > limits.perUser
          ? RecordError(.throttled, "You have as many requests of several owners under way as you may", retryAfter: RetryPlan.retryAfterSeconds)
          : RecordError(.tryAgainLater, "The server has as many requests of several owners in hand as it may", retryAfter: RetryPlan.retryAfterSeconds)
      }
      state.total += count
      state.users[user] = own
      return nil
    }
    if let refusal { throw refusal }
  }

  fileprivate func giveBack(_ count: Int, of user: String) {
    state.withLock { state in
      state.total -= count
      let own = state.users[user, default: 0] - count
      state.users[user] = own > 0 ? own : nil
    }
  }

  /// What one request holds; given back when nobody holds the request any more.
  final class Holding: Sendable {
    private let budget: PartBudget
    private let user: String
    private let count = Atomic(0)

    init(_ budget: PartBudget, of user: String) {
      self.budget = budget
      self.user = user
    }

    deinit { budget.giveBack(count.load(ordering: .relaxed), of: user) }

    /// - Throws: `throttled`, `tryAgainLater`.
    func grow(by byteCount: Int) throws(RecordError) {
      try budget.take(byteCount, of: user)
      count.add(byteCount, ordering: .relaxed)
    }

    func shrink(by byteCount: Int) {
      count.subtract(byteCount, ordering: .relaxed)
      budget.giveBack(byteCount, of: user)
    }
  }
}
