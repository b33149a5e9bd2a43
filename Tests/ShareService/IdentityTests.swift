// Providers of identities in the directory, sign-up by their rules, and invitations.

import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

extension World {
  /// A world with the provider `acme`.
  fileprivate static func withProvider(signUp: String, members: String = "") async throws -> World {
    let world = try await withContainer()
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","issuer":"https://id.example.org","clientID":"aquifer","signUp":"\#(signUp)"\#(members)}"#)
    return world
  }

  fileprivate func enter(
    _ subject: String = "person-1", email: String? = "ada@example.org", phone: String? = nil,
    issuer: String = "https://id.example.org",
    provider: String = "acme", grant: String? = nil, claim: ClaimSignature? = nil
  ) async throws -> SignInByIdentity.Reply {
    try await service.directory.signIn(
      SignInByIdentity(
        container: World.container, environment: .development, provider: provider,
        person: SignInByIdentity.Person(
          issuer: issuer, subject: subject, emailAddress: email, phoneNumber: phone, givenName: "Ada",
          familyName: "Byron"),
        isKept: false, grant: grant),
      claim: claim)
  }
}

@Suite(.eachEngine) struct IdentityTests {
  @Test func `a provider's token is used up in the change that opens the session`() async throws {
    let world = try await World.withProvider(signUp: "open")
    func claim(_ request: String) -> ClaimSignature {
      ClaimSignature(
        digest: [UInt8](repeating: 7, count: 32), requestID: request, expiry: world.clock.now + 600_000)
    }
    let first = try await world.enter(claim: claim("R1"))
    #expect(first.webAuthToken != nil)
    let again = try await world.enter(claim: claim("R2"))
    #expect(again.webAuthToken == nil && again.refusal == .used)
    #expect(try await world.service.directory.claim([claim("R3")]) == [false], "it is the claim of other messages, too")
    let noted = try #require(try await world.ok("GET", "/admin/1/sign-ins")["signIns"]?.elements.first)
    #expect(noted["refusal"]?.string == "used")
    #expect(try await world.enter().webAuthToken != nil, "without a claim the gateway has made it")
  }

  @Test func `a new person becomes a user, and is found again by the provider's name for them`() async throws {
    let world = try await World.withProvider(signUp: "open")
    let first = try await world.enter()
    let user = try #require(first.userRecordName)
    #expect(first.userName == "ada@example.org")
    #expect(try await world.authenticate(user: first.webAuthToken).userRecordName == user)
    // The person's address is another one now.
    let second = try await world.enter(email: "king@example.org")
    #expect(second.userRecordName == user && second.webAuthToken != first.webAuthToken)
    let shown = try await world.ok("GET", "/admin/1/users/\(user)", query: ["brief": "true"])
    #expect(shown["email"]?.string == "ada@example.org" && shown["givenName"]?.string == "Ada")
    let restarted = try await world.restarted()
    #expect(try await restarted.enter().userRecordName == user)
  }

  @Test func `a person without a verified address gets a name of the provider's`() async throws {
    let world = try await World.withProvider(signUp: "open")
    let (one, two) = (try await world.enter("p-1", email: nil), try await world.enter("p-2", email: nil))
    #expect(one.userName?.wholeMatch(of: /acme-[0-9a-f]{12}/) != nil && one.userRecordName != two.userRecordName)
  }

