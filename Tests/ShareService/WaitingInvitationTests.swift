// The index of people who are invited to shares: what shards report, the comparison, and sign-up by it.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

/// A directory with a provider whose rule for sign-up is `invited`.
private struct InvitationScene {
  let world: World
  let owner: String

  init() async throws {
    world = try await World.withContainer()
    try await world.ok(
      "POST", "/admin/1/identities", #"{"name":"acme","issuer":"https://id.example.org","clientID":"aquifer"}"#)
    owner = try await world.user("grace").recordName
  }

  func share(
    _ people: [String], name: String = "S", owner: String? = nil, container: ContainerID = World.container,
    environment: Environment = .development
  ) -> WaitingInvitations {
    WaitingInvitations(
      database: DatabaseID(container: container, environment: environment, owner: owner ?? self.owner),
      zoneName: "Trips", shareName: name,
      invitations: people.map { person in
        let isAddress = person.contains("@")
        return .init(
          participantID: "P-\(person)", emailAddress: isAddress ? person : nil, phoneNumber: isAddress ? nil : person,
          added: 1)
      })
  }

  func note(_ shares: WaitingInvitations..., shard: Int = 0, comparison: NoteInvitations.Comparison? = nil)
    async throws
  {
    try await world.service.directory.note(NoteInvitations(shard: shard, shares: shares, comparison: comparison))
  }

  /// True if a person who is new to the installation may sign up.
  func mayEnter(_ email: String?, phone: String? = nil) async throws -> Bool {
    let reply = try await world.service.directory.signIn(
      SignInByIdentity(
        container: World.container, environment: .development, provider: "acme",
        person: SignInByIdentity.Person(
          issuer: "https://id.example.org", subject: "\(email ?? "") \(phone ?? "")", emailAddress: email,
          phoneNumber: phone, givenName: nil, familyName: nil),
        isKept: false, grant: nil))
    #expect(reply.refusal == nil || reply.refusal == .uninvited)
    return reply.refusal == nil
  }

  var count: Int64 { get async throws { try await world.service.directory.waitingInvitationCount() } }
}

@Suite(.eachEngine) struct WaitingInvitationTests {
  @Test func `an invitation to a share lets its verified address or number sign up`() async throws {
    let scene = try await InvitationScene()
    #expect(try await !scene.mayEnter("ida@example.org"))
    try await scene.note(scene.share(["ida@example.org", "+49301234"]))
    #expect(try await !scene.mayEnter("eve@example.org", phone: "+49301235"))
    #expect(try await !scene.mayEnter(nil), "an address that the provider has not verified")
    #expect(try await scene.mayEnter("Ida@Example.org"))
    #expect(try await scene.mayEnter(nil, phone: "+49301234"))
    let reply = try await scene.world.service.directory.identify(
      IdentifyUsers(lookups: [.init(phoneNumber: "+49301234"), .init(emailAddress: "ida@example.org")]))
    #expect(reply.users.allSatisfy { $0 != nil }, "the share finds both users by what it knows of them")
  }

  @Test func `an invitation that ended, or is of another app or environment, lets nobody sign up`() async throws {
    let scene = try await InvitationScene()
    try await scene.world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.other"}"#)
    let other = try #require(ContainerID(rawValue: "iCloud.other"))
    try await scene.note(
      scene.share(["ida@example.org"], container: other), scene.share(["ida@example.org"], environment: .production))
    #expect(try await !scene.mayEnter("ida@example.org"))
    try await scene.note(scene.share(["ida@example.org", "bob@example.org"]))
    try await scene.note(scene.share(["bob@example.org"]))
    #expect(try await !scene.mayEnter("ida@example.org"))
    try await scene.world.ok("DELETE", "/admin/1/users/grace")
    #expect(try await !scene.mayEnter("bob@example.org"), "the owner is deleted")
    #expect(try await scene.count == 0)
  }

  @Test func `reports are durable, and a repetition changes nothing`() async throws {
    let scene = try await InvitationScene()
    for _ in 0..<2 {
      try await scene.note(scene.share(["a@example.org"], name: "S"), scene.share(["a@example.org"], name: "T"))
    }
    #expect(try await scene.world.restarted().service.directory.waitingInvitationCount() == 2)
  }

  @Test func `a comparison makes the index equal to the shard, but leaves later reports alone`() async throws {
    let scene = try await InvitationScene()
    let directory = scene.world.service.directory
    try await scene.note(
      scene.share(["x@example.org"], name: "gone"), scene.share(["k@example.org", "l@example.org"], name: "kept"))
    try await scene.note(scene.share(["e@example.org"], name: "elsewhere"), shard: 1)
    let number = try await directory.beginComparison()
    try await scene.note(scene.share(["n@example.org"], name: "later"))
    try await scene.note(
      scene.share(["k@example.org"], name: "kept"), comparison: .init(number: number, isLast: false))
    #expect(try await scene.count == 4, "only the last part tells what is gone")
    try await scene.note(
      scene.share(["m@example.org"], name: "missed"), scene.share(["old@example.org"], name: "later"),
      comparison: .init(number: number, isLast: true))
    for (name, isIn) in [
      ("x", false), ("k", true), ("l", false), ("e", true), ("n", true), ("m", true), ("old", false),
    ] {
      #expect(try await scene.mayEnter("\(name)@example.org") == isIn, "\(name)")
    }
  }

  @Test func `one owner fills the index to a limit, and another is not hindered`() async throws {
    let scene = try await InvitationScene()
    let bob = try await scene.world.user("bob").recordName
    let limit = Directory.waitingInvitationsPerOwner
    try await scene.note(scene.share((0...limit).map { "p\($0)@example.org" }, name: "many"))
    #expect(try await scene.count == Int64(limit))
    try await scene.note(scene.share(["q@example.org"], name: "more"), scene.share(["r@example.org"], owner: bob))
    #expect(try await scene.count == Int64(limit) + 1)
    try await scene.note(scene.share([], name: "many"), scene.share(["q@example.org"], name: "more"))
    #expect(try await scene.count == 2)
  }

  @Test func `a reset of the environment ends its invitations`() async throws {
    let scene = try await InvitationScene()
    try await scene.note(scene.share(["ida@example.org"]), scene.share(["p@example.org"], environment: .production))
    try await scene.world.ok(
      "POST", "/mirror/1/\(World.container.rawValue)/development/schema/reset")
    #expect(try await scene.count == 1)
  }
}
