// Decides when which device is woken: the pushes of one service that wait, are under way or were sent a moment ago. A
// pure value, so that tests cover every rule.

import Queues

/// The pushes to one place. A device has at most one push of a key waiting, and at most one in an interval. Later pings
/// of the key take the place of one that waits.
struct PushLine: Sendable {
  struct Device: Hashable, Sendable {
    /// `PushRegistration.id`
    let registration: Int64
    let user: String
  }

  struct Key: Hashable, Sendable {
    let device: Device
    /// `Ping.key`
    let ping: String
  }

  /// A push that is to be sent now.
  struct Due: Sendable {
    let key: Key
    let ping: Ping
    /// Attempts that failed.
    let failureCount: Int
    /// The time of the ping.
    fileprivate let since: ContinuousClock.Instant
    /// Pauses of the service before this attempt.
    fileprivate let pauseCount: Int
  }

  private enum Slot: Sendable {
    /// - Parameter since: the time of the ping.
    case waiting(Ping, failureCount: Int, since: ContinuousClock.Instant)
    /// - Parameter next: a later ping, which came during the attempt, and its time.
    case underWay(next: (ping: Ping, since: ContinuousClock.Instant)?)
    /// Sent a moment ago.
    case resting

    var isWaiting: Bool { if case .waiting = self { true } else { false } }
    var isUnderWay: Bool { if case .underWay = self { true } else { false } }
  }

  enum Addition: Hashable, Sendable {
    case added
    case merged
    /// A push is dropped: one of the fullest place or user, or the new push itself.
    case displaced
  }

  /// The reach of a failure.
  enum Failure: Hashable, Sendable {
    /// The device gets too many pushes.
    case device
    /// The host failed at the device's address, which its user has named: at others it may do well.
    case address
    /// The whole service is away or busy.
    case service
  }

  /// What follows a failed attempt.
  struct Retry: Hashable, Sendable {
    /// False when the push is given up.
    let isKept: Bool
    /// Set when this failure pauses the whole service.
    let servicePause: Duration?
  }

  private let name: PushLines.Name
  private let limits: PushLimits
  private var slots: [Key: Slot] = [:]
  /// Pushes that can make room: they wait or rest.
  private(set) var idleCount = 0
  /// Pushes whose time has come. Their users take turns.
  private var ready = TurnQueue<Key>()
  /// Pushes that rest or wait for their next attempt. Each slot that is not under way is here or in `ready`, once.
  private var due = DueQueue<ContinuousClock.Instant, Key>()
  private var underWayCount = 0
  private var pausedUntil: ContinuousClock.Instant?
  private var pauseCount = 0
  /// Pauses in a row.
  private var failureCount = 0
  /// Users at whose addresses the host failed since its last success, as many as it takes to blame the host.
  private var failedUsers: Set<String> = []

  init(_ name: PushLines.Name, _ limits: PushLimits) {
    self.name = name
    self.limits = limits
  }

  var isEmpty: Bool { slots.isEmpty }

  /// True when a ping of the key takes no further room.
  func has(_ key: Key) -> Bool { slots[key] != nil }

  /// Adds a ping, for which there is room.
  mutating func put(_ ping: Ping, for key: Key, at now: ContinuousClock.Instant, in room: inout PushRoom) -> Addition {
    switch slots[key] {
    case .waiting(let known, let failures, _):
      if known.sequence < ping.sequence { set(.waiting(ping, failureCount: failures, since: now), for: key) }
      return .merged
    case .underWay(let next):
      guard let next, next.ping.sequence >= ping.sequence else {
        set(.underWay(next: (ping, now)), for: key)
        return next == nil ? .added : .merged
      }
      return .merged
    case .resting:
      // The end of the rest is in the queue already.
      set(.waiting(ping, failureCount: 0, since: now), for: key)
      return .added
    case nil:
      set(.waiting(ping, failureCount: 0, since: now), for: key)
      room.enter(key.device.user, name)
      ready.append(key, of: key.device.user)
      return .added
    }
  }

  private mutating func set(_ slot: Slot?, for key: Key) {
    if slots[key]?.isUnderWay == false { idleCount -= 1 }
    if slot?.isUnderWay == false { idleCount += 1 }
    slots[key] = slot
  }

  /// Gives room back: that of the push whose turn is next, or of the one whose time comes next.
  /// - Parameter user: whose turn it is to be; nil: anybody.
  /// - Returns: true when a push that waited is lost.
  mutating func makeRoom(of user: String?, in room: inout PushRoom) -> Bool {
    guard let key = takeIdle(of: user) else { return false }
    defer { remove(key, &room) }
    return slots[key]?.isWaiting == true
  }

  private mutating func takeIdle(of user: String?) -> Key? {
    guard let user else { return ready.popFirst()?.element ?? due.takeFirst()?.element }
    return ready.popFirst { $0 == user }?.element ?? due.takeFirst { $0.device.user == user }?.element
  }

