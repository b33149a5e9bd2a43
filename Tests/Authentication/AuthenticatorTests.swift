import FixedClocks
import InMemoryServiceBus
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Authentication

/// An authenticator with a share service whose answers the test sets.
private final class Desk: Sendable {
  struct State {
    var reply = Authenticate.Reply(userRecordName: "_a", lifetimeSeconds: 60)
    var successor: String? = "next"
    var questions = 0
    var rotations = 0
    var grants = 0
    var isRevoked = false
  }

  let time = FixedTime()
  let network = InMemoryNetwork(time: .stepped)
  let state = Mutex(State())
  let authenticator: Authenticator
  let share: ShareCalls
  private let buses: [InMemoryBus]
  static let question = Authenticator.Question(container: nil, environment: nil, apiToken: nil, userToken: "t")

  init() async {
    authenticator = Authenticator(timing: time.skippingPauses)
    let relay = Mutex<Desk?>(nil)
    let box = Box(relay)
    var handlers = BusHandlers()
    handlers.on(Authenticate.self) { _, _, _ in
      Answer(
        box.desk.state.withLock {
          $0.questions += 1; return $0.reply
        })
    }
    handlers.on(RotateSession.self) { _, _, _ in
      Answer(
        RotateSession.Reply(
          successor: box.desk.state.withLock {
            $0.rotations += 1; return $0.successor
          }))
    }
    handlers.on(VerifyGrant.self) { message, _, _ in
      Answer(
        VerifyGrant.Reply(
          holds: box.desk.state.withLock {
            $0.grants += 1; return message.grant == "a" && !$0.isRevoked
          }))
    }
    let shareBus = InMemoryBus(name: "share", role: .share, network: network, handlers: handlers, isReady: true)
    let bus = InMemoryBus(name: "gateway", role: .gateway, network: network, handlers: BusHandlers(), isReady: true)
    bus.connect(to: shareBus.endpoint)
    _ = await bus.waitForPeers { !$0.isEmpty }
    share = ShareCalls(bus: bus, timing: time.skippingPauses, limit: .seconds(1))
    buses = [shareBus, bus]
    box.set(self)
  }

  private final class Box: Sendable {
    private let held: Mutex<Desk?>
    init(_ held: consuming Mutex<Desk?>) { self.held = held }
    func set(_ desk: Desk) { held.withLock { $0 = desk } }
    var desk: Desk {
      guard let desk = held.withLock({ $0 }) else { preconditionFailure("a call came before the desk was made") }
      return desk
    }
  }

  func ask() async throws(RecordError) -> Authenticate.Reply {
    try await authenticator.answer(to: Self.question, from: share)
  }
  func successor() async throws -> String? {
    await authenticator.successor(of: Self.question, try await ask(), from: share)
  }
  var questions: Int { state.withLock(\.questions) }
  var grantCount: Int { state.withLock(\.grants) }
  var rotations: Int { state.withLock(\.rotations) }

  /// Unit: seconds.
  func answerSession(lifetime: Int, rotation: Int64, validity: Int64) {
    state.withLock {
      $0.reply = Authenticate.Reply(userRecordName: "_a", lifetimeSeconds: lifetime)
      $0.reply.session = .init(rotationDelay: rotation * 1000, validity: validity * 1000)
    }
  }
}

