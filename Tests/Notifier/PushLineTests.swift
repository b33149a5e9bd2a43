import Records
import ServiceBus
import Testing

@testable import Notifier

/// The lines of one place.
private struct OneLine {
  private static let name = PushLines.Name(service: "s", place: "")
  private var lines: PushLines

  init(_ limits: PushLimits = PushLimits()) { lines = PushLines(limits) }

  var isEmpty: Bool { lines.count == 0 }
  var nextTime: ContinuousClock.Instant? { lines.nextTime }
  var givenUpCount: Int { lines.givenUpCount }

  mutating func put(_ ping: Ping, for device: PushLine.Device, at now: ContinuousClock.Instant = .now)
    -> PushLine.Addition
  {
    lines.put(ping, for: device, in: Self.name, at: now)
  }

  mutating func takeDue(at now: ContinuousClock.Instant) -> [PushLine.Due] { lines.takeDue(at: now).map(\.push) }

  mutating func finish(_ push: PushLine.Due, at now: ContinuousClock.Instant) {
    lines.finish(push, in: Self.name, at: now)
  }

  mutating func retry(
    _ push: PushLine.Due, after pause: Duration?, of failure: PushLine.Failure, at now: ContinuousClock.Instant
  ) -> PushLine.Retry {
    lines.retry(push, in: Self.name, after: pause, of: failure, at: now)
  }
}

@Suite struct PushLineTests {
  private let start = ContinuousClock.now

