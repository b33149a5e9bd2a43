// The lines of all places where devices are woken. Only lines with something to do are looked at.

import Queues

/// A pure value. A place that is away delays no other, and a user whose places are slow delays no other user.
struct PushLines: Sendable {
  struct Name: Hashable, Sendable {
    /// `PushServiceEntry.name`
    let service: String
    /// The host that a client has named, or a part of the vendor's.
    let place: String
  }

  private let limits: PushLimits
  private var lines: [Name: PushLine] = [:]
  private var room: PushRoom
  private var crowds = PushCrowds<Name>()
  /// Lines that may have something to send, each once.
  private var listed = FIFO<Name>()
  private var names: Set<Name> = []
  /// Lines by their next times. An entry that does not equal the one in `times` is out of date.
  private var due = DueQueue<ContinuousClock.Instant, Name>()
  private var times: [Name: ContinuousClock.Instant] = [:]
  /// Lines with pushes of a user who has too many under way, by user.
  private var heldUp: [String: Set<Name>] = [:]

  init(_ limits: PushLimits) {
    self.limits = limits
    room = PushRoom(limits)
  }

  /// Pushes that wait, are under way or rest.
  var count: Int { room.count }

  /// Pushes that were given up because they waited for too long.
  private(set) var givenUpCount = 0

  mutating func put(_ ping: Ping, for device: PushLine.Device, in name: Name, at now: ContinuousClock.Instant)
    -> PushLine.Addition
  {
    let key = PushLine.Key(device: device, ping: ping.key)
    var isOneLost = false
    if lines[name]?.has(key) != true {
      guard !room.isFull(for: device.user) else { return .displaced }
      if room.isFull {
        guard let fullest, fullest.user != device.user else { return .displaced }
        isOneLost = change(fullest.line) { $0.makeRoom(of: fullest.user, in: &$1) }
      }
    }
    let addition = change(name) { $0.put(ping, for: key, at: now, in: &$1) }
    return isOneLost ? .displaced : addition
  }

  /// The place or the user with the largest part of what each may have: a place all room, a user `countOfUser`. So few
  /// users with many places take nothing from a place that many share.
  /// - Returns: of a user the fullest line; nil when no push waits or rests.
  private var fullest: (line: Name, user: String?)? {
    guard let line = crowds.fullest else { return nil }
    guard let user = room.user(above: crowds.most), let own = room.fullestLine(of: user) else { return (line, nil) }
    return (own, user)
  }

  /// The pushes whose time has come, as many as may be under way.
  mutating func takeDue(at now: ContinuousClock.Instant) -> [(line: Name, push: PushLine.Due)] {
    while let next = due.nextTime, next <= now, let (time, name) = due.takeFirst() {
      guard times[name] == time else { continue }
      times[name] = nil
      list(name)
    }
    var taken: [(line: Name, push: PushLine.Due)] = []
    // The lines behind the last one that has way are looked at when a push ends.
    while room.hasWay, let name = listed.popFirst() {
      names.remove(name)
      taken += take(name, now).map { (name, $0) }
    }
    return taken
  }

  private mutating func take(_ name: Name, _ now: ContinuousClock.Instant) -> [PushLine.Due] {
    guard lines[name] != nil else { return [] }
    var waiting: Set<String> = []
    let taken = lines[name, default: PushLine(name, limits)].takeDue(at: now, in: &room) { waiting.insert($0) }
    givenUpCount += taken.givenUpCount
    noteCrowd(of: name)
    for user in waiting { heldUp[user, default: []].insert(name) }
    if lines[name]?.isEmpty == true { lines[name] = nil }
    // The last of all ways may have gone to this line, which then has more to send.
    if !room.hasWay { list(name) }
    if let next = lines[name]?.nextTime, times[name].map({ next < $0 }) ?? true {
      times[name] = next
      due.add(name, at: next)
    }
    return taken.pushes
  }

  /// The time of the next `takeDue` that can take something, unless a push comes or ends before; nil for none. Known
  /// after `takeDue`.
  var nextTime: ContinuousClock.Instant? { due.nextTime }

  /// Ends an attempt that the service answered for good.
  mutating func finish(_ push: PushLine.Due, in name: Name, at now: ContinuousClock.Instant) {
    change(name) { $0.finish(push, at: now, in: &$1) }
    makeWay(for: push.key.device.user)
  }

  /// Ends an attempt that failed (`PushLine.retry`).
  mutating func retry(
    _ push: PushLine.Due, in name: Name, after pause: Duration?, of failure: PushLine.Failure,
    at now: ContinuousClock.Instant
  ) -> PushLine.Retry {
    defer { makeWay(for: push.key.device.user) }
    return change(name) { $0.retry(push, after: pause, of: failure, at: now, in: &$1) }
  }

  private mutating func change<Result>(_ name: Name, _ body: (inout PushLine, inout PushRoom) -> Result) -> Result {
    defer {
      noteCrowd(of: name)
      list(name)
    }
    return body(&lines[name, default: PushLine(name, limits)], &room)
  }

  private mutating func noteCrowd(of name: Name) { crowds.set(lines[name]?.idleCount ?? 0, of: name) }

  private mutating func makeWay(for user: String) {
    for name in heldUp.removeValue(forKey: user) ?? [] { list(name) }
  }

  private mutating func list(_ name: Name) {
    if names.insert(name).inserted { listed.append(name) }
  }
}
