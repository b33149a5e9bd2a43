// Sessions that end with those at a provider.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct LogoutTests {
  private static let issuer = "https://id.example.org"

  private static func world() async throws -> World {
    let world = try await World.withContainer()
    for (name, issuer) in [("acme", issuer), ("rival", "https://rival.example.org")] {
      try await world.ok(
        "POST", "/admin/1/identities",
        #"{"name":"\#(name)","issuer":"\#(issuer)","clientID":"aquifer","signUp":"open"}"#)
    }
    return world
  }

  private func enter(
    _ world: World, _ subject: String, session: String?, issuer: String = issuer, provider: String = "acme"
  ) async throws -> String {
    let reply = try await world.service.directory.signIn(
      SignInByIdentity(
        container: World.container, environment: .development, provider: provider,
        person: .init(
          issuer: issuer, subject: subject, emailAddress: nil, givenName: nil, familyName: nil, sessionID: session),
        isKept: false, grant: nil))
    return try #require(reply.webAuthToken)
  }

  /// The number of ended sessions; nil for a token that was used before.
  private func end(_ world: World, subject: String?, session: String?, token: UInt8) async throws
    -> Int?
  {
    try await world.service.directory.end(
      EndIdentitySessions(
        issuer: Self.issuer, subject: subject, sessionID: session,
        claim: ClaimSignature(
          digest: [UInt8](repeating: token, count: 32), requestID: "R\(token)", expiry: .max)))
  }

  @Test func `a logout ends the sessions of its session, or all of its person at this issuer`() async throws {
    let world = try await Self.world()
    let tokens = [
      try await enter(world, "ada", session: "s-1"), try await enter(world, "ada", session: "s-2"),
      try await enter(world, "ada", session: nil), try await enter(world, "eve", session: "s-3"),
      try await enter(world, "ada", session: "s-1", issuer: "https://rival.example.org", provider: "rival"),
    ]
    func open() async throws -> [Int] {
      var open: [Int] = []
      for (index, token) in tokens.enumerated() where try await world.authenticate(user: token).refusal == nil {
        open.append(index)
      }
      return open
    }
    #expect(try await end(world, subject: nil, session: "s-9", token: 1) == 0)
    #expect(try await end(world, subject: "eve", session: "s-2", token: 2) == 0, "the session is another person's")
    #expect(try await open() == [0, 1, 2, 3, 4])
    #expect(try await end(world, subject: nil, session: "s-1", token: 3) == 1)
    #expect(try await open() == [1, 2, 3, 4])
    #expect(try await end(world, subject: "ada", session: "s-7", token: 4) == 1, "it may be that without a name")
    #expect(try await open() == [1, 3, 4])
    #expect(try await end(world, subject: "ada", session: nil, token: 5) == 1)
    #expect(try await open() == [3, 4])
    #expect(try await end(world, subject: "ada", session: nil, token: 5) == 0, "a repetition has no further effect")
  }

  @Test func `a token counts once, for the request that it came by`() async throws {
    let world = try await Self.world()
    _ = try await enter(world, "ada", session: "s-1")
    #expect(try await end(world, subject: "ada", session: nil, token: 1) == 1)
    let token = try await enter(world, "ada", session: "s-2")
    let replayed = EndIdentitySessions(
      issuer: Self.issuer, subject: "ada", sessionID: nil,
      claim: ClaimSignature(digest: [UInt8](repeating: 1, count: 32), requestID: "another", expiry: .max))
    #expect(try await world.service.directory.end(replayed) == nil)
    #expect(try await world.authenticate(user: token).refusal == nil)
  }

  @Test func `a logout ends the sessions of devices that its session has allowed`() async throws {
    let world = try await Self.world()
    let page = try await world.authenticate(user: try await enter(world, "ada", session: "s-1"))
    let app = try #require(try await world.authenticate(api: try await world.apiToken()).grant)
    let begun = try await world.service.directory.begin(
      BeginDeviceSignIn(
        container: World.container, environment: .development, grant: app,
        source: SignInSource(way: .device, address: "192.0.2.9")))
    let allowed = try await world.service.directory.use(
      UseAccount(
        container: World.container, environment: .development, userRecordName: try #require(page.userRecordName),
        grant: try #require(page.grant), act: .allowDevice(try #require(begun.userCode))))
    #expect(allowed.account != nil && allowed.refusal == nil)
    let reply = try await world.service.directory.poll(
      PollDeviceSignIn(
        container: World.container, environment: .development, deviceCode: try #require(begun.deviceCode)))
    guard case .signedIn(let token) = reply else {
      Issue.record("\(reply)")
      return
    }
    #expect(try await end(world, subject: nil, session: "s-1", token: 1) == 2)
    #expect(try await world.authenticate(user: token).refusal != nil)
  }

  @Test func `sessions by password stay, and registrations end with the others`() async throws {
    let world = try await Self.world()
    _ = try await world.userWithPassword()
    let own = try await world.token()
    try await world.ok("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#)
    let reply = try await world.authenticate(user: try await enter(world, "ada", session: "s-1"))
    _ = try await world.service.directory.registerForPush(
      RegisterForPush(
        device: .init(
          container: World.container, environment: .development,
          userRecordName: try #require(reply.userRecordName), clientID: "phone", grant: try #require(reply.grant)),
        address: .webhook(url: "https://a.example/1", secret: "a secret of sixteen"), hearsEveryZone: false))
    #expect(try await end(world, subject: "ada", session: nil, token: 1) == 1)
    #expect(try await world.authenticate(user: own).refusal == nil)
    #expect(try await world.ok("GET", "/admin/1/registrations")["registrations"]?.count == 0)
  }
}
