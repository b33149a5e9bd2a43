import Records
import ServiceBus
import Testing

@testable import Notifier

/// The room that places and users share, once it is full.
@Suite struct PushRoomTests {
  private static let vendor = PushLines.Name(service: "s", place: "vendor")
  private let start = ContinuousClock.now
  private var lines: PushLines

  init() {
    var limits = PushLimits()
    limits.count = 100
    limits.countOfUser = 20
    limits.underWayOfUser = 20
    lines = PushLines(limits)
  }

  private mutating func put(_ user: String, _ number: Int64, in line: PushLines.Name) throws -> PushLine.Addition {
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: "ann"),
      zoneName: "Z", sequence: 1, syncToken: "t", originStore: nil, audience: ["ann"])
    return lines.put(
      Ping(change, as: .private, notificationID: "n"), for: PushLine.Device(registration: number, user: user), in: line,
      at: start)
  }

  /// Four users have a push each in twenty places of their own.
  private mutating func fillPlaces() throws {
    for user in 1...4 {
      for number in 1...20 {
        let line = PushLines.Name(service: "s", place: "\(user) \(number)")
        let addition = try put("greedy \(user)", Int64(user * 100 + number), in: line)
        #expect(addition == .added)
      }
    }
  }

  private mutating func shareVendor(_ numbers: ClosedRange<Int>, _ expected: PushLine.Addition) throws {
    for number in numbers {
      let addition = try put("modest \(number)", Int64(number), in: Self.vendor)
      #expect(addition == expected, "\(number)")
    }
  }

  @Test mutating func `few users with many small places take nothing from a place that many share`() throws {
    try fillPlaces()
    try shareVendor(1...20, .added)
    try shareVendor(21...40, .displaced)
    // Their own next push makes no room at the vendor either.
    let addition = try put("greedy 1", 999, in: PushLines.Name(service: "s", place: "new"))
    #expect(addition == .displaced && lines.count == 100)
    let due = lines.takeDue(at: start)
    #expect(due.count { $0.line == Self.vendor } == 40)
    for user in 1...4 { #expect((14...16).contains(due.count { $0.push.key.device.user == "greedy \(user)" })) }
  }

  @Test(arguments: [(0, 1, 1), (1024, 64, 16), (4096, 256, 64), (20_000, 1024, 64), (Int.max, 1024, 64)])
  func `the connections of pushes have a quarter of the process's files at most`(
    files: Int, together: Int, ofUser: Int
  ) {
    var limits = PushLimits()
    limits.fit(files: files)
    #expect(limits.underWayTogether == together && limits.underWayOfUser == ofUser)
    #expect(limits.connectionCount <= max(files / 4, 4))
  }

  @Test mutating func `their pushes that rest make room without a loss`() throws {
    try fillPlaces()
    for (line, push) in lines.takeDue(at: start) { lines.finish(push, in: line, at: start) }
    try shareVendor(1...40, .added)
    #expect(lines.takeDue(at: start).count == 40)
  }

  @Test mutating func `a user's pushes that rest make room, and no other user's push that is to be tried again`()
    throws
  {
    try shareVendor(1...1, .added)
    for (line, push) in lines.takeDue(at: start) {
      _ = lines.retry(push, in: line, after: nil, of: .device, at: start)
    }
    for number in 1...20 {
      let addition = try put("greedy", Int64(100 + number), in: Self.vendor)
      #expect(addition == .added)
    }
    for (line, push) in lines.takeDue(at: start) { lines.finish(push, in: line, at: start) }
    // Others fill the room, half of them elsewhere, so that the greedy user has the largest part of what each may have.
    try shareVendor(2...40, .added)
    for number in 41...80 {
      let addition = try put("modest \(number)", Int64(number), in: PushLines.Name(service: "s", place: "other"))
      #expect(addition == .added)
    }
    #expect(lines.count == 100)
    try shareVendor(81...86, .added)
    let due = lines.takeDue(at: start + .seconds(1)).map(\.push.key.device.user)
    #expect(Set(due) == Set((1...86).map { "modest \($0)" }))
  }

  @Test mutating func `a place that is away gives room to a user with a smaller part of theirs`() throws {
    try shareVendor(1...96, .added)
    for number in 1...10 {
      let addition = try put("ann", Int64(200 + number), in: PushLines.Name(service: "s", place: "ann"))
      #expect(addition == (number > 4 ? .displaced : .added))
    }
    let due = lines.takeDue(at: start)
    #expect(due.count { $0.push.key.device.user == "ann" } == 10)
    #expect(due.count == 100)
  }

  @Test mutating func `sixteen users whose places are slow leave ways to others, and get them back`() throws {
    lines = PushLines(PushLimits())
    for user in 1...16 {
      for number in 1...80 {
        let addition = try put(
          "slow \(user)", Int64(user * 100 + number), in: PushLines.Name(service: "s", place: "\(user) \(number % 8)"))
        #expect(addition == .added)
      }
    }
    // Twelve users have 64 each, and the others a few.
    let slow = lines.takeDue(at: start)
    #expect(slow.count == 12 * 64 + 4 * 4)
    for user in 1...60 {
      for number in 1...3 {
        let addition = try put("modest \(user)", Int64(10_000 + user * 10 + number), in: Self.vendor)
        #expect(addition == .added)
      }
    }
    let others = lines.takeDue(at: start)
    #expect(others.count == 180 && others.allSatisfy { $0.line == Self.vendor })
    for (line, push) in slow where (1...6).contains(push.key.device.registration / 100) {
      lines.finish(push, in: line, at: start)
    }
    #expect(lines.takeDue(at: start).count == 6 * 16)
  }
}
