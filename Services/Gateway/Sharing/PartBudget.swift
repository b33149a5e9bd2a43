// Bounds the memory of requests that are split between several owners: their parts and the owners' answers.

import Records
import ServiceKit
import Synchronization

/// Bytes in use by all such requests, and by each user's. Nobody waits for room, since a waiting request would hold
/// memory itself.
final class PartBudget: Sendable {
  struct Limits: Sendable {
    let total: Int
    let perUser: Int

    init(total: Int = 64 << 20, perUser: Int = 32 << 20) {
      self.total = total
      self.perUser = perUser
    }

    /// An eighth of a gateway's memory in all, half of that for one user.
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

  /// Bytes in use, and the number of refusals for lack of room.
  var counts: (held: Int, refused: Int) { state.withLock { ($0.total, $0.refusedCount) } }

  /// - Throws: `throttled` when the user's share is used up, `tryAgainLater` when the whole budget is.
  fileprivate func take(_ count: Int, of user: String) throws(RecordError) {
    let refusal: RecordError? = state.withLock { state in
      let own = state.users[user, default: 0] + count
      guard own <= limits.perUser, state.total + count <= limits.total else {
        state.refusedCount += 1
        return own > limits.perUser
          ? RecordError(
            .throttled, "You have too many requests to several owners under way",
            retryAfter: RetryPlan.retryAfterSeconds)
          : RecordError(
            .tryAgainLater, "The server has too many requests to several owners under way",
            retryAfter: RetryPlan.retryAfterSeconds)
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

  /// The bytes of one request, given back when its last reference goes.
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

    /// Memory of a parsed document per byte of its text, at worst.
    static let documentFactor = 9

    /// Parses a document that is used here and now, and counts its memory meanwhile. That of a long one is all that the
    /// user has left beside this request, so no request is too large by itself.
    /// - Throws: `throttled`, `tryAgainLater`; the error of `read`.
    func reading<Value>(_ text: [UInt8], _ read: ([UInt8]) throws(RecordError) -> Value) throws(RecordError) -> Value {
      let room = max(budget.limits.perUser - count.load(ordering: .relaxed), 0)
      let byteCount = min(Self.documentFactor * text.count, room)
      try grow(by: byteCount)
      defer { shrink(by: byteCount) }
      return try read(text)
    }

    func shrink(by byteCount: Int) {
      count.subtract(byteCount, ordering: .relaxed)
      budget.giveBack(byteCount, of: user)
    }
  }
}
