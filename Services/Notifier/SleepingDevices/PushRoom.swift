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
  /// The last quarter of `underWayTogether` is for users with fewer pushes under way than this. So a few users whose
  /// places are slow can't have all.
  var fewOfUser = 4
  /// Users at whose addresses a host has to fail, without a success between, before that pauses all of its pushes.
  var failedUsers = 3
  /// Attempts of one push: with the pauses between them more than an hour, which a service may be away.
  var attempts = 24
  var firstPause = Duration.seconds(1)
  var longestPause = Duration.seconds(300)
  /// The longest pause that a service gets because it asks for it.
  var longestAskedPause = Duration.seconds(3600)
  /// The time after which a push is given up.
  var longestWait = Duration.seconds(7200)

  /// libcurl keeps up to four connections for each push that is under way.
  private static let connectionsOfPush = 4

  /// The most connections of all pushes.
  var connectionCount: Int { underWayTogether * Self.connectionsOfPush }

  /// Lowers the number of pushes under way, so that their connections take a quarter of the process's files at most.
  mutating func fit(files: Int) {
    underWayTogether = min(underWayTogether, max(files / 4 / Self.connectionsOfPush, 1))
    underWayOfUser = min(underWayOfUser, max(underWayTogether / 4, 1))
  }
}

/// Counts the pushes of all lines.
struct PushRoom: Sendable {
  private struct Use: Sendable {
    /// Pushes that wait or rest, also by line.
    private(set) var idleCount = 0
    private(set) var lines = PushCrowds<PushLines.Name>()
    private(set) var underWay = 0

    var count: Int { idleCount + underWay }

    mutating func change(idle: Int, underWay: Int, in line: PushLines.Name) {
      idleCount += idle
      self.underWay += underWay
      lines.set(lines.count(of: line) + idle, of: line)
    }
  }

  private let limits: PushLimits
  private var users: [String: Use] = [:]
  private var crowds = PushCrowds<String>()
  private var underWay = 0
  /// Pushes that wait, are under way or rest.
  private(set) var count = 0

  init(_ limits: PushLimits) { self.limits = limits }

  var isFull: Bool { count >= limits.count }
  func isFull(for user: String) -> Bool { users[user].map { $0.count >= limits.countOfUser } ?? false }

  /// True when a further push may be under way.
  var hasWay: Bool { underWay < limits.underWayTogether }
  /// A user who has no way has pushes under way, and looks again when one of these ends.
  func hasWay(for user: String) -> Bool {
    let own = users[user]?.underWay ?? 0
    let isCommon = underWay < limits.underWayTogether - limits.underWayTogether / 4
    return own < (isCommon ? limits.underWayOfUser : min(limits.fewOfUser, limits.underWayOfUser))
  }

  /// The user with most pushes that wait or rest, if these are a larger part of a user's room than `count` of all room.
  func user(above count: Int) -> String? {
    crowds.most * limits.count > count * limits.countOfUser ? crowds.fullest : nil
  }

  func fullestLine(of user: String) -> PushLines.Name? { users[user]?.lines.fullest }

  mutating func enter(_ user: String, _ line: PushLines.Name) { change(user, line, idle: 1, underWay: 0) }

  /// Ends a push that waits or rests.
  mutating func leave(_ user: String, _ line: PushLines.Name) { change(user, line, idle: -1, underWay: 0) }

  mutating func begin(_ user: String, _ line: PushLines.Name) { change(user, line, idle: -1, underWay: 1) }

  mutating func end(_ user: String, _ line: PushLines.Name) { change(user, line, idle: 1, underWay: -1) }

  private mutating func change(_ user: String, _ line: PushLines.Name, idle: Int, underWay: Int) {
    count += idle + underWay
    self.underWay += underWay
    users[user, default: Use()].change(idle: idle, underWay: underWay, in: line)
    crowds.set(users[user]?.idleCount ?? 0, of: user)
    if users[user]?.count == 0 { users[user] = nil }
  }
}
