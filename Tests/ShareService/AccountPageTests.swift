// A person's own account in the directory: sessions, and ways to sign in that are added and removed.

import JSON
import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

/// Two users with passwords, a provider, and the account page of the first.
private struct Scene {
  let world: World
  let alice: String
  let bob: String
  private let grant: String
  private static let issuer = "https://id.example.org"

  init() async throws {
    world = try await World.withContainer()
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","displayName":"Acme","issuer":"\#(Self.issuer)","clientID":"aquifer","signUp":"open"}"#)
    (alice, bob) = (try await world.userWithPassword(), try await world.userWithPassword("bob"))
    grant = try await Self.grant(of: "alice", in: world)
  }

  static func grant(of name: String, in world: World) async throws -> String {
    let token = try #require(try await world.signIn(name).webAuthToken)
    return try #require(try await world.authenticate(user: token).grant)
  }

  @discardableResult
  func use(_ act: UseAccount.Act = .look, user: String? = nil, grant: String? = nil) async throws -> UseAccount.Reply {
    try await world.service.directory.use(
      UseAccount(
        container: World.container, environment: .development, userRecordName: user ?? alice,
        grant: grant ?? self.grant, act: act))
  }

  func person(_ subject: String, email: String? = nil, issuer: String = issuer) -> SignInByIdentity.Person {
    SignInByIdentity.Person(issuer: issuer, subject: subject, emailAddress: email, givenName: nil, familyName: nil)
  }

  func enter(_ person: SignInByIdentity.Person) async throws -> SignInByIdentity.Reply {
    try await world.service.directory.signIn(
      SignInByIdentity(
        container: World.container, environment: .development, provider: "acme", person: person, isKept: false,
        grant: nil))
  }
}

@Suite(.eachEngine) struct AccountSessionTests {
  @Test func `a person sees their own sessions, and which one is the page's`() async throws {
    let scene = try await Scene()
    let token = try await scene.world.token()
    let sessions = try #require(try await scene.use().account).sessions
    #expect(sessions.map(\.isOwn) == [false, true])
    #expect(try await scene.world.authenticate(user: token).grant == ":s" + sessions[0].name)
    #expect(try await scene.use().account?.hasPassword == true)
  }

  @Test(.tags(.sqliteFile)) func `the account page and an operator's list of a user's sessions read none of others`()
    async throws
  {
    let world = try await World.withContainer()
    await world.service.close()
    let connection = try Connection(exclusive: world.folder.path + "/directory.sqlite", mode: .readWrite)
    for (number, query) in [Directory.userKey, Directory.sessionsOfUser].enumerated() {
      let plan = try connection.prepare(SQL("plan \(number)", "EXPLAIN QUERY PLAN " + query.text)).all { $0.text(3) }
      #expect(!plan.contains { $0.hasPrefix("SCAN") }, "\(plan)")
      #expect(number == 0 || plan.contains { $0.contains("sessionUser (user=?)") }, "\(plan)")
    }
  }

  @Test func `sessions end one by one, and all others at once`() async throws {
    let scene = try await Scene()
    let tokens = [try await scene.world.token(), try await scene.world.token(), try await scene.world.token()]
    let bob = try #require(try await scene.world.signIn("bob").webAuthToken)
    func open() async throws -> [Bool] {
      var open: [Bool] = []
      for token in tokens { open.append(try await scene.world.authenticate(user: token).refusal == nil) }
      return open
    }
    let latest = try #require(try await scene.use().account?.sessions.first)
    #expect(try await scene.use(.endSession(latest.name)).account?.sessions.count == 3)
    #expect(try await open() == [true, true, false])
    #expect(try await scene.use(.endOtherSessions).account?.sessions.map(\.isOwn) == [true])
    #expect(try await open() == [false, false, false])
    #expect(try await scene.world.authenticate(user: bob).refusal == nil)
    let own = try #require(try await scene.use().account?.sessions.first)
    #expect(try await scene.use(.endSession(own.name)).account == nil, "the page's own session has ended")
    #expect(try await scene.use().account == nil)
  }

  @Test func `nobody ends a session of another user`() async throws {
    let scene = try await Scene()
    let token = try #require(try await scene.world.signIn("bob").webAuthToken)
    let grant = try #require(try await scene.world.authenticate(user: token).grant)
    try await scene.use(.endSession(String(grant.dropFirst(2))))
    #expect(try await scene.world.authenticate(user: token).refusal == nil)
    #expect(try await scene.use(.endOtherSessions, user: scene.bob).account == nil, "Alice's page is not Bob's")
    #expect(try await scene.use(.endOtherSessions, grant: grant).account == nil)
    #expect(try await scene.world.authenticate(user: token).refusal == nil)
  }

