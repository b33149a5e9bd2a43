// The room that the lines of all places share, so that no user and no place takes what others need.

/// The bounds of pushes.
struct PushLimits: Sendable {
  /// The least time between two pushes of a key to a device.
  var interval = Duration.seconds(2)
  /// Pushes that wait, are under way or rest: to all places together, and of one user.
  var count = 100_000
  var countOfUser = 4096
  /// Pushes under way at a time: to one place, to all, and of one user.
  var underWay = 256
  var underWayTogether = 1024
  var underWayOfUser = 64
  /// Attempts of one push: with the pauses between them more than an hour, which a service may be away.
  var attempts = 24
  var firstPause = Duration.seconds(1)
  var longestPause = Duration.seconds(300)
  /// The longest pause that a service gets because it asks for it.
  var longestAskedPause = Duration.seconds(3600)
  /// The time after which a push is given up.
  var longestWait = Duration.seconds(7200)
}

/// Counts the pushes of all lines.
struct PushRoom: Sendable {
  private struct Use: Sendable {
    var count = 0
    var underWay = 0
  }

  private let limits: PushLimits
  private var users: [String: Use] = [:]
  private var underWay = 0
  /// Pushes that wait, are under way or rest.
  private(set) var count = 0

  init(_ limits: PushLimits) { self.limits = limits }

  var isFull: Bool { count >= limits.count }
  func isFull(for user: String) -> Bool { users[user].map { $0.count >= limits.countOfUser } ?? false }

  /// True when a further push may be under way.
  var hasWay: Bool { underWay < limits.underWayTogether }
  func hasWay(for user: String) -> Bool { users[user].map { $0.underWay < limits.underWayOfUser } ?? true }

  mutating func enter(_ user: String) {
    count += 1
    users[user, default: Use()].count += 1
  }

  mutating func leave(_ user: String) {
    count -= 1
    change(user) { $0.count -= 1 }
  }

  mutating func begin(_ user: String) {
    underWay += 1
    users[user, default: Use()].underWay += 1
  }

  mutating func end(_ user: String) {
    underWay -= 1
    change(user) { $0.underWay -= 1 }
  }

  private mutating func change(_ user: String, _ body: (inout Use) -> Void) {
    guard var use = users[user] else { return }
    body(&use)
    users[user] = use.count > 0 || use.underWay > 0 ? use : nil
  }
}
