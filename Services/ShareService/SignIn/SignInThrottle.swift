// How often somebody may guess: attempts counted by who makes them and at whose name. A value: it is told the time.

/// Failed sign-ins, and how long the next attempt has to wait.
///
/// What waits is an address: for a name it got wrong, and for guessing at many, it or the network it is in. A name alone never waits, or any
/// stranger could lock its user out; guesses at one name from many addresses only leave each of them fewer, so that a right password still
/// passes at the first try.
struct SignInThrottle: Sendable {
  /// A row of attempts that failed.
  struct Allowance: Hashable, Sendable {
    /// Attempts that are looked at without a pause.
    let freeCount: Int
    /// The pause after one more; doubles with each. Unit of times: milliseconds.
    let firstPause: Int64
    let longestPause: Int64
    /// Without an attempt for so long, all is forgotten.
    let memory: Int64
    /// After so long one attempt less counts; nil: all count until they are forgotten.
    var drain: Int64?

    /// One address's at one name.
    static let pair = Allowance(freeCount: 5, firstPause: 2_000, longestPause: 300_000, memory: 900_000)
    /// The same while the name is guessed at from everywhere.
    static let strained = Allowance(freeCount: 1, firstPause: 30_000, longestPause: 900_000, memory: 3_600_000)
    /// At one name, from wherever; nobody waits for these.
    static let name = Allowance(freeCount: .max, firstPause: 0, longestPause: 0, memory: 3_600_000)
    /// Many people share one address, more of them the networks around it: what they mistype in a day must not add up.
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
    /// When it was `latest`; parts of attempts drain, too.
    var count = 0.0
    var latest: Int64
  }

  /// An attempt that was counted.
  struct Attempt: Sendable {
    fileprivate let earlier: [(key: Key, row: Row?)]
    fileprivate let now: Int64
  }

  enum Outcome: Sendable {
    case counted(Attempt)
    /// Nothing was counted: whole seconds, ≥ 1.
    case wait(Int)
  }

  /// What attempts are counted together for.
  fileprivate enum Key: Hashable, Sendable {
    case pair(name: String, address: String)
    case name(String)
    case network(String)
  }

  /// Who makes an attempt.
  struct Origin: Hashable, Sendable {
    /// From the smallest to the largest, at most as many as `Allowance.networks`: an address of IPv4 alone; of IPv6 the networks that one
    /// customer may be given, within which everybody has very many addresses.
    let networks: [String]
  }

  /// Failures at one name, from wherever, until it counts as guessed at from everywhere.
  static let nameBudget = 50

  /// When there are more, those that waited longest are forgotten.
  static let rowLimit = 60_000

  private var rows: [Key: Row] = [:]

  /// An attempt, which counts as failed until `succeeded` or `withdraw` says otherwise: many at once are not looked at as one.
  mutating func begin(name: String, from origin: Origin, now: Int64) -> Outcome {
    let pair = Key.pair(name: name, address: origin.networks.first ?? "")
    let networks = zip(origin.networks.map(Key.network), Allowance.networks)
    let isStrained = count(.name(name), .name, now) >= Double(Self.nameBudget)
    let longest = networks.reduce(wait(pair, isStrained ? .strained : .pair, now)) { max($0, wait($1.0, $1.1, now)) }
    guard longest <= 0 else { return .wait(Int((longest + 999) / 1000)) }
    let counted = [(pair, Allowance.strained), (.name(name), .name)] + networks.map { ($0, $1) }
    if rows.count + counted.count > Self.rowLimit { makeRoom() }
    let attempt = Attempt(earlier: counted.map { ($0.0, rows[$0.0]) }, now: now)
    for (key, allowance) in counted { rows[key] = Row(count: count(key, allowance, now) + 1, latest: now) }
    return .counted(attempt)
  }

  /// The address has nothing to make up for at this name. Of the others only this attempt is forgotten: whoever knows one password may not guess
  /// others for it, and strangers go on guessing at the name.
  mutating func succeeded(_ attempt: Attempt) {
    withdraw(attempt)
    for case (let key, _) in attempt.earlier.prefix(1) { rows[key] = nil }
  }

  /// The attempt was not looked at: nothing is as if it had been made.
  mutating func withdraw(_ attempt: Attempt) {
    for (key, earlier) in attempt.earlier {
      guard let row = rows[key] else { continue }
      // Others may have counted meanwhile.
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

  /// A clock that was set back must not lock anybody out for long.
  private func elapsed(since row: Row, _ now: Int64) -> Int64 { max(0, now - row.latest) }

  private mutating func makeRoom() {
    let middle = rows.values.map(\.latest).sorted()[rows.count / 2]
    rows = rows.filter { $0.value.latest > middle }
  }
}
