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
    environment: Records.Environment = .development, client: String? = nil
  ) async throws -> SignIn.Reply {
    try await service.signIns.signIn(
      SignIn(
        container: Self.container, environment: environment, userName: name, password: password, isKept: isKept,
        clientAddress: address, client: client))
  }

  /// A session's first token.
  func token(isKept: Bool = false) async throws -> String {
    try #require(try await signIn(isKept: isKept).webAuthToken)
  }
}

@Suite(.eachEngine) struct SignInTests {
  @Test func `a name and a password open a session`() async throws {
    let world = try await World.withContainer()
    let name = try await world.userWithPassword()
    let token = try await world.token()
    #expect(token.wholeMatch(of: /ses_[0-9a-f]{128}/) != nil)
    let reply = try await world.authenticate(user: token)
    #expect(reply.userRecordName == name && reply.session != nil)
  }

  @Test func `a wrong name or password costs the same, and the answer does not tell which it is`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    _ = try await world.userWithPassword("carol")
    try await world.ok("POST", "/admin/1/users/carol/disable")
    _ = try await world.user("bob")
    for (name, password) in [
      ("alice", "wrong horse"), ("nobody", World.password), ("bob", World.password), ("bob", ""),
      ("carol", World.password), ("alice", ""),
      ("alice", World.password + " "), ("ALICE", World.password), ("alice", String(repeating: "x", count: 100_000)),
    ] {
      let reply = try await world.signIn(name, password)
      #expect(reply.webAuthToken == nil && reply.retryAfter == nil, "\(name) \(password.prefix(20))")
    }
  }

  @Test func `a password that is checked for a share's page opens no session, and guesses count alike`() async throws {
    let world = try await World.withContainer()
    let name = try await world.userWithPassword()
    _ = try await world.userWithPassword("carol")
    try await world.ok("POST", "/admin/1/users/carol/disable")
    func check(_ name: String, _ password: String) async throws -> CheckPassword.Reply {
      try await world.service.signIns.check(
        CheckPassword(userName: name, password: password, clientAddress: "192.0.2.1"))
    }
    #expect(try await check("alice", World.password).userRecordName == name)
    #expect(try await world.ok("GET", "/admin/1/sessions")["sessions"]?.count == 0)
    for (user, password) in [
      ("alice", "wrong"), ("carol", World.password), ("nobody", World.password),
      (String(repeating: "x", count: 300), "x"),
    ] {
      let reply = try await check(user, password)
      #expect(reply.userRecordName == nil && reply.retryAfter == nil)
    }
    var isThrottled = false
    for _ in 0..<30 where try await check("alice", "wrong").retryAfter != nil { isThrottled = true }
    #expect(isThrottled)
    #expect(try await world.signIn().retryAfter != nil, "guesses on either page are the same guesses")
  }

  @Test func `a visit by password ends with all sessions of its user, however they end`() async throws {
    let world = try await World.withContainer()
    let name = try await world.userWithPassword()
    func visit() async throws -> VerifyVisit {
      let reply = try await world.service.signIns.check(
        CheckPassword(userName: "alice", password: World.password, clientAddress: "192.0.2.1"))
      return VerifyVisit(userRecordName: name, signOutCount: try #require(reply.signOutCount))
    }
    let calls = [
      ("sign-out", ""), ("password", #"{"password":"\#(World.password)"}"#), ("disable", ""),
    ]
    for (call, body) in calls {
      let visit = try await visit()
      #expect(try await world.service.directory.holds(visit))
      try await world.ok("POST", "/admin/1/users/alice/\(call)", body)
      #expect(try await !world.service.directory.holds(visit), "\(call)")
    }
    try await world.ok("POST", "/admin/1/users/alice/enable")
    let last = try await visit()
    let grant = try #require(try await world.authenticate(user: try await world.token()).grant)
    _ = try await world.service.signIns.use(
      UseAccount(
        container: World.container, environment: .development, userRecordName: name, grant: grant,
        act: .endOtherSessions, clientAddress: "192.0.2.1"))
    #expect(try await !world.service.directory.holds(last), "the account page's \"End all others\"")
    #expect(try await world.service.directory.holds(try await visit()))
    let stranger = VerifyVisit(userRecordName: "_nobody", signOutCount: 0)
    #expect(try await !world.service.directory.holds(stranger))
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
        SignIn(
          container: gone, environment: .development, userName: "alice", password: World.password, isKept: false,
          clientAddress: ""))
    }
  }

  @Test func `a guesser is slowed down, and the right password is not looked at meanwhile`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    for attempt in 0..<5 { #expect(try await world.signIn("alice", "guess number \(attempt)").retryAfter == nil) }
    let throttled = try await world.signIn()
    #expect(throttled.webAuthToken == nil && (throttled.retryAfter ?? 0) >= 1)
    // An unknown name is slowed down in the same way.
    for _ in 0..<5 { #expect(try await world.signIn("nobody", "guess").retryAfter == nil) }
    #expect(try await world.signIn("nobody", "guess").retryAfter != nil)
    world.clock.advance(by: Int64(throttled.retryAfter ?? 0) * 1000)
    #expect(try await world.signIn().webAuthToken != nil)
    // A successful sign-in clears the failures.
    for _ in 0..<5 { #expect(try await world.signIn("alice", "a wrong one").retryAfter == nil) }
  }

  @Test func `strangers who guess at a name from everywhere don't lock its user out`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    for attempt in 0..<200 {
      let reply = try await world.signIn(
        "alice", "guess number \(attempt)", address: "198.51.\(attempt / 100).\(attempt % 100)")
      #expect(reply.webAuthToken == nil && reply.retryAfter == nil)
    }
    #expect(try await world.signIn(address: "192.0.2.99").webAuthToken != nil)
    #expect(try await world.signIn("alice", "a typo", address: "192.0.2.98").retryAfter == nil)
    // From now on every address has one attempt at the name, then a long pause.
    #expect(try await world.signIn("alice", "a second guess", address: "198.51.0.7").retryAfter ?? 0 >= 29)
    world.clock.advance(by: 31_000)
    #expect(try await world.signIn(address: "192.0.2.98").webAuthToken != nil)
  }

  @Test func `a sign-in ends with the API token that asked for it, before and after`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let (api, other) = (try await world.apiToken(), try await world.apiToken())
    let grant = try #require(try await world.authenticate(api: api).grant)
    func signIn() async throws -> SignIn.Reply {
      try await world.service.signIns.signIn(
        SignIn(
          container: World.container, environment: .development, userName: "alice", password: World.password,
          isKept: true, clientAddress: "192.0.2.1",
          grant: grant))
    }
    let token = try #require(try await signIn().webAuthToken)
    let independent = try await world.token()
    world.clock.advance(by: 300_000)
    let successor = try #require(try await world.service.directory.rotate(token))
    #expect(try await world.authenticate(api: other, user: successor).refusal == nil)
    let known = try #require(try await world.service.directory.passwordHash(ofUser: "alice"))
    _ = world.published.take()
    try await world.ok("DELETE", "/admin/1/tokens/\(api)")
    #expect(world.published.take().map(\.credentials) == [true])
    for dead in [token, successor] {
      #expect(try await world.authenticate(api: other, user: dead).refusal == .userToken)
      #expect(try await world.authenticate(user: dead).refusal == .userToken)
    }
    #expect(try await world.authenticate(user: independent).refusal == nil)
    let refused = try await signIn()
    #expect(refused.webAuthToken == nil && refused.isOver == true)
    // Also when the token was revoked during the verification of the password.
    #expect(
      try await world.service.directory.createSession(
        forUser: known.key, passwordHash: known.hash, World.container, .development, isKept: false,
        apiToken: Grant(text: grant)?.apiToken, from: SignInSource(way: .password, address: "")) == nil)
  }

  @Test func `many attempts at once are counted before any is looked at`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let replies = try await withThrowingTaskGroup(of: SignIn.Reply.self) { group in
      for attempt in 0..<40 { group.addTask { try await world.signIn("alice", "guess \(attempt)") } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(replies.count { $0.retryAfter == nil } == SignInThrottle.Allowance.pair.freeCount)
  }

  @Test(arguments: [
    ("192.0.2.1", ["192.0.2.1"]), ("::ffff:192.0.2.1", ["192.0.2.1"]), ("", [""]), ("nonsense:", ["nonsense:"]),
    ("2001:db8:1:2:3:4:5:6", ["20.1.d.b8.0.1.0.2/64", "20.1.d.b8.0.1.0/56", "20.1.d.b8.0.1/48"]),
    ("2001:db8:1:2::9", ["20.1.d.b8.0.1.0.2/64", "20.1.d.b8.0.1.0/56", "20.1.d.b8.0.1/48"]),
  ])
  func `an address of IPv6 is counted with the networks it is in`(address: String, networks: [String]) {
    #expect(SignInDesk.origin(of: address).networks == networks)
  }

  @Test func `an attempt that the server could not look at is not counted`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    await world.service.directory.close()
    for _ in 0..<20 { await #expect(throws: (any Error).self) { try await world.signIn() } }
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
    #expect(
      try await directory.createSession(
        forUser: known.key, passwordHash: known.hash, World.container, .development, isKept: false,
        from: SignInSource(way: .password, address: "")) == nil)
  }

  @Test func `a hash of other costs is made anew at the next sign-in`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let directory = world.service.directory
    let known = try #require(try await directory.passwordHash(ofUser: "alice"))
    // One pass more than the cheapest, as another release may have used.
    let old = try #require(PasswordHash.interactive.make(Array(World.password.utf8)))
    try await directory.replacePasswordHash(ofUser: known.key, known.hash, with: old)
    #expect(try await world.signIn().webAuthToken != nil)
    let renewed = try #require(try await directory.passwordHash(ofUser: "alice")?.hash)
    #expect(renewed != old && !PasswordHash.cheapest.isOutdated(renewed))
    #expect(try await world.signIn().webAuthToken != nil)
  }

  @Test func `a password is the same from every keyboard, and was before`() async throws {
    let world = try await World.withContainer()
    let (composed, decomposed) = ("caf\u{e9} p\u{fc}r", "cafe\u{301}\u{a0}pu\u{308}r")
    _ = try await world.userWithPassword("alice", decomposed)
    for typed in [composed, decomposed] { #expect(try await world.signIn("alice", typed).webAuthToken != nil) }
    #expect(try await world.signIn("alice", "cafe pur").webAuthToken == nil)
    // As an earlier release hashed it: the bytes as typed.
    let directory = world.service.directory
    let known = try #require(try await directory.passwordHash(ofUser: "alice"))
    let old = try #require(PasswordHash.cheapest.make(Array(decomposed.utf8)))
    try await directory.replacePasswordHash(ofUser: known.key, known.hash, with: old)
    #expect(try await world.signIn("alice", composed).webAuthToken == nil)
    #expect(try await world.signIn("alice", decomposed).webAuthToken != nil)
    #expect(try await world.signIn("alice", composed).webAuthToken != nil, "hashed anew when it was seen")
  }

  @Test func `a password's characters are composed, its spaces ordinary, and nothing else is changed`() {
    func text(_ password: String) -> String { String(decoding: PasswordText.bytes(of: password), as: UTF8.self) }
    #expect(text("e\u{301}") == "é" && PasswordText.bytes(of: "e\u{301}") == Array("\u{e9}".utf8))
    #expect(PasswordText.bytes(of: "\u{212b}") == Array("\u{c5}".utf8), "the ångström sign is a letter")
    #expect(PasswordText.bytes(of: "\u{1100}\u{1161}") == Array("\u{ac00}".utf8))
    #expect(PasswordText.bytes(of: "a\u{a0}b\u{3000}c\u{2009}d") == Array("a b c d".utf8))
    for same in ["Zażółć", "ﬁ", "①", "ＡＢＣ", " lead and trail ", "a\tb", "🇨🇭👩‍👩‍👧"] {
      #expect(PasswordText.bytes(of: same) == Array(same.utf8), "\(same)")
    }
    #expect(PasswordText.bytes(of: String(repeating: "é", count: 100_000)).count == PasswordHasher.byteLimit + 1)
  }

  @Test func `a user who was disabled is enabled again, without his sessions`() async throws {
    let world = try await World.withContainer()
    let (name, own) = try await world.user("bob")
    try await world.ok("POST", "/admin/1/users/bob/password", #"{"password":"battery staple"}"#)
    let session = try #require(try await world.signIn("bob", "battery staple").webAuthToken)
    try await world.ok("POST", "/admin/1/users/bob/disable")
    #expect(try await world.authenticate(user: own).refusal == .userToken)
    _ = world.published.take()
    let answer = try await world.ok("POST", "/admin/1/users/bob/enable")
    #expect(answer["userRecordName"]?.string == name && answer["disabled"]?.bool == false)
    #expect(world.published.take().map(\.credentials) == [true])
    #expect(try await world.authenticate(user: own).userRecordName == name)
    #expect(try await world.authenticate(user: session).refusal == .userToken)
    #expect(try await world.signIn("bob", "battery staple").webAuthToken != nil)
    try await world.refused("POST", "/admin/1/users/nobody/enable", status: 404)
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

  @Test(arguments: [
    #"{"password":"short"}"#, #"{"password":""}"#, #"{"password":7}"#, "{}", #"{"password":"long enough\u0007"}"#,
  ])
  func `a password that can't be is refused`(body: String) async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let error = try await world.refused("POST", "/admin/1/users/alice/password", body, status: 400)
    #expect(error["reason"]?.string?.contains("'password'") == true)
    #expect(try await world.signIn().webAuthToken != nil)
    try await world.refused("POST", "/admin/1/users/zoe/password", #"{"password":"long enough"}"#, status: 404)
  }
}
