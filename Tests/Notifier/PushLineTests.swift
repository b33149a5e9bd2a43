import Records
import ServiceBus
import Testing

@testable import Notifier

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
    var line = PushLine(PushLine.Limits())
    #expect(line.put(try ping("Z", 1), for: device(1), at: at(0)) == .added)
    let first = try #require(line.takeDue(at: at(0)).first)
    #expect(first.ping.sequence == 1)
    #expect(line.put(try ping("Z", 2), for: device(1), at: at(0.1)) == .added)
    line.finish(first, at: at(0.2))
    #expect(line.put(try ping("Z", 3), for: device(1), at: at(0.3)) == .merged)
    // Another zone, and another device, don't wait.
    #expect(line.put(try ping("Y", 1), for: device(1), at: at(0.3)) == .added)
    #expect(line.put(try ping("Z", 3), for: device(2), at: at(0.3)) == .added)
    #expect(line.takeDue(at: at(0.3)).map(\.key.device.registration) == [1, 2])
    #expect(line.takeDue(at: at(2.1)).isEmpty && line.nextTime == at(2.2))
    let second = line.takeDue(at: at(2.2))
    #expect(second.map(\.ping.sequence) == [3])
  }

  @Test func `an earlier ping does not take the place of a later one`() throws {
    var line = PushLine(PushLine.Limits())
    _ = line.put(try ping("Z", 5), for: device(1), at: at(0))
    #expect(line.put(try ping("Z", 4), for: device(1), at: at(0)) == .merged)
    let sent = try #require(line.takeDue(at: at(0)).first)
    #expect(sent.ping.sequence == 5)
    _ = line.put(try ping("Z", 7), for: device(1), at: at(0))
    _ = line.put(try ping("Z", 6), for: device(1), at: at(0))
    line.finish(sent, at: at(1))
    #expect(line.takeDue(at: at(3)).map(\.ping.sequence) == [7])
  }

  @Test func `a service that is away pauses all of its pushes, longer each time, and loses none of them`() throws {
    var line = PushLine(PushLine.Limits())
    _ = line.put(try ping(), for: device(1), at: at(0))
    var now = at(0)
    for pause in [1, 2, 4, 8] {
      // One attempt at a time, so that the failures are in a row.
      let push = try #require(line.takeDue(at: now).first)
      let isKept = line.retry(push, after: nil, of: .service, at: now)
      #expect(isKept)
      if pause == 8 { _ = line.put(try ping("Z", 2), for: device(2), at: now) }
      #expect(line.takeDue(at: now + .seconds(pause) - .milliseconds(1)).isEmpty)
      now += .seconds(pause)
    }
    #expect(Set(line.takeDue(at: now).map(\.key.device.registration)) == [1, 2])
  }

  @Test func `a service's own pause counts when it is longer, and a push is given up after its last attempt`() throws {
    var limits = PushLine.Limits()
    limits.attempts = 2
    var line = PushLine(limits)
    _ = line.put(try ping(), for: device(1), at: at(0))
    let first = try #require(line.takeDue(at: at(0)).first)
    let isKept = line.retry(first, after: .seconds(600), of: .service, at: at(0))
    #expect(isKept)
    #expect(line.takeDue(at: at(599)).isEmpty)
    let last = try #require(line.takeDue(at: at(600)).first)
    let isKeptOn = line.retry(last, after: nil, of: .service, at: at(600))
    #expect(!isKeptOn)
    #expect(line.takeDue(at: at(10_000)).isEmpty && line.isEmpty)
  }

  @Test func `a device that gets too many pushes waits, and others don't`() throws {
    var line = PushLine(PushLine.Limits())
    _ = line.put(try ping(), for: device(1), at: at(0))
    let first = try #require(line.takeDue(at: at(0)).first)
    let isKept = line.retry(first, after: .seconds(9), of: .device, at: at(0))
    #expect(isKept)
    _ = line.put(try ping(), for: device(2), at: at(1))
    #expect(line.takeDue(at: at(1)).map(\.key.device.registration) == [2])
    #expect(line.takeDue(at: at(9)).map(\.key.device.registration) == [1])
  }

  @Test func `memory is bounded over all places: the push of its place that waited longest goes`() throws {
    var limits = PushLine.Limits()
    limits.count = 3
    var lines = PushLines(limits)
    let (one, two) = (PushLines.Name(service: "s", place: "one"), PushLines.Name(service: "s", place: "two"))
    for number in 1...5 {
      let addition = lines.put(try ping(), for: device(Int64(number)), in: one, at: at(Double(number)))
      #expect(addition == (number > 3 ? .displaced : .added))
    }
    #expect(lines.count == 3)
    // Another place has nothing to give up, so its push goes itself: many places take no more room than one.
    let refused = lines.put(try ping(), for: device(6), in: two, at: at(9))
    #expect(refused == .displaced && lines.count == 3)
    let due = lines.takeDue(at: at(9))
    #expect(due.map(\.push.key.device.registration) == [3, 4, 5])
    for (line, push) in due { lines.finish(push, in: line, at: at(9)) }
    #expect(lines.takeDue(at: at(11)).isEmpty && lines.count == 0)
    let added = lines.put(try ping(), for: device(6), in: two, at: at(11))
    #expect(added == .added)
    #expect(lines.takeDue(at: at(11)).map(\.line) == [two])
  }

  @Test func `a user whose places are slow delays no other user`() throws {
    var limits = PushLine.Limits()
    limits.underWayOfUser = 2
    limits.underWayTogether = 3
    var lines = PushLines(limits)
    for number in 1...4 {
      let slow = PushLine.Device(registration: Int64(number), user: "slow")
      _ = lines.put(try ping(), for: slow, in: PushLines.Name(service: "s", place: "\(number)"), at: at(0))
    }
    let first = lines.takeDue(at: at(0))
    #expect(first.count == 2)
    _ = lines.put(try ping(), for: device(9), in: PushLines.Name(service: "s", place: "other"), at: at(0))
    let other = lines.takeDue(at: at(0))
    #expect(other.map(\.push.key.device.registration) == [9])
    // The slow user's others have their turn when one of them ends.
    #expect(lines.takeDue(at: at(1)).isEmpty)
    lines.finish(first[0].push, in: first[0].line, at: at(1))
    lines.finish(other[0].push, in: other[0].line, at: at(1))
    #expect(lines.takeDue(at: at(2)).count == 1)
  }

  @Test func `at most so many pushes are under way, and a line that has rested is empty`() throws {
    var limits = PushLine.Limits()
    limits.underWay = 2
    var line = PushLine(limits)
    for number in 1...3 { _ = line.put(try ping(), for: device(Int64(number)), at: at(0)) }
    let first = line.takeDue(at: at(0))
    #expect(first.count == 2 && line.takeDue(at: at(0)).isEmpty && line.nextTime == nil)
    for push in first { line.finish(push, at: at(1)) }
    let last = line.takeDue(at: at(1))
    #expect(last.count == 1)
    line.finish(last[0], at: at(1))
    #expect(line.takeDue(at: at(3)).isEmpty && line.isEmpty)
  }

  @Test func `whatever happens, a device gets the latest ping of each zone, and never two within the interval`() throws
  {
    var line = PushLine(PushLine.Limits())
    var random: UInt64 = 11
    func draw(_ bound: Int) -> Int {
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((random >> 33) % UInt64(bound))
    }
    var latest: [PushLine.Key: Int64] = [:]
    var delivered: [PushLine.Key: (sequence: Int64, at: ContinuousClock.Instant)] = [:]
    var underWay: [PushLine.Due] = []
    var now = start
    func end(_ push: PushLine.Due, _ isDelivered: Bool) {
      guard isDelivered else {
        // The line gives up after eight failures in a row, which three of four answers don't make.
        if !line.retry(push, after: nil, of: .service, at: now) { latest[push.key] = nil }
        return
      }
      if let last = delivered[push.key] { #expect(now - last.at >= .seconds(2)) }
      delivered[push.key] = (push.ping.sequence, now)
      line.finish(push, at: now)
    }
    for step in 1...20_000 {
      let ping = try ping("Z\(draw(4))", Int64(step))
      let device = device(Int64(draw(5)))
      _ = line.put(ping, for: device, at: now)
      latest[PushLine.Key(device: device, ping: ping.key)] = Int64(step)
      now += .milliseconds(draw(40))
      underWay += line.takeDue(at: now)
      if !underWay.isEmpty, draw(2) == 0 { end(underWay.remove(at: draw(underWay.count)), draw(4) > 0) }
    }
    while !line.isEmpty {
      for push in underWay { end(push, true) }
      now = max(now, line.nextTime ?? now)
      underWay = line.takeDue(at: now)
    }
    #expect(delivered.mapValues(\.sequence) == latest)
  }
}
