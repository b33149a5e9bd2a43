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

    /// One address's at one name.
    static let pair = Allowance(freeCount: 5, firstPause: 2_000, longestPause: 300_000, memory: 900_000)
    /// The same while the name is guessed at from everywhere.
    static let strained = Allowance(freeCount: 1, firstPause: 30_000, longestPause: 900_000, memory: 3_600_000)
    /// Many people share one address, more of them the networks around it.
    static let networks = [30, 120, 480].map { Allowance(freeCount: $0, firstPause: 2_000, longestPause: 300_000, memory: 900_000) }

    func pause(after count: Int) -> Int64 {
      guard count >= freeCount else { return 0 }
      let doublings = min(count - freeCount, 30)
      return min(longestPause, firstPause << Int64(doublings))
    }
  }

  private struct Row {
    var count = 0
    var latest: Int64
  }

  /// What attempts are counted together for.
  private enum Key: Hashable, Sendable {
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

  /// Failures at one name, from wherever, until it counts as guessed at from everywhere; forgotten after an hour without one.
  static let nameBudget = 50
  private static let nameMemory: Int64 = 3_600_000

  /// When there are more, those that waited longest are forgotten.
  static let rowLimit = 60_000

  private var rows: [Key: Row] = [:]

  /// An attempt, which counts as failed until `succeeded` or `withdraw` says otherwise: many at once are not looked at as one.
  /// - Returns: whole seconds to wait, ≥ 1, and nothing was counted; nil: go on.
  mutating func begin(name: String, from origin: Origin, now: Int64) -> Int? {
    let pair = Self.pair(name, origin)
    let isStrained = count(.name(name), now, Self.nameMemory) >= Self.nameBudget
    let networks = zip(origin.networks.map(Key.network), Allowance.networks)
    let longest = networks.reduce(wait(pair, isStrained ? .strained : .pair, now)) { max($0, wait($1.0, $1.1, now)) }
    guard longest <= 0 else { return Int((longest + 999) / 1000) }
    let keys = [(pair, Allowance.strained.memory), (.name(name), Self.nameMemory)] + networks.map { ($0, $1.memory) }
    if rows.count + keys.count > Self.rowLimit { makeRoom() }
    for (key, memory) in keys { rows[key] = Row(count: count(key, now, memory) + 1, latest: now) }
    return nil
  }

  /// The address has nothing to make up for at this name. Of the others only this attempt is forgotten: whoever knows one password may not guess
  /// others for it, and strangers go on guessing at the name.
  mutating func succeeded(name: String, from origin: Origin) {
    rows[Self.pair(name, origin)] = nil
    forgetOne([.name(name)] + origin.networks.map(Key.network))
  }

  /// The attempt was not looked at.
  mutating func withdraw(name: String, from origin: Origin) { forgetOne([Self.pair(name, origin), .name(name)] + origin.networks.map(Key.network)) }

  private static func pair(_ name: String, _ origin: Origin) -> Key { .pair(name: name, address: origin.networks.first ?? "") }

  private mutating func forgetOne(_ keys: [Key]) {
    for key in keys {
      guard let count = rows[key]?.count else { continue }
      if count > 1 { rows[key]?.count = count - 1 } else { rows[key] = nil }
    }
  }

  private func count(_ key: Key, _ now: Int64, _ memory: Int64) -> Int { rows[key].flatMap { elapsed(since: $0, now) < memory ? $0.count : nil } ?? 0 }

  private func wait(_ key: Key, _ allowance: Allowance, _ now: Int64) -> Int64 {
    guard let row = rows[key] else { return 0 }
    let elapsed = elapsed(since: row, now)
    return elapsed < allowance.memory ? allowance.pause(after: row.count) - elapsed : 0
  }

  /// A clock that was set back must not lock anybody out for long.
  private func elapsed(since row: Row, _ now: Int64) -> Int64 { max(0, now - row.latest) }

  private mutating func makeRoom() {
    let middle = rows.values.map(\.latest).sorted()[rows.count / 2]
    rows = rows.filter { $0.value.latest > middle }
  }
}
