// Names of credentials, which end with the credentials. Web couriers last as long as theirs.

import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct GrantTests {
  @Test func `a grant's text reads back, and what is none is refused`() {
    let hash = [UInt8](repeating: 7, count: 32)
    for grant in [
      Grant(), Grant(apiToken: hash), Grant(user: .session("12ab")), Grant(apiToken: hash, user: .session("12ab")),
      Grant(apiToken: hash, user: .webAuthToken(hash)),
    ] { #expect(Grant(text: grant.text) == grant) }
    for text in ["", "x", "zz:s1", ":x1", ":tzz", "07"] { #expect(Grant(text: text) == nil, "\(text)") }
  }

  private func holds(
    _ grant: String, of user: String, in world: World, container: ContainerID = World.container,
    environment: Environment = .development
  )
    async throws -> Bool
  {
    try await world.service.directory.holds(
      VerifyGrant(container: container, environment: environment, userRecordName: user, grant: grant))
  }

  @Test func `it holds as long as both tokens do, for its user, container and environment`() async throws {
    let world = try await World.withContainer()
    let (api, other) = (try await world.apiToken(), try await world.apiToken())
    let (name, token) = try await world.user("bob")
    let first = try #require(try await world.authenticate(api: api, user: token).grant)
    let second = try #require(try await world.authenticate(api: other, user: token).grant)
    let alone = try #require(try await world.authenticate(user: token).grant)
    for grant in [first, second, alone] {
      #expect(try await holds(grant, of: name, in: world))
      #expect(try await !holds(grant, of: "_other", in: world))
      #expect(!grant.contains(token) && !grant.contains(api))
    }
    #expect(try await !holds(first, of: name, in: world, environment: .production))
    let gone = try #require(ContainerID(rawValue: "iCloud.gone"))
    #expect(try await !holds(first, of: name, in: world, container: gone))
    #expect(try await !holds("nonsense", of: name, in: world))
    let nobody = try #require(try await world.authenticate(api: api).grant)
    #expect(try await !holds(nobody, of: name, in: world), "nobody is nobody's courier")
    try await world.ok("DELETE", "/admin/1/tokens/\(api)")
    #expect(try await !holds(first, of: name, in: world))
    #expect(try await holds(second, of: name, in: world))
    try await world.ok("DELETE", "/admin/1/tokens/\(token)")
    for grant in [second, alone] { #expect(try await !holds(grant, of: name, in: world)) }
  }

  @Test func `a session's is the same for all its tokens, and ends with it`() async throws {
    let world = try await World.withContainer()
    let name = try await world.userWithPassword()
    let token = try await world.token()
    let grant = try #require(try await world.authenticate(user: token).grant)
    world.clock.advance(by: 300_000)
    let successor = try #require(try await world.service.directory.rotate(token))
    #expect(try await world.authenticate(user: successor).grant == grant)
    #expect(try await holds(grant, of: name, in: world))
    world.clock.advance(by: 1_799_000)
    #expect(try await holds(grant, of: name, in: world))
    world.clock.advance(by: 2_000)
    #expect(try await world.authenticate(user: successor).refusal != nil, "nobody has used it for too long")
    #expect(try await holds(grant, of: name, in: world), "who only waits goes on waiting")
    _ = try await world.token()
    #expect(try await holds(grant, of: name, in: world), "nor has a sweep forgotten it")
    world.clock.advance(by: SessionPolicy.grantMemory)
    #expect(try await !holds(grant, of: name, in: world))

    let second = try await world.token()
    let next = try #require(try await world.authenticate(user: second).grant)
    #expect(next != grant)
    try await world.ok("POST", "/admin/1/users/alice/password", #"{"password":"battery staple"}"#)
    #expect(try await !holds(next, of: name, in: world))
    let renewed = try #require(try await world.signIn("alice", "battery staple").webAuthToken)
    let last = try #require(try await world.authenticate(user: renewed).grant)
    try await world.ok("POST", "/admin/1/users/alice/disable")
    #expect(try await !holds(last, of: name, in: world))
  }
}