  private func ping(_ zone: String = "Z", _ sequence: Int64 = 1) throws -> Ping {
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: "ann"),
      zoneName: zone, sequence: sequence, syncToken: "t\(sequence)", originStore: nil, audience: ["ann"])
    return Ping(change, as: .private, notificationID: "n")
  }

  private func device(_ number: Int64) -> PushLine.Device {
    PushLine.Device(registration: number, user: "user \(number)")
  }

  private func at(_ seconds: Double) -> ContinuousClock.Instant { start + .milliseconds(Int(seconds * 1000)) }

  @Test func `a first push leaves at once, and later ones of its zone together after the interval`() throws {
    var line = OneLine()
    #expect(line.put(try ping("Z", 1), for: device(1)) == .added)
    let first = try #require(line.takeDue(at: at(0)).first)
    #expect(first.ping.sequence == 1)
    #expect(line.put(try ping("Z", 2), for: device(1)) == .added)
    line.finish(first, at: at(0.2))
    #expect(line.put(try ping("Z", 3), for: device(1)) == .merged)
    // Another zone, and another device, don't wait.
    #expect(line.put(try ping("Y", 1), for: device(1)) == .added)
    #expect(line.put(try ping("Z", 3), for: device(2)) == .added)
    #expect(line.takeDue(at: at(0.3)).map(\.key.device.registration) == [1, 2])
    #expect(line.takeDue(at: at(2.1)).isEmpty && line.nextTime == at(2.2))
    let second = line.takeDue(at: at(2.2))
    #expect(second.map(\.ping.sequence) == [3])
  }

  @Test func `an earlier ping does not take the place of a later one`() throws {
    var line = OneLine()
    _ = line.put(try ping("Z", 5), for: device(1))
    #expect(line.put(try ping("Z", 4), for: device(1)) == .merged)
    let sent = try #require(line.takeDue(at: at(0)).first)
    #expect(sent.ping.sequence == 5)
    _ = line.put(try ping("Z", 7), for: device(1))
    _ = line.put(try ping("Z", 6), for: device(1))
    line.finish(sent, at: at(1))
    #expect(line.takeDue(at: at(3)).map(\.ping.sequence) == [7])
  }

  @Test func `a service that is away pauses all of its pushes, longer each time, and loses none of them`() throws {
    var line = OneLine()
    _ = line.put(try ping(), for: device(1))
    var now = at(0)
    for pause in [1, 2, 4, 8] {
      // One attempt at a time, so that the failures are in a row.
      let push = try #require(line.takeDue(at: now).first)
      let retry = line.retry(push, after: nil, of: .service, at: now)
      #expect(retry == PushLine.Retry(isKept: true, servicePause: .seconds(pause)))
      if pause == 8 { _ = line.put(try ping("Z", 2), for: device(2)) }
      #expect(line.takeDue(at: now + .seconds(pause) - .milliseconds(1)).isEmpty)
      now += .seconds(pause)
    }
    // One push tries the service, and the others follow when it has arrived.
    let trial = line.takeDue(at: now)
    #expect(trial.map(\.key.device.registration) == [2])
    #expect(line.takeDue(at: now).isEmpty)
    line.finish(try #require(trial.first), at: now)
    #expect(line.takeDue(at: now).map(\.key.device.registration) == [1])
  }

  @Test func `pushes that fail together pause their service once`() throws {
    var line = OneLine()
    for number in 1...100 { _ = line.put(try ping(), for: device(Int64(number))) }
    let failing = line.takeDue(at: at(0))
    #expect(failing.count == 100)
    let retries = failing.map { line.retry($0, after: nil, of: .service, at: at(0.5)) }
    #expect(retries.map(\.servicePause) == [.seconds(1)] + Array(repeating: nil, count: 99))
    #expect(line.takeDue(at: at(1.4)).isEmpty && line.nextTime == at(1.5))
    let trial = line.takeDue(at: at(1.5))
    #expect(trial.count == 1)
    line.finish(try #require(trial.first), at: at(1.6))
    #expect(line.takeDue(at: at(1.6)).count == 99)
  }

  @Test func `a service's own pause counts when it is longer, and a push is given up after its last attempt`() throws {
    var limits = PushLimits()
    limits.attempts = 2
    var line = OneLine(limits)
    _ = line.put(try ping(), for: device(1))
    let first = try #require(line.takeDue(at: at(0)).first)
    let retry = line.retry(first, after: .seconds(600), of: .service, at: at(0))
    #expect(retry.isKept)
    #expect(line.takeDue(at: at(599)).isEmpty)
    let last = try #require(line.takeDue(at: at(600)).first)
    let lastRetry = line.retry(last, after: nil, of: .service, at: at(600))
    #expect(!lastRetry.isKept)
    #expect(line.takeDue(at: at(10_000)).isEmpty && line.isEmpty)
  }

  @Test(arguments: [1, 50])
  func `after an hour in which the vendor is down each device gets its latest ping, once`(count: Int64) throws {
    var line = OneLine()
    for number in 1...count { _ = line.put(try ping("Z", 1), for: device(number)) }
    var (now, attempts) = (at(0), 0)
    while now < at(3600) {
      for push in line.takeDue(at: now) {
        attempts += 1
        let retry = line.retry(push, after: nil, of: .service, at: now)
        #expect(retry.isKept, "attempt \(attempts)")
      }
      for number in 1...count { #expect(line.put(try ping("Z", 2), for: device(number)) == .merged) }
      #expect(line.takeDue(at: now).isEmpty)
      now = try #require(line.nextTime)
    }
    #expect(attempts <= Int(count) + 25, "one push at a time tries a service that is away")
    var delivered: [Int64: [Int64]] = [:]
    while delivered.count < count, now < at(8000) {
      let due = line.takeDue(at: now)
      for push in due {
        delivered[push.key.device.registration, default: []].append(push.ping.sequence)
        line.finish(push, at: now)
      }
      if due.isEmpty { now = try #require(line.nextTime) }
    }
    #expect(delivered.count == count && delivered.values.allSatisfy { $0 == [2] })
  }

  @Test func `a device that gets too many pushes waits, and others don't`() throws {
    var line = OneLine()
    _ = line.put(try ping(), for: device(1))
    let first = try #require(line.takeDue(at: at(0)).first)
    let retry = line.retry(first, after: .seconds(9), of: .device, at: at(0))
    #expect(retry == PushLine.Retry(isKept: true, servicePause: nil))
    _ = line.put(try ping(), for: device(2))
    #expect(line.takeDue(at: at(1)).map(\.key.device.registration) == [2])
    #expect(line.takeDue(at: at(9)).map(\.key.device.registration) == [1])
  }

  @Test func `a service may ask for a pause of an hour, and no longer one`() throws {
    var line = OneLine()
    _ = line.put(try ping(), for: device(1))
    let push = try #require(line.takeDue(at: at(0)).first)
    let retry = line.retry(push, after: .seconds(86_400), of: .service, at: at(0))
    #expect(retry == PushLine.Retry(isKept: true, servicePause: .seconds(3600)))
    #expect(line.takeDue(at: at(3599)).isEmpty && line.takeDue(at: at(3600)).count == 1)
  }

  @Test func `a push that waited for too long is given up, however seldom its turn was`() throws {
    var line = OneLine()
    for number in 1...100 { _ = line.put(try ping(), for: device(Int64(number))) }
    for push in line.takeDue(at: at(0)) { _ = line.retry(push, after: nil, of: .service, at: at(0)) }
    // The service stays away, and one push at a time tries it.
    var now = at(0)
    while now < at(7100) {
      for push in line.takeDue(at: now) { _ = line.retry(push, after: nil, of: .service, at: now) }
      if line.takeDue(at: now).isEmpty { now = try #require(line.nextTime) }
    }
    _ = line.put(try ping("Late"), for: device(1), at: now)
    let due = line.takeDue(at: max(now, at(7201)) + .seconds(300))
    #expect(due.map(\.key.ping) == [try ping("Late").key])
    #expect(line.givenUpCount == 100)
    line.finish(try #require(due.first), at: at(7600))
    #expect(line.takeDue(at: at(7600)).isEmpty && line.takeDue(at: at(7700)).isEmpty && line.isEmpty)
  }

  @Test func `a place that is away leaves room for others: where most pushes wait, those go`() throws {
    var limits = PushLimits()
    limits.count = 4
    var lines = PushLines(limits)
    let (one, two) = (PushLines.Name(service: "s", place: "one"), PushLines.Name(service: "s", place: "two"))
    for number in 1...4 { _ = lines.put(try ping(), for: device(Int64(number)), in: one, at: start) }
    for (line, push) in lines.takeDue(at: at(0)) {
      _ = lines.retry(push, in: line, after: .seconds(600), of: .service, at: at(0))
    }
    for number in 5...6 {
      let addition = lines.put(try ping(), for: device(Int64(number)), in: two, at: start)
      #expect(addition == .displaced && lines.count == 4)
    }
    let due = lines.takeDue(at: at(1))
    #expect(due.map(\.line) == [two, two] && due.map(\.push.key.device.registration) == [5, 6])
    // One's two pushes, and two's two that are under way: one has the most that wait.
    let more = lines.put(try ping(), for: device(7), in: two, at: start)
    #expect(more == .displaced && lines.count == 4)
    for (line, push) in due { lines.finish(push, in: line, at: at(1)) }
    #expect(lines.takeDue(at: at(2)).map(\.push.key.device.registration) == [7])
    #expect(lines.takeDue(at: at(600)).map(\.line) == [one])
  }

  @Test func `memory is bounded over all places: a push of the place where most wait goes`() throws {
    var limits = PushLimits()
    limits.count = 3
    var lines = PushLines(limits)
    let (one, two) = (PushLines.Name(service: "s", place: "one"), PushLines.Name(service: "s", place: "two"))
    for number in 1...5 {
      let addition = lines.put(try ping(), for: device(Int64(number)), in: one, at: start)
      #expect(addition == (number > 3 ? .displaced : .added))
    }
    #expect(lines.count == 3)
    // Many places take no more room than one, and another place has its part of it.
    let second = lines.put(try ping(), for: device(6), in: two, at: start)
    #expect(second == .displaced && lines.count == 3)
    let due = lines.takeDue(at: at(9))
    #expect(due.map(\.push.key.device.registration) == [4, 5, 6])
    // Nothing waits that could make room.
    let refused = lines.put(try ping(), for: device(7), in: two, at: start)
    #expect(refused == .displaced && lines.count == 3)
    for (line, push) in due { lines.finish(push, in: line, at: at(9)) }
    #expect(lines.takeDue(at: at(11)).isEmpty && lines.count == 0)
    let added = lines.put(try ping(), for: device(6), in: two, at: start)
    #expect(added == .added)
    #expect(lines.takeDue(at: at(11)).map(\.line) == [two])
  }

  @Test func `what rests after a push makes room, and no push is lost for it`() throws {
    var limits = PushLimits()
    limits.count = 3
    var lines = PushLines(limits)
    let (one, two) = (PushLines.Name(service: "s", place: "one"), PushLines.Name(service: "s", place: "two"))
    for number in 1...3 { _ = lines.put(try ping(), for: device(Int64(number)), in: one, at: start) }
    for (line, push) in lines.takeDue(at: at(0)) { lines.finish(push, in: line, at: at(0)) }
    #expect(lines.count == 3)
    let added = lines.put(try ping(), for: device(4), in: two, at: at(1))
    #expect(added == .added && lines.count == 3)
    #expect(lines.takeDue(at: at(1)).map(\.push.key.device.registration) == [4])
  }

  @Test func `a user whose places are slow delays no other user`() throws {
    var limits = PushLimits()
    limits.underWayOfUser = 2
    limits.underWayTogether = 3
    var lines = PushLines(limits)
    for number in 1...4 {
      let slow = PushLine.Device(registration: Int64(number), user: "slow")
      _ = lines.put(try ping(), for: slow, in: PushLines.Name(service: "s", place: "\(number)"), at: start)
    }
    let first = lines.takeDue(at: at(0))
    #expect(first.count == 2)
    _ = lines.put(try ping(), for: device(9), in: PushLines.Name(service: "s", place: "other"), at: start)
    let other = lines.takeDue(at: at(0))
    #expect(other.map(\.push.key.device.registration) == [9])
    // The slow user's others have their turn when one of them ends.
    #expect(lines.takeDue(at: at(1)).isEmpty)
    lines.finish(first[0].push, in: first[0].line, at: at(1))
    lines.finish(other[0].push, in: other[0].line, at: at(1))
    #expect(lines.takeDue(at: at(2)).count == 1)
  }

  @Test func `at most so many pushes are under way, and a line that has rested is empty`() throws {
    var limits = PushLimits()
    limits.underWay = 2
    var line = OneLine(limits)
    for number in 1...3 { _ = line.put(try ping(), for: device(Int64(number))) }
    let first = line.takeDue(at: at(0))
    #expect(first.count == 2 && line.takeDue(at: at(0)).isEmpty && line.nextTime == nil)
    for push in first { line.finish(push, at: at(1)) }
    let last = line.takeDue(at: at(1))
    #expect(last.count == 1)
    line.finish(last[0], at: at(1))
    #expect(line.takeDue(at: at(3)).isEmpty && line.isEmpty)
  }

  @Test func `a user takes a part of the room only, and none of what others' pushes have`() throws {
    var limits = PushLimits()
    limits.count = 6
    limits.countOfUser = 4
    var lines = PushLines(limits)
    let name = PushLines.Name(service: "s", place: "")
    func put(_ user: String, _ number: Int64) throws -> PushLine.Addition {
      lines.put(try ping(), for: PushLine.Device(registration: number, user: user), in: name, at: start)
    }
    for number in 1...6 {
      let addition = try put("greedy", Int64(number))
      #expect(addition == (number > 4 ? .displaced : .added))
    }
    let others = [try put("modest", 7), try put("modest", 8)]
    #expect(others == [.added, .added])
    #expect(Set(lines.takeDue(at: at(0)).map(\.push.key.device.registration)) == [1, 2, 3, 4, 7, 8])
  }

  @Test func `pushes of all places leave when others end, however few may be under way`() throws {
    var limits = PushLimits()
    limits.underWayTogether = 2
    var lines = PushLines(limits)
    for number in 1...20 {
      let name = PushLines.Name(service: "s", place: "\(number % 5)")
      _ = lines.put(try ping(), for: device(Int64(number)), in: name, at: start)
    }
    var sent: Set<Int64> = []
    var due = lines.takeDue(at: at(0))
    while !due.isEmpty {
      #expect(due.count <= 2)
      for (name, push) in due {
        sent.insert(push.key.device.registration)
        lines.finish(push, in: name, at: at(0))
      }
      due = lines.takeDue(at: at(0))
    }
    #expect(sent == Set(1...20))
  }

  /// Those of a service, and those that are always reached.
  private static let limits: [PushLimits] = {
    var tight = PushLimits()
    (tight.underWay, tight.underWayTogether, tight.underWayOfUser) = (3, 4, 2)
    return [PushLimits(), tight]
  }()

  @Test(arguments: limits)
  func `whatever happens, a device gets the latest ping of each zone, never two within the interval, and limits hold`(
    limits: PushLimits
  ) throws {
    var lines = PushLines(limits)
    var random: UInt64 = 11
    func draw(_ bound: Int) -> Int {
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((random >> 33) % UInt64(bound))
    }
    var latest: [PushLine.Key: Int64] = [:]
    var delivered: [PushLine.Key: (sequence: Int64, at: ContinuousClock.Instant)] = [:]
    var underWay: [(line: PushLines.Name, push: PushLine.Due)] = []
    var now = start
    func end(_ name: PushLines.Name, _ push: PushLine.Due, _ isDelivered: Bool) {
      guard isDelivered else {
        // A line gives up after eight failures in a row, which three of four answers don't make.
        if !lines.retry(push, in: name, after: nil, of: .service, at: now).isKept { latest[push.key] = nil }
        return
      }
      if let last = delivered[push.key] { #expect(now - last.at >= .seconds(2)) }
      delivered[push.key] = (push.ping.sequence, now)
      lines.finish(push, in: name, at: now)
    }
    func take() {
      underWay += lines.takeDue(at: now)
      let users = Dictionary(grouping: underWay, by: \.push.key.device.user)
      #expect(underWay.count <= limits.underWayTogether)
      #expect(users.values.allSatisfy { $0.count <= limits.underWayOfUser })
      #expect(Dictionary(grouping: underWay, by: \.line).values.allSatisfy { $0.count <= limits.underWay })
    }
    for step in 1...20_000 {
      let ping = try ping("Z\(draw(4))", Int64(step))
      let number = draw(12)
      // A device is always at the same place.
      let device = PushLine.Device(registration: Int64(number), user: "user \(number / 3)")
      _ = lines.put(ping, for: device, in: PushLines.Name(service: "s", place: "\(number % 3)"), at: now)
      latest[PushLine.Key(device: device, ping: ping.key)] = Int64(step)
      now += .milliseconds(draw(40))
      take()
      if !underWay.isEmpty, draw(2) == 0 {
        let (name, push) = underWay.remove(at: draw(underWay.count))
        end(name, push, draw(4) > 0)
      }
    }
    while lines.count > 0 {
      for (name, push) in underWay { end(name, push, true) }
      underWay = []
      take()
      if underWay.isEmpty, lines.count > 0 { now = max(now, try #require(lines.nextTime)) }
    }
    #expect(delivered.mapValues(\.sequence) == latest)
  }
}
