import Crypto
import Foundation
import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

extension World {
  static let password = "correct horse"

  /// A user with a password.
  func userWithPassword(_ name: String = "alice", _ password: String = World.password) async throws -> String {
    let answer = try await ok("POST", "/admin/1/users", #"{"name":"\#(name)","password":"\#(password)"}"#)
    return try #require(answer["userRecordName"]?.string)
  }

  func signIn(
    _ name: String = "alice", _ password: String = World.password, isKept: Bool = false, address: String = "192.0.2.1",
    environment: Records.Environment = .development
  ) async throws -> SignIn.Reply {
    try await service.signIns.signIn(
      SignIn(container: Self.container, environment: environment, userName: name, password: password, isKept: isKept, clientAddress: address))
  }

  /// A session's first token.
  func token(isKept: Bool = false) async throws -> String { try #require(try await signIn(isKept: isKept).webAuthToken) }
}

@Suite struct SignInTests {
  @Test func `a name and a password open a session`() async throws {
    let world = try await World.withContainer()
    let name = try await world.userWithPassword()
    let token = try await world.token()
    #expect(token.wholeMatch(of: /ses_[0-9a-f]{128}/) != nil)
    let reply = try await world.authenticate(user: token)
    #expect(reply.userRecordName == name && reply.session != nil)
  }

  @Test func `what is wrong is not told, and costs the same`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    _ = try await world.userWithPassword("carol")
    try await world.ok("POST", "/admin/1/users/carol/disable")
    _ = try await world.user("bob")
    for (name, password) in [
      ("alice", "wrong horse"), ("nobody", World.password), ("bob", World.password), ("bob", ""), ("carol", World.password), ("alice", ""),
      ("alice", World.password + " "), ("ALICE", World.password), ("alice", String(repeating: "x", count: 100_000)),
    ] {
      let reply = try await world.signIn(name, password)
      #expect(reply.webAuthToken == nil && reply.retryAfter == nil, "\(name) \(password.prefix(20))")
    }
  }

  @Test func `a session is good for its container and environment only`() async throws {
    let world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.other"}"#)
    _ = try await world.userWithPassword()
    let token = try await world.token()
    #expect(try await world.authenticate(World.photos, .production, user: token).refusal == .userToken)
    #expect(try await world.authenticate("iCloud.other", user: token).refusal == .userToken)
    #expect(try await world.authenticate(nil, nil, user: token).refusal == .userToken)
    let gone = try #require(ContainerID(rawValue: "iCloud.gone"))
    await #expect(throws: RecordError.self) {
      try await world.service.signIns.signIn(
        SignIn(container: gone, environment: .development, userName: "alice", password: World.password, isKept: false, clientAddress: ""))
    }
  }

