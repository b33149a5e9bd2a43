// How often somebody may guess: attempts counted by user name and by client address. A value: it is told the time.

/// Failed sign-ins, and how long the next attempt has to wait.
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

    static let name = Allowance(freeCount: 5, firstPause: 2_000, longestPause: 300_000, memory: 900_000)
    /// Many people share one address.
    static let address = Allowance(freeCount: 30, firstPause: 2_000, longestPause: 300_000, memory: 900_000)

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

  /// Whose attempts are counted together.
  enum Key: Hashable, Sendable {
    case name(String)
    case address(String)

    var allowance: Allowance {
      switch self {
      case .name: .name
      case .address: .address
      }
    }
  }

  /// When there are more, those that waited longest are forgotten.
  static let rowLimit = 20_000

  private var rows: [Key: Row] = [:]

  /// An attempt, which counts as failed until `succeeded` says otherwise: many at once are not looked at as one.
  /// - Returns: whole seconds to wait, ≥ 1, and nothing was counted; nil: go on.
  mutating func begin(_ keys: [Key], now: Int64) -> Int? {
    let longest = keys.map { wait($0, now) }.max() ?? 0
    guard longest <= 0 else { return Int((longest + 999) / 1000) }
    if rows.count + keys.count > Self.rowLimit { makeRoom() }
    for key in keys {
      var row = rows[key].flatMap { now - $0.latest < key.allowance.memory ? $0 : nil } ?? Row(latest: now)
      row.count += 1
      row.latest = now
      rows[key] = row
    }
    return nil
  }

  /// The name's row is forgotten; of the address, only this attempt: whoever knows one password may not guess others for it.
  mutating func succeeded(_ keys: [Key]) {
    for key in keys {
      switch key {
      case .name: rows[key] = nil
      case .address:
        guard let count = rows[key]?.count else { continue }
        if count > 1 { rows[key]?.count = count - 1 } else { rows[key] = nil }
      }
    }
  }

  private func wait(_ key: Key, _ now: Int64) -> Int64 {
    guard let row = rows[key] else { return 0 }
    // A clock that was set back must not lock anybody out for long.
    let elapsed = max(0, now - row.latest)
    guard elapsed < key.allowance.memory else { return 0 }
    return key.allowance.pause(after: row.count) - elapsed
  }

  private mutating func makeRoom() {
    let middle = rows.values.map(\.latest).sorted()[rows.count / 2]
    rows = rows.filter { $0.value.latest > middle }
  }
}