  @Test func `an address never leads to somebody's account`() async throws {
    let world = try await World.withProvider(signUp: "open")
    try await world.ok("POST", "/admin/1/users", #"{"name":"ada","email":"Ada@example.org"}"#)
    let reply = try await world.enter()
    #expect(reply.refusal == .addressTaken && reply.webAuthToken == nil)
    // A user whose name looks like an address has no claim to it, and keeps the name.
    let named = try await world.user("eve@example.org")
    let eve = try await world.enter("p-2", email: "eve@example.org")
    #expect(eve.userRecordName != named.recordName && eve.userName?.hasPrefix("acme-") == true)
  }

  @Test func `a telephone number never leads to somebody's account`() async throws {
    let world = try await World.withProvider(signUp: "open")
    try await world.ok("POST", "/admin/1/users", #"{"name":"ada","phone":"+49 30 1234567"}"#)
    let reply = try await world.enter(email: nil, phone: "+49301234567")
    #expect(reply.refusal == .addressTaken && reply.webAuthToken == nil)
    #expect(try await world.enter(email: nil, phone: "+49301234568").refusal == nil)
  }

  @Test func `nobody signs up where sign-up is closed, and the known sign in`() async throws {
    let world = try await World.withProvider(signUp: "open")
    let user = try await world.enter().userRecordName
    try await world.ok("DELETE", "/admin/1/identities/acme")
    #expect(try await world.enter().refusal == .provider)
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","issuer":"https://id.example.org","clientID":"other","signUp":"closed"}"#)
    #expect(try await world.enter().userRecordName == user)
    #expect(try await world.enter("p-2", email: nil).refusal == .closed)
  }

  @Test func `an invitation lets its verified address sign up once`() async throws {
    let world = try await World.withProvider(signUp: "invited")
    #expect(try await world.enter().refusal == .uninvited)
    try await world.ok("POST", "/admin/1/invitations", #"{"email":"Ada@Example.org"}"#)
    #expect(try await world.enter(email: nil).refusal == .uninvited)
    #expect(try await world.enter().refusal == nil)
    #expect(try await world.ok("GET", "/admin/1/invitations")["invitations"]?.count == 0)
    try await world.refused("POST", "/admin/1/invitations", #"{"email":"ada@example.org"}"#, status: 409)
    try await world.ok("POST", "/admin/1/invitations", #"{"email":"bob@example.org"}"#)
    try await world.ok("DELETE", "/admin/1/invitations/bob@example.org")
    #expect(try await world.enter("p-2", email: "bob@example.org").refusal == .uninvited)
    try await world.refused("DELETE", "/admin/1/invitations/bob@example.org", status: 404)
    try await world.refused("POST", "/admin/1/invitations", #"{"email":"nobody"}"#, status: 400)
  }

  @Test func `a disabled user stays out, and a deleted one is a new person`() async throws {
    let world = try await World.withProvider(signUp: "open")
    let user = try #require(try await world.enter().userRecordName)
    try await world.ok("POST", "/admin/1/users/\(user)/disable")
    #expect(try await world.enter().refusal == .disabled)
    try await world.ok("DELETE", "/admin/1/users/\(user)")
    let again = try await world.enter()
    #expect(again.refusal == nil && again.userRecordName != user)
  }

  @Test func `an identity counts at its issuer, its provider and its container alone`() async throws {
    let world = try await World.withProvider(signUp: "open", members: #","container":"\#(World.photos)""#)
    let user = try await world.enter(email: nil).userRecordName
    #expect(try await world.enter(issuer: "https://other.example.org").refusal == .provider)
    #expect(try await world.enter(provider: "rival").refusal == .provider)
    try await world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.other"}"#)
    try await world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"rival","issuer":"https://rival.example.org","clientID":"a","signUp":"open","#
        + #""container":"iCloud.other"}"#
    )
    #expect(try await world.enter(issuer: "https://rival.example.org", provider: "rival").refusal == .provider)
    let other = try #require(ContainerID(rawValue: "iCloud.other"))
    #expect(try await world.service.directory.identityProviders(of: other).map(\.entry.name) == ["rival"])
    #expect(try await world.enter(email: nil).userRecordName == user)
  }

  @Test func `a session ends with the app's token, and none opens for a token that was revoked`() async throws {
    let world = try await World.withProvider(signUp: "open")
    let api = try await world.apiToken()
    let grant = try #require(try await world.authenticate(api: api).grant)
    let reply = try await world.enter(grant: grant)
    #expect(try await world.authenticate(user: reply.webAuthToken).refusal == nil)
    try await world.ok("DELETE", "/admin/1/tokens/\(api)")
    #expect(try await world.authenticate(user: reply.webAuthToken).refusal == .userToken)
    #expect(try await world.enter(grant: grant).refusal == .apiToken)
  }

  @Test func `a provider's secret is never shown, and its settings are checked`() async throws {
    let world = try await World.withProvider(signUp: "open", members: #","clientSecret":"hush-hush""#)
    let listed = await world.call("GET", "/admin/1/identities")
    let text = String(decoding: listed.body, as: UTF8.self)
    #expect(text.contains(#""issuer":"https://id.example.org""#) && !text.contains("hush"))
    let bad: [(String, String)] = [
      (#"{"name":"A b","issuer":"https://id.example.org","clientID":"a"}"#, "'name'"),
      (#"{"name":"a","issuer":"http://id.example.org","clientID":"a"}"#, "'issuer'"),
      (#"{"name":"a","issuer":"http://127.0.0.1.example.org","clientID":"a"}"#, "'issuer'"),
      (#"{"name":"a","issuer":"https://id.example.org?x=1","clientID":"a"}"#, "'issuer'"),
      (#"{"name":"a","clientID":"a"}"#, "'issuer'"), (#"{"name":"a","preset":"apple"}"#, "'clientID'"),
      (#"{"name":"a","preset":"face","clientID":"a"}"#, "preset"),
      (#"{"name":"a","preset":"google","clientID":"a","signUp":"yes"}"#, "'signUp'"),
      (#"{"name":"a","preset":"google","clientID":"a","scopes":["email"]}"#, "'scopes'"),
      (#"{"name":"a","preset":"apple","clientID":"a","teamID":"t","keyID":"k","privateKey":"x"}"#, "'privateKey'"),
    ]
    for (body, word) in bad {
      let refusal = try await world.refused("POST", "/admin/1/identities", body, status: 400)
      #expect(refusal["reason"]?.string?.contains(word) == true, "\(body)")
    }
    try await world.ok("POST", "/admin/1/identities", #"{"name":"g","preset":"google","clientID":"a"}"#)
    try await world.refused(
      "POST", "/admin/1/identities", #"{"name":"g","preset":"google","clientID":"a"}"#, status: 409)
    try await world.refused("DELETE", "/admin/1/identities/absent", status: 404)
    #expect(world.published.take().count == 2, "gateways are told of each change")
  }
}