  private mutating func remove(_ key: Key, _ room: inout PushRoom) {
    set(nil, for: key)
    room.leave(key.device.user, name)
  }

  /// Pushes that may be under way. A service that failed is tried with one, and gets the others when that one arrives.
  private var width: Int { failureCount == 0 ? limits.underWay : 1 }

  /// The pushes whose time has come, as many as may be under way.
  /// - Parameter isHeldUp: called with each user who has to wait for the end of another push of theirs.
  /// - Returns: also the number of pushes that are given up, because they waited for too long.
  mutating func takeDue(
    at now: ContinuousClock.Instant, in room: inout PushRoom, isHeldUp: (_ user: String) -> Void
  ) -> (pushes: [Due], givenUpCount: Int) {
    while let key = due.takeFirst(dueAt: now) {
      switch slots[key] {
      case .waiting: ready.append(key, of: key.device.user)
      case .resting: remove(key, &room)
      case .underWay, nil: break
      }
    }
    if let pausedUntil, now < pausedUntil { return ([], 0) }
    pausedUntil = nil
    var (taken, givenUpCount): ([Due], Int) = ([], 0)
    while underWayCount < width, room.hasWay {
      let next = ready.popFirst { user in
        if room.hasWay(for: user) { return true }
        isHeldUp(user)
        return false
      }
      guard let key = next?.element else { break }
      guard case .waiting(let ping, let failures, let since) = slots[key] else { continue }
      guard now - since < limits.longestWait else {
        remove(key, &room)
        givenUpCount += 1
        continue
      }
      set(.underWay(next: nil), for: key)
      underWayCount += 1
      room.begin(key.device.user, name)
      taken.append(Due(key: key, ping: ping, failureCount: failures, since: since, pauseCount: pauseCount))
    }
    return (taken, givenUpCount)
  }

  /// The time of the next `takeDue` that can do something, unless the end of a push makes way before; nil for none.
  var nextTime: ContinuousClock.Instant? {
    guard !ready.isEmpty, let pausedUntil else { return due.nextTime }
    return due.nextTime.map { min($0, pausedUntil) } ?? pausedUntil
  }

  /// Ends an attempt that the service answered for good.
  mutating func finish(_ push: Due, at now: ContinuousClock.Instant, in room: inout PushRoom) {
    failureCount = 0
    failedUsers = []
    rest(push, until: now + limits.interval, &room)
  }

  private mutating func rest(_ push: Due, until time: ContinuousClock.Instant, _ room: inout PushRoom) {
    end(push, &room)
    guard case .underWay(let next) = slots[push.key] else { return }
    set(next.map { .waiting($0.ping, failureCount: 0, since: $0.since) } ?? .resting, for: push.key)
    due.add(push.key, at: time)
  }

  private mutating func end(_ push: Due, _ room: inout PushRoom) {
    underWayCount -= 1
    room.end(push.key.device.user, name)
  }

  /// Ends an attempt that failed, and pauses the device or the service. Attempts that were under way together pause the
  /// service once.
  /// - Parameter pause: the time that the service asked for; only an hour of it counts. One that an address asked for
  ///   counts for its push alone.
  mutating func retry(
    _ push: Due, after pause: Duration?, of failure: Failure, at now: ContinuousClock.Instant,
    in room: inout PushRoom
  ) -> Retry {
    let isOfService = isOfService(failure, of: push.key.device.user)
    let isNews = isOfService && push.pauseCount == pauseCount
    if isNews {
      failureCount += 1
      pauseCount += 1
    }
    let doublings = isOfService ? failureCount - 1 : push.failureCount
    let doubled = min(limits.firstPause * (1 << min(max(doublings, 0), 20)), limits.longestPause)
    let length = max(min(pause ?? .zero, limits.longestAskedPause), doubled)
    let lineLength = failure == .address ? doubled : length
    let until = now + length
    if isNews || (failure == .service && pause != nil) {
      pausedUntil = max(pausedUntil ?? now, now + lineLength)
    }
    let servicePause = isNews ? lineLength : nil
    guard push.failureCount + 1 < limits.attempts, now - push.since < limits.longestWait else {
      rest(push, until: until, &room)
      return Retry(isKept: false, servicePause: servicePause)
    }
    end(push, &room)
    guard case .underWay(let next) = slots[push.key] else { return Retry(isKept: true, servicePause: servicePause) }
    set(
      .waiting(next?.ping ?? push.ping, failureCount: push.failureCount + 1, since: next?.since ?? push.since),
      for: push.key)
    due.add(push.key, at: until)
    return Retry(isKept: true, servicePause: servicePause)
  }

  /// True for a failure of the whole service. Addresses that fail tell of it once they are of several users.
  private mutating func isOfService(_ failure: Failure, of user: String) -> Bool {
    guard failure == .address else { return failure == .service }
    if failedUsers.count < limits.failedUsers { failedUsers.insert(user) }
    return failedUsers.count >= limits.failedUsers
  }
}
