// Slows down guessing at passwords and codes: counts failed attempts by address and by name. It has no clock: the
// caller passes the time.

/// Failed sign-ins, and the time that the next attempt has to wait.
///
/// Only addresses wait: one that guessed wrong at a name, and an address or network that guessed at many. A name alone
/// never waits, or any stranger could lock its user out. Guesses at one name from many addresses reduce the free
/// attempts of each address, so a right password still succeeds at the first try.
///
/// Many people share an address. So what is not one person's, a passkey, a device's code or the operator token, has no
/// limit narrower than that of the address for everything.
struct SignInThrottle: Sendable {
  /// Limits for a series of failed attempts.
  struct Allowance: Hashable, Sendable {
    /// Attempts without a pause.
    let freeCount: Int
    /// The pause after `freeCount` attempts; it doubles with each further one. Unit of all times: milliseconds.
    let firstPause: Int64
    let longestPause: Int64
    /// A series without an attempt for this long is forgotten.
    let memory: Int64
    /// After this time one attempt no longer counts; nil: all count until the series is forgotten.
    var drain: Int64?

    /// Attempts of one address at one name.
    static let pair = Allowance(freeCount: 5, firstPause: 2_000, longestPause: 300_000, memory: 900_000)
    /// The same while the name is guessed at from many addresses.
    static let strained = Allowance(freeCount: 1, firstPause: 30_000, longestPause: 900_000, memory: 3_600_000)
    /// Attempts at one name from all addresses; nobody waits for these.
    static let name = Allowance(freeCount: .max, firstPause: 0, longestPause: 0, memory: 3_600_000)
    /// Attempts at codes or at the operator token from all addresses; nobody waits for these. A code is guessed by one
    /// attempt in billions.
    static let shared = Allowance(
      freeCount: .max, firstPause: 0, longestPause: 0, memory: 3_600_000, drain: 3_600_000 / Int64(sharedBudget))
    /// Many people share an address, and more share its networks, so the mistakes of a whole day must not add up.
    static let networks = [30, 120, 480].map {
      Allowance(freeCount: $0, firstPause: 2_000, longestPause: 300_000, memory: 900_000, drain: 900_000 / Int64($0))
    }

    func pause(after count: Int) -> Int64 {
      guard count >= freeCount else { return 0 }
      let doublings = min(count - freeCount, 30)
      return min(longestPause, firstPause << Int64(doublings))
    }
  }

  fileprivate struct Row {
    /// The count at the time `latest`; it is a fraction because attempts drain continuously.
    var count = 0.0
    var latest: Int64
  }

  /// What an attempt is at.
  enum Target: Hashable, Sendable {
    /// The password of a user with this name.
    case name(String)
    /// The code of a device that waits.
    case code
    /// The operator token.
    case operatorToken
    /// A passkey. Nobody guesses a signature, so a failed attempt is only work for the server.
    case passkey
  }

  /// A counted attempt.
  struct Attempt: Sendable {
    fileprivate let earlier: [(key: Key, row: Row?)]
    fileprivate let now: Int64
  }

  enum Outcome: Sendable {
    case counted(Attempt)
    /// Nothing was counted. Whole seconds, ≥ 1.
    case wait(Int)
  }

  /// The subjects by which attempts are counted.
  fileprivate enum Key: Hashable, Sendable {
    case pair(Target, address: String)
    /// From all addresses.
    case target(Target)
    case network(String)
  }

  /// The sender of an attempt.
  struct Origin: Hashable, Sendable {
    /// From the smallest to the largest, at most as many as `Allowance.networks`. For IPv4 the address alone; for IPv6
    /// the networks that a single customer may own with all their addresses.
    let networks: [String]
  }

  /// Failures at one name from all addresses, after which it counts as under attack.
  static let nameBudget = 50
  /// Failures at codes in an hour from all addresses, after which they count as under attack; likewise at the operator
  /// token.
  static let sharedBudget = 1000

  /// Beyond this number the older half of the rows is forgotten.
  static let rowLimit = 60_000

  private var rows: [Key: Row] = [:]

  /// Counts an attempt as failed until `succeeded` or `withdraw`, so that simultaneous attempts all count.
  mutating func begin(_ target: Target, from origin: Origin, now: Int64) -> Outcome {
    let pair = Key.pair(target, address: origin.networks.first ?? "")
    let networks = zip(origin.networks.map(Key.network), Allowance.networks).map { ($0, $1) }
    var limits = networks
    var counted = networks
    switch target {
    case .name:
      let isStrained = count(.target(target), .name, now) >= Double(Self.nameBudget)
      limits.append((pair, isStrained ? .strained : .pair))
      counted += [(pair, .strained), (.target(target), .name)]
    case .code, .operatorToken:
      if count(.target(target), .shared, now) >= Double(Self.sharedBudget) { limits.append((pair, .strained)) }
      counted += [(pair, .strained), (.target(target), .shared)]
    case .passkey: break
    }
    let longest = limits.map { wait($0.0, $0.1, now) }.max() ?? 0
    guard longest <= 0 else { return .wait(Int((longest + 999) / 1000)) }
    if rows.count + counted.count > Self.rowLimit { makeRoom() }
    let attempt = Attempt(earlier: counted.map { ($0.0, rows[$0.0]) }, now: now)
    for (key, allowance) in counted { rows[key] = Row(count: count(key, allowance, now) + 1, latest: now) }
    return .counted(attempt)
  }

  /// Clears the address's failures at this name. In the other rows only this attempt is withdrawn: the owner of one
  /// password may not guess others for it, and strangers may still be guessing at the name.
  mutating func succeeded(_ attempt: Attempt) {
    withdraw(attempt)
    for case (let key, _) in attempt.earlier {
      if case .pair = key { rows[key] = nil }
    }
  }

  /// Withdraws an attempt that was not checked, as if it had never been made.
  mutating func withdraw(_ attempt: Attempt) {
    for (key, earlier) in attempt.earlier {
      guard let row = rows[key] else { continue }
      // Other attempts may have counted meanwhile.
      let isLatest = row.latest == attempt.now && row.count <= (earlier?.count ?? 0) + 1
      rows[key] = isLatest ? earlier : row.count > 1 ? Row(count: row.count - 1, latest: row.latest) : nil
    }
  }

  private func count(_ key: Key, _ allowance: Allowance, _ now: Int64) -> Double {
    guard let row = rows[key] else { return 0 }
    let elapsed = elapsed(since: row, now)
    guard elapsed < allowance.memory else { return 0 }
    return max(0, row.count - (allowance.drain.map { Double(elapsed) / Double($0) } ?? 0))
  }

  private func wait(_ key: Key, _ allowance: Allowance, _ now: Int64) -> Int64 {
    guard let row = rows[key] else { return 0 }
    return allowance.pause(after: Int(count(key, allowance, now))) - elapsed(since: row, now)
  }

  /// Never negative, so that a clock that was set back locks nobody out for long.
  private func elapsed(since row: Row, _ now: Int64) -> Int64 { max(0, now - row.latest) }

  private mutating func makeRoom() {
    let middle = rows.values.map(\.latest).sorted()[rows.count / 2]
    rows = rows.filter { $0.value.latest > middle }
  }
}
