// How many requests a credential may make: token buckets, in a table that can't grow without end.

import ServiceKit
import Synchronization

/// A bucket that fills at a steady rate; every request takes one token. A value: it is told the time.
struct TokenBucket: Sendable {
  struct Rate: Hashable, Sendable {
    let perSecond: Int
    /// As many as a full bucket holds, ≥ 1.
    let burst: Int
  }

  /// When it would be full: the only thing to remember.
  private var full: ContinuousClock.Instant

  init(now: ContinuousClock.Instant) { full = now }

  /// Takes a token.
  /// - Returns: how long until there is one; nil when it was taken.
  mutating func take(_ rate: Rate, now: ContinuousClock.Instant) -> Duration? {
    let one = Duration.seconds(1) / rate.perSecond
    let next = max(full, now) + one
    let missing = (next - now) - one * rate.burst
    guard missing <= .zero else { return missing }
    full = next
    return nil
  }

  func isFull(at now: ContinuousClock.Instant) -> Bool { full <= now }
}

/// A bucket for everybody who sends requests to this gateway.
final class RateLimiter: Sendable {
  /// What requests are counted for.
  enum Key: Hashable, Sendable {
    /// Tokens the directory knows: of an app, and of a user where there is one.
    case tokens(api: String?, user: String?)
    case serverKey(String)
    /// Content sent to upload addresses, which carry no token but name the user.
    case uploads(user: String)
    /// Tries with credentials that nobody knows yet.
    case address(String)

    /// For metrics.
    var kind: String {
      switch self {
      case .tokens: "tokens"
      case .serverKey: "key"
      case .uploads: "upload"
      case .address: "address"
      }
    }
  }

  /// When there are more, full buckets are dropped, and where that is not enough any.
  static let bucketLimit = 50_000

  private let rate: TokenBucket.Rate?
  private let timing: Timing
  private let buckets = Mutex<[Key: TokenBucket]>([:])

  /// - Parameter rate: nil: no limit.
  init(rate: TokenBucket.Rate?, timing: Timing) {
    self.rate = rate
    self.timing = timing
  }

  var isActive: Bool { rate != nil }
  var count: Int { buckets.withLock(\.count) }

  /// - Returns: whole seconds to wait, ≥ 1; nil: go on.
  func take(_ key: Key) -> Int? {
    guard let rate else { return nil }
    let now = timing.now()
    let wait = buckets.withLock { buckets in
      if buckets[key] == nil, buckets.count >= Self.bucketLimit { Self.makeRoom(in: &buckets, now) }
      return buckets[key, default: TokenBucket(now: now)].take(rate, now: now)
    }
    return wait.map { Int($0.components.seconds) + 1 }
  }

  private static func makeRoom(in buckets: inout [Key: TokenBucket], _ now: ContinuousClock.Instant) {
    buckets = buckets.filter { !$0.value.isFull(at: now) }
    guard buckets.count >= bucketLimit else { return }
    for key in Array(buckets.keys.prefix(bucketLimit / 2)) { buckets[key] = nil }
  }
}
