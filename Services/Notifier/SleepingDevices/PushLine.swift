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
  }

  private enum Slot: Sendable {
    case waiting(Ping, failureCount: Int)
    /// - Parameter next: a later ping, which came during the attempt.
    case underWay(next: Ping?)
    /// Sent a moment ago.
    case resting
  }

  struct Limits: Sendable {
    /// The least time between two pushes of a key to a device.
    var interval = Duration.seconds(2)
    /// Pushes that wait, are under way or rest, to all places together.
    var count = 100_000
    /// Pushes under way at a time: to one place, to all, and of one user.
    var underWay = 256
    var underWayTogether = 1024
    var underWayOfUser = 64
    /// Attempts of one push.
    var attempts = 8
    /// Time after which a push that has to wait for others is looked at again.
    var turn = Duration.milliseconds(50)
    var firstPause = Duration.seconds(1)
    var longestPause = Duration.seconds(300)
  }

  enum Addition: Hashable, Sendable {
    case added
    case merged
    /// A push is dropped: the one of this place that has waited longest, or without one the new push itself.
    case displaced
  }

  /// The reach of a failure.
  enum Failure: Hashable, Sendable {
    /// The device gets too many pushes.
    case device
    /// The whole service is away or busy.
    case service
  }

  private let limits: Limits
  private var slots: [Key: Slot] = [:]
  private var due = DueQueue<ContinuousClock.Instant, Key>()
  private var underWayCount = 0
  private var pausedUntil: ContinuousClock.Instant?
  /// Attempts that failed in a row.
  private var failureCount = 0

  init(_ limits: Limits) { self.limits = limits }

  var isEmpty: Bool { slots.isEmpty }
  /// Pushes that wait, are under way or rest.
  var count: Int { slots.count }

  /// - Parameter isFull: true when there is no room for a further push.
  mutating func put(_ ping: Ping, for device: Device, at now: ContinuousClock.Instant, isFull: Bool = false)
    -> Addition
  {
    let key = Key(device: device, ping: ping.key)
    switch slots[key] {
    case .waiting(let known, let failures):
      if known.sequence < ping.sequence { slots[key] = .waiting(ping, failureCount: failures) }
      return .merged
    case .underWay(let next):
      guard let next, next.sequence >= ping.sequence else {
        slots[key] = .underWay(next: ping)
        return next == nil ? .added : .merged
      }
      return .merged
    case .resting:
      // The end of the rest is in the queue already.
      slots[key] = .waiting(ping, failureCount: 0)
      return .added
    case nil:
      if isFull, !dropOldest() { return .displaced }
      slots[key] = .waiting(ping, failureCount: 0)
      due.add(key, at: now)
      return isFull ? .displaced : .added
    }
  }

  /// - Returns: false when nothing of this place waits.
  private mutating func dropOldest() -> Bool {
    guard let (_, key) = due.takeFirst() else { return false }
    slots[key] = nil
    return true
  }

  /// The pushes whose time has come, as many as may be under way.
  /// - Parameter mayStart: false for a device that has to wait for others of its user.
  mutating func takeDue(at now: ContinuousClock.Instant, where mayStart: (Device) -> Bool = { _ in true })
    -> [Due]
  {
    if let pausedUntil, now < pausedUntil { return [] }
    pausedUntil = nil
    var taken: [Due] = []
    while underWayCount < limits.underWay, let key = due.takeFirst(dueAt: now) {
      switch slots[key] {
      case .waiting(let ping, let failures):
        guard mayStart(key.device) else {
          due.add(key, at: now + limits.turn)
          continue
        }
        slots[key] = .underWay(next: nil)
        underWayCount += 1
        taken.append(Due(key: key, ping: ping, failureCount: failures))
      case .resting: slots[key] = nil
      case .underWay, nil: break
      }
    }
    return taken
  }

  /// The time of the next `takeDue` that can take something; nil while none can.
  var nextTime: ContinuousClock.Instant? {
    guard underWayCount < limits.underWay, let next = due.nextTime else { return nil }
    return pausedUntil.map { max($0, next) } ?? next
  }

  /// Ends an attempt that the service answered for good.
  mutating func finish(_ push: Due, at now: ContinuousClock.Instant) {
    failureCount = 0
    rest(push, until: now + limits.interval)
  }

  private mutating func rest(_ push: Due, until time: ContinuousClock.Instant) {
    underWayCount -= 1
    guard case .underWay(let next) = slots[push.key] else { return }
    slots[push.key] = next.map { .waiting($0, failureCount: 0) } ?? .resting
    due.add(push.key, at: time)
  }

  /// Ends an attempt that failed, and pauses the device or the service.
  /// - Parameter pause: the time that the service asked for.
  /// - Returns: false when the push is given up.
  mutating func retry(_ push: Due, after pause: Duration?, of failure: Failure, at now: ContinuousClock.Instant) -> Bool
  {
    if failure == .service { failureCount += 1 }
    let doublings = failure == .service ? failureCount - 1 : push.failureCount
    let doubled = limits.firstPause * (1 << min(doublings, 20))
    let until = now + max(pause ?? .zero, min(doubled, limits.longestPause))
    if failure == .service { pausedUntil = max(pausedUntil ?? until, until) }
    guard push.failureCount + 1 < limits.attempts else {
      rest(push, until: until)
      return false
    }
    underWayCount -= 1
    guard case .underWay(let next) = slots[push.key] else { return true }
    slots[push.key] = .waiting(next ?? push.ping, failureCount: push.failureCount + 1)
    due.add(push.key, at: until)
    return true
  }
}