  @Test func `guesses are slowed down by name, and a right password is not looked at meanwhile`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    for attempt in 0..<5 { #expect(try await world.signIn("alice", "guess number \(attempt)", address: "192.0.2.\(attempt)").retryAfter == nil) }
    let throttled = try await world.signIn(address: "192.0.2.99")
    #expect(throttled.webAuthToken == nil && (throttled.retryAfter ?? 0) >= 1)
    // An unknown name is slowed down alike.
    for attempt in 0..<5 { #expect(try await world.signIn("nobody", "guess", address: "192.0.3.\(attempt)").retryAfter == nil) }
    #expect(try await world.signIn("nobody", "guess").retryAfter != nil)
    world.clock.advance(by: Int64(throttled.retryAfter ?? 0) * 1000)
    #expect(try await world.signIn().webAuthToken != nil)
    // All forgotten.
    for _ in 0..<5 { #expect(try await world.signIn("alice", "a wrong one").retryAfter == nil) }
  }

  @Test func `many attempts at once are counted before any is looked at`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let replies = try await withThrowingTaskGroup(of: SignIn.Reply.self) { group in
      for attempt in 0..<40 { group.addTask { try await world.signIn("alice", "guess \(attempt)", address: "192.0.2.\(attempt)") } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(replies.count { $0.retryAfter == nil } == SignInThrottle.Allowance.name.freeCount)
  }

  @Test(arguments: [
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "20.1.d.b8.0.1.0.2/64"), ("2001:db8:1:2::9", "20.1.d.b8.0.1.0.2/64"),
    ("", ""), ("nonsense:", "nonsense:"),
  ])
  func `an address of IPv6 is counted with its network`(address: String, network: String) {
    #expect(SignInDesk.network(of: address) == network)
  }

  @Test func `changing the password or disabling the user ends the sessions, and nothing else`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let own = try #require(try await world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
    _ = try await world.userWithPassword("bob")
    let bob = try #require(try await world.signIn("bob").webAuthToken)
    let first = try await world.token()
    _ = world.published.take()
    try await world.ok("POST", "/admin/1/users/alice/password", #"{"password":"battery staple"}"#)
    #expect(world.published.take().map(\.credentials) == [true])
    #expect(try await world.authenticate(user: first).refusal == .userToken)
    #expect(try await world.authenticate(user: own).refusal == nil)
    #expect(try await world.signIn().webAuthToken == nil)
    let second = try #require(try await world.signIn("alice", "battery staple").webAuthToken)
    #expect(try await world.authenticate(user: second).refusal == nil)
    try await world.ok("POST", "/admin/1/users/alice/disable")
    #expect(try await world.authenticate(user: second).refusal == .userToken)
    #expect(try await world.service.directory.rotate(second) == nil)
    #expect(try await world.signIn("alice", "battery staple").webAuthToken == nil)
    #expect(try await world.authenticate(user: bob).refusal == nil)
  }

  @Test func `a password that changed while it was verified opens nothing`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let directory = world.service.directory
    let known = try #require(try await directory.passwordHash(ofUser: "alice"))
    try await world.ok("POST", "/admin/1/users/alice/password", #"{"password":"battery staple"}"#)
    #expect(try await directory.createSession(forUser: known.key, passwordHash: known.hash, World.container, .development, isKept: false) == nil)
  }

  @Test func `a hash of other costs is made anew at the next sign-in`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let directory = world.service.directory
    let known = try #require(try await directory.passwordHash(ofUser: "alice"))
    // One pass more than the cheapest, as another release may have had it.
    let old = try #require(PasswordHash.interactive.make(Array(World.password.utf8)))
    try await directory.replacePasswordHash(ofUser: known.key, known.hash, with: old)
    #expect(try await world.signIn().webAuthToken != nil)
    let renewed = try #require(try await directory.passwordHash(ofUser: "alice")?.hash)
    #expect(renewed != old && !PasswordHash.cheapest.isOutdated(renewed))
    #expect(try await world.signIn().webAuthToken != nil)
  }

  @Test func `passwords are nowhere in the files or in what operators see`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let listed = await world.call("GET", "/admin/1/users")
    #expect(!String(decoding: listed.body, as: UTF8.self).contains("argon2"))
    #expect(try JSONValue(parsing: listed.body)["users"]?.elements.first?["password"]?.bool == true)
    let token = try await world.token()
    await world.service.close()
    for name in try FileManager.default.contentsOfDirectory(atPath: world.folder.path) {
      let data = try Data(contentsOf: URL(fileURLWithPath: world.folder.path + "/" + name))
      for secret in [World.password, token] { #expect(data.firstRange(of: Data(secret.utf8)) == nil) }
    }
  }

  @Test(arguments: [#"{"password":"short"}"#, #"{"password":""}"#, #"{"password":7}"#, "{}", #"{"password":"long enough\u0007"}"#])
  func `a password that can't be is refused`(body: String) async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let error = try await world.refused("POST", "/admin/1/users/alice/password", body, status: 400)
    #expect(error["reason"]?.string?.contains("'password'") == true)
    #expect(try await world.signIn().webAuthToken != nil)
    try await world.refused("POST", "/admin/1/users/zoe/password", #"{"password":"long enough"}"#, status: 404)
  }
}

@Suite struct SignInThrottleTests {
  private let keys = [SignInThrottle.Key.name("alice"), .address("a")]

  @Test func `the pause doubles up to its limit, and is forgotten after a quarter of an hour`() {
    let allowance = SignInThrottle.Allowance.name
    #expect((0..<15).map { allowance.pause(after: $0) / 1000 } == [0, 0, 0, 0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
    #expect(allowance.pause(after: Int.max) == allowance.longestPause)
    var throttle = SignInThrottle()
    var now: Int64 = 0
    for _ in 0..<40 {
      if let seconds = throttle.begin([.name("alice")], now: now) { now += Int64(seconds) * 1000 }
    }
    #expect(throttle.begin([.name("alice")], now: now) != nil || throttle.begin([.name("alice")], now: now) != nil)
    #expect(throttle.begin([.name("alice")], now: now + allowance.memory) == nil)
  }

  @Test func `a throttled attempt does not make the pause longer`() {
    var throttle = SignInThrottle()
    for _ in 0..<5 { #expect(throttle.begin(keys, now: 0) == nil) }
    for _ in 0..<100 { #expect(throttle.begin(keys, now: 0) == 2) }
    #expect(throttle.begin(keys, now: 1_001) == 1)
    #expect(throttle.begin(keys, now: 2_000) == nil)
  }

  @Test func `an address is throttled whatever names it tries, and knowing one password does not help`() {
    var throttle = SignInThrottle()
    for attempt in 0..<30 {
      #expect(throttle.begin([.name("\(attempt)"), .address("a")], now: 0) == nil)
      let good = [SignInThrottle.Key.name("own"), .address("a")]
      if throttle.begin(good, now: 0) == nil { throttle.succeeded(good) }
    }
    #expect(throttle.begin([.name("next"), .address("a")], now: 0) != nil)
    #expect(throttle.begin([.name("next"), .address("b")], now: 0) == nil)
  }

  @Test func `a clock that is set back locks nobody out for longer`() {
    var throttle = SignInThrottle()
    for _ in 0..<5 { _ = throttle.begin(keys, now: 10_000_000) }
    #expect(throttle.begin(keys, now: 0) == 2)
  }

  @Test func `memory is bounded, and those who are throttled last are remembered`() {
    var throttle = SignInThrottle()
    for number in 0..<(2 * SignInThrottle.rowLimit) { #expect(throttle.begin([.name("\(number)")], now: Int64(number)) == nil) }
    let latest = 2 * SignInThrottle.rowLimit - 1
    for _ in 0..<4 { _ = throttle.begin([.name("\(latest)")], now: Int64(latest)) }
    #expect(throttle.begin([.name("\(latest)")], now: Int64(latest)) != nil)
  }
}