  @Test func `the page's sign-in counts for half an hour, and for no token of an operator`() async throws {
    let scene = try await Scene()
    let own = try #require(
      try await scene.world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
    let grant = try #require(try await scene.world.authenticate(user: own).grant)
    #expect(try await scene.use(grant: grant).account == nil)
    scene.world.clock.advance(by: UseAccount.sessionTime - 1000)
    #expect(try await scene.use().account != nil)
    scene.world.clock.advance(by: 1000)
    for act in [UseAccount.Act.look, .endOtherSessions, .link(provider: "acme", person: scene.person("1"))] {
      #expect(try await scene.use(act).account == nil)
    }
    #expect(try await scene.enter(scene.person("1")).userRecordName != scene.alice)
  }
}

@Suite(.eachEngine) struct AccountIdentityTests {
  @Test func `a linked identity signs in as the user, and is gone when it is removed`() async throws {
    let scene = try await Scene()
    let linked = try await scene.use(.link(provider: "acme", person: scene.person("1", email: "ada@example.org")))
    #expect(linked.account?.ways.map(\.displayName) == ["Acme"] && linked.refusal == nil)
    #expect(try await scene.enter(scene.person("1")).userRecordName == scene.alice)
    let again = try await scene.use(.link(provider: "acme", person: scene.person("1")))
    #expect(again.account?.ways.count == 1 && again.refusal == nil, "a repetition changes nothing")
    let name = try #require(linked.account?.ways.first?.name)
    #expect(try await scene.use(.removeWay(name)).account?.ways.isEmpty == true)
    #expect(try await scene.use(.removeWay(name)).refusal == nil)
    #expect(try await scene.enter(scene.person("1")).userRecordName != scene.alice)
    let shown = try await scene.world.ok("GET", "/admin/1/users/alice", query: ["brief": "true"])
    #expect(shown["email"] == nil, "the provider's address is not the user's")
  }

  @Test func `an identity of another user stays theirs`() async throws {
    let scene = try await Scene()
    let eve = try #require(try await scene.enter(scene.person("eve")).userRecordName)
    #expect(try await scene.use(.link(provider: "acme", person: scene.person("eve"))).refusal == .taken)
    #expect(try await scene.enter(scene.person("eve")).userRecordName == eve)
    #expect(try await scene.use().account?.ways.isEmpty == true)
  }

  @Test func `an identity counts for its provider alone, and only where the provider is offered`() async throws {
    let scene = try await Scene()
    let foreign = scene.person("1", issuer: "https://evil.example.org")
    #expect(try await scene.use(.link(provider: "acme", person: foreign)).refusal == .provider)
    #expect(try await scene.use(.link(provider: "rival", person: scene.person("1"))).refusal == .provider)
    try await scene.world.ok("DELETE", "/admin/1/identities/acme")
    #expect(try await scene.use(.link(provider: "acme", person: scene.person("1"))).refusal == .provider)
  }

  @Test func `the address of a user's e-mail, verified or not, links nothing`() async throws {
    let scene = try await Scene()
    try await scene.world.ok("POST", "/admin/1/users/alice", #"{"email":"alice@example.org"}"#)
    let verified = try await scene.enter(scene.person("eve", email: "alice@example.org"))
    #expect(verified.refusal == .addressTaken)
    let unverified = try await scene.enter(scene.person("eve", email: nil))
    #expect(unverified.userRecordName != scene.alice && unverified.refusal == nil)
  }

  @Test func `the last way in is never removed, and a provider that was removed is none`() async throws {
    let scene = try await Scene()
    let world = scene.world
    let token = try #require(try await scene.enter(scene.person("ada")).webAuthToken)
    let user = try #require(try await world.authenticate(user: token).userRecordName)
    let grant = try #require(try await world.authenticate(user: token).grant)
    func use(_ act: UseAccount.Act) async throws -> UseAccount.Reply {
      try await scene.use(act, user: user, grant: grant)
    }
    let only = try #require(try await use(.look).account?.ways.first)
    #expect(try await use(.removeWay(only.name)).refusal == .lastWay)
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"other","issuer":"https://other.example.org","clientID":"a","signUp":"closed"}"#)
    let second = scene.person("ada", issuer: "https://other.example.org")
    #expect(try await use(.link(provider: "other", person: second)).account?.ways.count == 2)
    try await world.ok("DELETE", "/admin/1/identities/other")
    #expect(try await use(.removeWay(only.name)).refusal == .lastWay)
    #expect(try await use(.look).account?.ways.map(\.displayName) == ["Acme", "https://other.example.org"])
    let rest = try #require(try await use(.look).account?.ways.last)
    #expect(try await use(.removeWay(rest.name)).account?.ways.count == 1)
  }

  @Test func `a user has a bounded number of identities`() async throws {
    let scene = try await Scene()
    for number in 0..<Directory.identitiesPerUser {
      #expect(try await scene.use(.link(provider: "acme", person: scene.person("\(number)"))).refusal == nil)
    }
    #expect(try await scene.use(.link(provider: "acme", person: scene.person("more"))).refusal == .tooMany)
  }
}
