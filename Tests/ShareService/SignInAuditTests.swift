// The audit of sign-ins, and the sessions that they begin.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

extension World {
  /// The rows of the audit, newest first.
  fileprivate func signIns(_ query: [String: String] = [:]) async throws -> [JSONValue] {
    try await ok("GET", "/admin/1/sign-ins", query: query)["signIns"]?.elements ?? []
  }
}

/// A row's text at each key, joined by spaces; `-` for a key that it lacks.
private func line(_ row: JSONValue, _ keys: String...) -> String {
  keys.map { row[$0]?.string ?? "-" }.joined(separator: " ")
}

@Suite(.eachEngine) struct SignInAuditTests {
  @Test func `a sign-in is noted with its way, its client and its session`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    _ = try await world.signIn(address: "192.0.2.7", client: "Firefox on Linux")
    let row = try #require(try await world.signIns().first)
    #expect(line(row, "user", "way", "address", "client", "refusal") == "alice password 192.0.2.7 Firefox on Linux -")
    #expect(line(row, "container", "environment") == "\(World.photos) development")
    let session = try #require(try await world.ok("GET", "/admin/1/sessions")["sessions"]?.elements.first)
    #expect(row["session"]?.string == session["session"]?.string)
    #expect(line(session, "way", "client", "provider") == "password Firefox on Linux -")
    let restarted = try await world.restarted()
    #expect(try await restarted.signIns().count == 1)
  }

  @Test func `a refused sign-in is noted, and never what was typed`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    _ = try await world.signIn("alice", "wrong horse")
    _ = try await world.signIn("my password, by mistake", "x")
    let answer = await world.call("GET", "/admin/1/sign-ins")
    let text = String(decoding: answer.body, as: UTF8.self)
    #expect(!text.contains("horse") && !text.contains("mistake"))
    #expect(try await world.signIns().map { line($0, "user", "refusal", "session") } == ["- wrong -", "alice wrong -"])
    #expect(try await world.signIns(["user": "alice"]).count == 1)
    let name = try await world.service.directory.recordName(ofUser: "alice")
    #expect(try await world.signIns(["user": name, "container": World.photos]).count == 1)
    #expect(try await world.signIns(["user": "nobody"]).isEmpty)
  }

  @Test func `an attempt that has to wait is not noted`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    for _ in 0..<20 { _ = try await world.signIn("alice", "guess") }
    #expect(try await world.signIns().count == SignInThrottle.Allowance.pair.freeCount)
  }

  @Test func `the page of a share and the console are noted, also for a person without a role`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let desk = world.service.signIns
    _ = try await desk.check(CheckPassword(userName: "alice", password: World.password, clientAddress: "192.0.2.1"))
    _ = try await desk.check(CheckPassword(userName: "alice", password: "no", clientAddress: "192.0.2.1"))
    let entry = OpenConsole.Entry.user(name: "alice", password: World.password)
    _ = try await desk.open(OpenConsole(entry, clientAddress: "192.0.2.2"))
    _ = try await desk.open(OpenConsole(.operatorToken("no"), clientAddress: "192.0.2.3"))
    _ = try await desk.open(OpenConsole(.operatorToken(World.operatorToken), clientAddress: "192.0.2.3"))
    try await world.ok("POST", "/admin/1/roles", #"{"user":"alice","role":"operator"}"#)
    _ = try await desk.open(OpenConsole(entry, clientAddress: "192.0.2.2"))
    let rows = try await world.signIns().map { line($0, "way", "user", "refusal") }
    #expect(
      rows.reversed() == [
        "share alice -", "share alice wrong", "console alice role", "console - wrong", "console _operator -",
        "console alice -",
      ])
  }

  @Test func `a provider's people and an app's tokens are noted, also by the gateway`() async throws {
    let world = try await World.withContainer()
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","issuer":"https://id.example.org","clientID":"aquifer","signUp":"open"}"#)
    func enter(_ way: SignInSource.Way, issuer: String) async throws {
      _ = try await world.service.directory.signIn(
        SignInByIdentity(
          container: World.container, environment: .development, provider: "acme",
          person: .init(
            issuer: issuer, subject: "1", emailAddress: "ada@example.org", givenName: nil, familyName: nil),
          isKept: false, grant: nil, source: SignInSource(way: way, provider: "acme", address: "192.0.2.1")))
    }
    try await enter(.provider, issuer: "https://id.example.org")
    try await enter(.exchange, issuer: "https://id.example.org")
    try await enter(.provider, issuer: "https://evil.example.org")
    try await world.service.signIns.note(
      NotedSignIn(
        source: SignInSource(way: .exchange, provider: "acme", address: "192.0.2.1"), container: World.container,
        environment: .development, refusal: NoteRefusedSignIn.Refusal.used.rawValue))
    let rows = try await world.signIns().map { line($0, "way", "provider", "user", "refusal") }
    #expect(
      rows.reversed() == [
        "provider acme ada@example.org -", "exchange acme ada@example.org -", "provider acme - provider",
        "exchange acme - used",
      ])
  }

  @Test func `refused sign-ins push out no others, and both are bounded by number and age`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    _ = try await world.signIn()
    let refused = NotedSignIn(source: SignInSource(way: .password, address: "192.0.2.1"), refusal: "wrong")
    let directory = world.service.directory
    try await directory.note((0..<Directory.signInSweepCount).map { _ in refused }, keeping: 10)
    let rows = try await directory.signIns(in: nil, ofUser: nil, before: nil, limit: 100)
    #expect(rows.map(\.number) == Array((991...1001).reversed()) + [1])
    let page = try await world.ok("GET", "/admin/1/sign-ins", query: ["limit": "2", "after": "1000"])
    #expect(page["signIns"]?.elements.map { $0["number"]?.int64 } == [999, 998] && page["after"]?.int64 == 998)
    world.clock.advance(by: Directory.signInMemory)
    _ = try await world.signIn()
    #expect(try await world.signIns().count == 1)
  }

  @Test func `sign-ins push out no acts, and outlive their users`() async throws {
    let world = try await World.withContainer()
    let user = try await world.userWithPassword()
    _ = try await world.signIn()
    let acts = try await world.ok("GET", "/admin/1/audit")["acts"]?.count
    #expect(acts == 2, "the container and the user")
    try await world.ok("DELETE", "/admin/1/users/alice")
    #expect(try await world.signIns().map { line($0, "user") } == [user])
  }

  @Test func `a developer sees the sign-ins of their container alone`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    _ = try await world.signIn()
    let member = StaffMember(name: "dora", containers: [World.photos])
    for (query, status) in [
      (["container": World.photos], 200), ([:], 403), (["container": "iCloud.other"], 403),
    ] {
      let answer = await world.call("GET", "/admin/1/sign-ins", query: query, member: member)
      #expect(answer.status == status)
    }
    try await world.refused("POST", "/admin/1/sign-ins", status: 405)
  }

  @Test func `the latest use of a session is that of its latest token`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let token = try await world.token()
    world.clock.advance(by: 300_000)
    _ = try await world.service.directory.rotate(token)
    let session = try #require(try await world.ok("GET", "/admin/1/sessions")["sessions"]?.elements.first)
    let (created, used) = (session["created"]?.int64 ?? 0, session["lastUsed"]?.int64 ?? 0)
    #expect((300_000..<301_000).contains(used - created))
  }

  @Test func `an operator signs a user out everywhere, and tokens of the operator stay`() async throws {
    let world = try await World.withContainer()
    _ = try await world.userWithPassword()
    let own = try #require(try await world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
    let tokens = [try await world.token(), try await world.token(isKept: true)]
    _ = world.published.take()
    try await world.ok("POST", "/admin/1/users/alice/sign-out")
    #expect(world.published.take().map(\.credentials) == [true])
    for token in tokens { #expect(try await world.authenticate(user: token).refusal == .userToken) }
    #expect(try await world.authenticate(user: own).refusal == nil)
    try await world.refused("POST", "/admin/1/users/nobody/sign-out", status: 404)
  }
}

