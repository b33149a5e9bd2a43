// The lines of all places where devices are woken, and the room that they share.

/// A pure value. A place that is away delays no other, and a user whose places are slow delays no other user.
struct PushLines: Sendable {
  struct Name: Hashable, Sendable {
    /// `PushServiceEntry.name`
    let service: String
    /// The host that a client has named, or a part of the vendor's.
    let place: String
  }

  private let limits: PushLine.Limits
  private var lines: [Name: PushLine] = [:]
  /// Pushes under way, by user.
  private var underWay: [String: Int] = [:]
  private var underWayTotal = 0
  /// Pushes that wait, are under way or rest.
  private(set) var count = 0

  init(_ limits: PushLine.Limits) { self.limits = limits }

  private mutating func change<Result>(_ name: Name, _ body: (inout PushLine) -> Result) -> Result {
    let before = lines[name]?.count ?? 0
    let result = body(&lines[name, default: PushLine(limits)])
    let after = lines[name]?.count ?? 0
    count += after - before
    if after == 0 { lines[name] = nil }
    return result
  }

  mutating func put(_ ping: Ping, for device: PushLine.Device, in name: Name, at now: ContinuousClock.Instant)
    -> PushLine.Addition
  {
    let isFull = count >= limits.count
    return change(name) { $0.put(ping, for: device, at: now, isFull: isFull) }
  }

  /// The pushes whose time has come, as many as may be under way.
  mutating func takeDue(at now: ContinuousClock.Instant) -> [(line: Name, push: PushLine.Due)] {
    var taken: [(line: Name, push: PushLine.Due)] = []
    let limits = limits
    var (underWay, total) = (underWay, underWayTotal)
    // An array, because the keys' view would keep a copy of all lines.
    for name in Array(lines.keys) {
      let due = change(name) { line in
        line.takeDue(at: now) { device in
          guard total < limits.underWayTogether, underWay[device.user, default: 0] < limits.underWayOfUser else {
            return false
          }
          underWay[device.user, default: 0] += 1
          total += 1
          return true
        }
      }
      taken += due.map { (name, $0) }
    }
    (self.underWay, underWayTotal) = (underWay, total)
    return taken
  }

  /// The time of the next `takeDue` that can take something; nil while none can.
  var nextTime: ContinuousClock.Instant? { lines.values.lazy.compactMap(\.nextTime).min() }

  /// Ends an attempt that the service answered for good.
  mutating func finish(_ push: PushLine.Due, in name: Name, at now: ContinuousClock.Instant) {
    end(push)
    change(name) { $0.finish(push, at: now) }
  }

  /// Ends an attempt that failed (`PushLine.retry`).
  mutating func retry(
    _ push: PushLine.Due, in name: Name, after pause: Duration?, of failure: PushLine.Failure,
    at now: ContinuousClock.Instant
  ) -> Bool {
    end(push)
    return change(name) { $0.retry(push, after: pause, of: failure, at: now) }
  }

  private mutating func end(_ push: PushLine.Due) {
    let user = push.key.device.user
    let left = underWay[user, default: 1] - 1
    underWay[user] = left > 0 ? left : nil
    underWayTotal -= 1
  }
}
