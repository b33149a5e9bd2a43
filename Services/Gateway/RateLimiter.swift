// Limits the requests of each credential: token buckets in a table of bounded size.

import HTTPServer
import ServiceKit
import Synchronization

/// A bucket that fills at a steady rate; every request takes one token. It has no clock: the caller passes the time.
struct TokenBucket: Sendable {
  struct Rate: Hashable, Sendable {
    let perSecond: Int
    /// Tokens in a full bucket, ≥ 1.
    let burst: Int
  }

  /// The time at which the bucket would be full; this is its whole state.
  private var full: ContinuousClock.Instant

  init(now: ContinuousClock.Instant) { full = now }

  /// Takes a token.
  /// - Returns: nil when a token was taken; otherwise the time until there is one.
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

/// One bucket for each sender of requests to this gateway.
final class RateLimiter: Sendable {
  /// The credential or network that a request counts towards.
  enum Key: Hashable, Sendable {
    /// Tokens that the directory knows: an app's, with a user's where there is one.
    case tokens(api: String?, user: String?)
    case serverKey(String)
    /// Uploads: their addresses carry no token but name the user.
    case uploads(user: String)
    /// Downloads: an address names its participant. The others count for the network that they come from.
    case downloads(party: String)
    /// Attempts with credentials that this gateway does not know yet.
    case address(ClientNetwork)

    /// A label of metrics.
    var kind: String {
      switch self {
      case .tokens: "tokens"
      case .serverKey: "key"
      case .uploads: "upload"
      case .downloads: "download"
      case .address: "address"
      }
    }
  }

  /// Beyond this number full buckets are dropped; if that is not enough, half of the limit are dropped, whichever they
  /// are.
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

  /// - Returns: nil when the request may go on; otherwise whole seconds to wait, ≥ 1.
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