@Suite(.eachEngine) struct OrphanedRegistrationTests {
  /// A user with a registration by each of two sessions, one of them with an API token, and one by a token of the
  /// operator's.
  private struct Scene {
    let world: World
    let api: String
    let user: String
    let tokens: [String]
    let own: String
    let revision: Int64

    init() async throws {
      world = try await World.withContainer()
      try await world.ok("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#)
      user = try await world.userWithPassword()
      api = try await world.apiToken()
      tokens = [try await world.token(), try await world.token()]
      own = try #require(try await world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
      for (index, token) in (tokens + [own]).enumerated() {
        let grant = try #require(
          try await world.authenticate(api: index == 1 ? api : nil, user: token).grant)
        _ = try await world.service.directory.registerForPush(
          RegisterForPush(
            device: .init(
              container: World.container, environment: .development, userRecordName: user, clientID: "\(index)",
              grant: grant),
            address: .webhook(url: "https://a.example/\(index)", secret: "a secret of sixteen"), hearsEveryZone: false))
      }
      revision = try await world.service.directory.pushRegistrations(after: 0).revision
    }

    /// The registrations that are left, by client, and the number that notifiers hear the end of.
    func rest() async throws -> String {
      let left = try await world.service.directory.pushRegistrations(of: nil, ofUser: user)
      let ended = try await world.service.directory.pushRegistrations(after: revision).ended.count
      return left.map(\.registration.device.clientID).sorted().joined() + " \(ended)"
    }
  }

  @Test func `a registration ends with its session, at once`() async throws {
    let scene = try await Scene()
    #expect(try await scene.rest() == "012 0")
    let sessions = try await scene.world.ok("GET", "/admin/1/sessions")["sessions"]?.elements ?? []
    // The latest is first.
    try await scene.world.ok("DELETE", "/admin/1/sessions/\(try #require(sessions[1]["session"]?.string))")
    #expect(try await scene.rest() == "12 1")
    try await scene.world.ok("DELETE", "/admin/1/tokens/\(scene.tokens[1])")
    #expect(try await scene.rest() == "2 2")
    #expect(try await scene.world.ok("GET", "/admin/1/users/alice")["registrations"]?.int64 == 1)
    try await scene.world.ok("DELETE", "/admin/1/tokens/\(scene.own)")
    #expect(try await scene.rest() == " 3")
  }

  @Test func `registrations end with the app's token, and only those that came by it`() async throws {
    let scene = try await Scene()
    try await scene.world.ok("DELETE", "/admin/1/tokens/\(scene.api)")
    #expect(try await scene.rest() == "02 1")
  }

  @Test func `a new password and a sign-out end those of sessions, a disabled user's end all`() async throws {
    let scene = try await Scene()
    try await scene.world.ok("POST", "/admin/1/users/alice/password", #"{"password":"battery staple"}"#)
    #expect(try await scene.rest() == "2 2")
    try await scene.world.ok("POST", "/admin/1/users/alice/disable")
    #expect(try await scene.rest() == " 3")
    let other = try await Scene()
    try await other.world.ok("POST", "/admin/1/users/alice/sign-out")
    #expect(try await other.rest() == "2 2")
  }

  @Test func `a session that ends because the user has too many takes its registration along`() async throws {
    let scene = try await Scene()
    for _ in 0..<SessionPolicy.sessionsPerUser { _ = try await scene.world.token(isKept: true) }
    #expect(try await scene.rest() == "2 2")
  }
}