@Suite(.timeLimit(.minutes(1))) struct AuthenticatorTests {
  @Test func `an answer that outlived its time is good only while the share service is away, and not for ever`()
    async throws
  {
    let desk = await Desk()
    #expect(try await desk.ask().userRecordName == "_a")
    desk.time.advance(by: .seconds(59))
    #expect(try await desk.ask().userRecordName == "_a")
    #expect(desk.questions == 1)
    desk.time.advance(by: .seconds(2))
    #expect(try await desk.ask().userRecordName == "_a")
    #expect(desk.questions == 2)
    desk.network.kill("share")
    desk.time.advance(by: .seconds(61))
    #expect(try await desk.ask().userRecordName == "_a")
    desk.time.advance(by: Authenticator.staleLimit)
    await #expect(throws: RecordError.self) { try await desk.ask() }
  }

  @Test func `a session's answer ends with the session, whether the share service is there or not`() async throws {
    let desk = await Desk()
    desk.answerSession(lifetime: 60, rotation: 300, validity: 100)
    _ = try await desk.ask()
    desk.network.kill("share")
    desk.time.advance(by: .seconds(99))
    #expect(try await desk.ask().userRecordName == "_a")
    desk.time.advance(by: .seconds(2))
    let error = await #expect(throws: RecordError.self) { try await desk.ask() }
    #expect(error?.code == .tryAgainLater)
  }

  @Test func `an answer without a lifetime is asked for every time`() async throws {
    let desk = await Desk()
    desk.answerSession(lifetime: 0, rotation: 0, validity: 0)
    for _ in 0..<3 { _ = try await desk.ask() }
    #expect(desk.questions == 3)
    #expect(desk.authenticator.known(Desk.question) == nil)
  }

  @Test func `a successor is asked for when it is due, once, and not of tokens that have none`() async throws {
    let desk = await Desk()
    #expect(try await desk.successor() == nil)
    desk.authenticator.forgetAll()
    desk.answerSession(lifetime: 60, rotation: 30, validity: 300)
    #expect(try await desk.successor() == nil)
    #expect(desk.rotations == 0)
    desk.time.advance(by: .seconds(31))
    for _ in 0..<3 { #expect(try await desk.successor() == "next") }
    #expect(desk.rotations == 1)
  }

  @Test func `with rotation at every answer it is asked for at every answer`() async throws {
    let desk = await Desk()
    desk.answerSession(lifetime: 0, rotation: 0, validity: 0)
    for _ in 0..<2 { #expect(try await desk.successor() == "next") }
    #expect(desk.rotations == 2)
  }

  @Test func `without the share service an answer goes out without a successor`() async throws {
    let desk = await Desk()
    desk.answerSession(lifetime: 60, rotation: 0, validity: 300)
    _ = try await desk.ask()
    desk.network.kill("share")
    #expect(try await desk.successor() == nil)
  }

  @Test func `grants are verified once until the directory changes, and believed while it is away`() async throws {
    let desk = await Desk()
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    func holds(_ grant: String) async -> Bool {
      await desk.authenticator.holds(
        VerifyGrant(container: container, environment: .development, userRecordName: "_a", grant: grant),
        from: desk.share)
    }
    #expect(await holds("a"))
    #expect(await !holds("b"))
    let count = desk.grantCount
    #expect(await !holds("b") && desk.grantCount == count, "who has none is not asked about each time, either")
    desk.state.withLock { $0.isRevoked = true }
    #expect(await holds("a"), "known for a minute")
    desk.authenticator.note(DirectoryChanged(credentials: true, schemas: []))
    #expect(await !holds("a"))
    desk.network.kill("share")
    #expect(await holds("b"))
  }
}

@Suite(.timeLimit(.minutes(1))) struct DirectoryVersionTests {
  private func version(_ count: Int64, epoch: UInt64 = 1) -> DirectoryVersion {
    DirectoryVersion(epoch: epoch, count: count)
  }

  @Test func `knowledge from before missed changes is forgotten, and nothing else`() async throws {
    let desk = await Desk()
    func isKnown() -> Bool { desk.authenticator.known(Desk.question) != nil }
    _ = try await desk.ask()
    #expect(
      desk.authenticator.note(version(5)) && !isKnown(), "what was asked of an unknown version is not to be trusted")
    _ = try await desk.ask()
    #expect(!desk.authenticator.note(version(5)) && isKnown())
    #expect(
      !desk.authenticator.note(DirectoryChanged(credentials: false, schemas: ["a"], version: version(6))) && isKnown())
    #expect(!desk.authenticator.note(version(6)) && isKnown())
    #expect(
      desk.authenticator.note(DirectoryChanged(credentials: true, schemas: [], version: version(7))) && !isKnown())
    _ = try await desk.ask()
    // The eighth message was missed.
    #expect(
      desk.authenticator.note(DirectoryChanged(credentials: false, schemas: ["a"], version: version(9))) && !isKnown())
    _ = try await desk.ask()
    #expect(desk.authenticator.note(version(9, epoch: 2)) && !isKnown(), "another life of the share service")
  }

  @Test func `an answer that crossed a change is not kept`() async throws {
    let desk = await Desk()
    let reply = try await desk.ask()
    #expect(reply.userRecordName == "_a")
    desk.authenticator.forgetAll()
    #expect(desk.authenticator.known(Desk.question) == nil)
    // A share service of an earlier release sends no version.
    #expect(desk.authenticator.note(DirectoryChanged(credentials: true, schemas: [])))
    #expect(!desk.authenticator.note(DirectoryChanged(credentials: false, schemas: ["a"])))
  }
}
