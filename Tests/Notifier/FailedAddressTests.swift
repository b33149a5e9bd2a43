import Records
import ServiceBus
import Testing

@testable import Notifier

/// A host whose addresses fail, which clients have named.
@Suite struct FailedAddressTests {
  private static let host = PushLines.Name(service: "s", place: "app.example")
  private let start = ContinuousClock.now
  private var lines = PushLines(PushLimits())

  private func at(_ seconds: Double) -> ContinuousClock.Instant { start + .milliseconds(Int(seconds * 1000)) }

  private mutating func put(_ user: String, _ registration: Int64 = 1, at seconds: Double = 0) throws {
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: "ann"),
      zoneName: "Z", sequence: 1, syncToken: "t", originStore: nil, audience: ["ann"])
    let addition = lines.put(
      Ping(change, as: .private, notificationID: "n"), for: PushLine.Device(registration: registration, user: user),
      in: Self.host, at: at(seconds))
    #expect(addition == .added)
  }

  private mutating func take(at seconds: Double) -> [PushLine.Due] { lines.takeDue(at: at(seconds)).map(\.push) }

  private mutating func fail(_ push: PushLine.Due, asking pause: Duration? = nil, at seconds: Double)
    -> PushLine.Retry
  {
    lines.retry(push, in: Self.host, after: pause, of: .address, at: at(seconds))
  }

  private mutating func finish(_ push: PushLine.Due, at seconds: Double) {
    lines.finish(push, in: Self.host, at: at(seconds))
  }

  @Test mutating func `a user's addresses that fail delay no other push to the host, whatever pause they ask for`()
    throws
  {
    for number in 1...5 { try put("ann", Int64(number)) }
    let failing = take(at: 0)
    #expect(failing.count == 5)
    for push in failing {
      let retry = fail(push, asking: .seconds(3600), at: 0)
      #expect(retry == PushLine.Retry(isKept: true, servicePause: nil))
    }
    try put("bob", at: 1)
    let others = take(at: 1)
    #expect(others.map(\.key.device.user) == ["bob"])
    finish(try #require(others.first), at: 1)
    #expect(take(at: 3599).isEmpty)
    #expect(take(at: 3600).map(\.key.device.user) == Array(repeating: "ann", count: 5))
  }

  @Test mutating func `an address that fails is tried again after pauses that double`() throws {
    try put("ann")
    var seconds = 0.0
    for pause in [1.0, 2, 4, 8] {
      let push = try #require(take(at: seconds).first)
      _ = fail(push, at: seconds)
      #expect(take(at: seconds + pause - 0.001).isEmpty)
      seconds += pause
    }
    #expect(take(at: seconds).count == 1)
  }

  @Test mutating func `addresses of three users that fail pause their host, and not by the times that they ask for`()
    throws
  {
    for user in ["ann", "bob", "cid", "dan"] { try put(user) }
    var pauses: [Duration?] = []
    for push in take(at: 0) { pauses.append(fail(push, asking: .seconds(600), at: 0).servicePause) }
    #expect(pauses == [nil, nil, .seconds(1), nil])
    for user in ["eve", "fay"] { try put(user, at: 0.5) }
    #expect(take(at: 0.9).isEmpty)
    // One push tries the host, and the other follows when it has arrived.
    let trial = take(at: 1)
    #expect(trial.map(\.key.device.user) == ["eve"])
    finish(try #require(trial.first), at: 1)
    let next = take(at: 1)
    #expect(next.map(\.key.device.user) == ["fay"])
    finish(try #require(next.first), at: 1)
    #expect(Set(take(at: 600).map(\.key.device.user)) == ["ann", "bob", "cid", "dan"])
  }

  @Test mutating func `a success between the failures of three users' addresses clears the host`() throws {
    for user in ["ann", "bob"] { try put(user) }
    for push in take(at: 0) { _ = fail(push, asking: .seconds(600), at: 0) }
    try put("cid")
    finish(try #require(take(at: 0).first), at: 0)
    try put("dan", at: 1)
    let retry = fail(try #require(take(at: 1).first), at: 1)
    #expect(retry == PushLine.Retry(isKept: true, servicePause: nil))
    try put("eve", at: 1)
    #expect(take(at: 1).map(\.key.device.user) == ["eve"])
  }
}
