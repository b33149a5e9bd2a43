// Logout tokens: what an honest one ends, and everything that makes one count for nothing.

import ForgedProvider
import Testing

@testable import OpenID

@Suite struct LogoutTests {
  private func logout(_ world: ProviderWorld, now: Int64 = ProviderWorld.now) async throws -> Logout {
    try await world.provider.logout(ofToken: world.forged.logoutToken(sessionID: "s-1"), now: now)
  }

  @Test func `a logout token names the person, the session and itself`() async throws {
    let world = try ProviderWorld()
    let logout = try await logout(world)
    #expect(logout.issuer == world.forged.issuer && logout.subject == "person-1" && logout.sessionID == "s-1")
    #expect(logout.tokenID == "j-1" && logout.expiry == ProviderWorld.now + 180_000)
    world.forged.change { $0.claims = ["sub": nil] }
    #expect(try await self.logout(world).subject == nil)
    world.forged.change { $0.claims = ["sid": nil, "aud": #"["org.example.app"]"#] }
    #expect(try await self.logout(world).sessionID == nil)
  }

  @Test func `strangers' tokens make one question while the provider fails, and none for a moment after`()
    async throws
  {
    let world = try ProviderWorld()
    for (path, count) in [("/.well-known/openid-configuration", 1), ("/keys", 2)] {
      world.forged.change { $0.answers = [path: (503, "")] }
      let now = ProviderWorld.now + Int64(count) * 60_000
      let before = world.forged.requests.count
      await withTaskGroup(of: Bool.self) { group in
        for _ in 0..<8 {
          group.addTask { (try? await logout(world, now: now)) == nil }
        }
        for await isRefused in group { #expect(isRefused) }
      }
      await #expect(throws: IdentityError.self) { try await logout(world, now: now + 4_999) }
      #expect(world.forged.requests.count - before == count)
    }
    await #expect(throws: IdentityError.self) { try await logout(world, now: ProviderWorld.now + 125_000) }
    #expect(world.forged.requests.count { $0 == "GET /keys" } == 2)
    world.forged.change { $0.answers = [:] }
    #expect(try await logout(world, now: ProviderWorld.now + 130_000).subject == "person-1")
  }

  @Test(
    arguments: [
      (["iss": #""https://evil.example.org""#], "another issuer"), (["aud": #""other""#], "another client"),
      (["aud": #"["aquifer","other"]"#], "another client"), (["exp": "1700000000"], "expired"),
      (["exp": nil], "expired"),
      (["iat": nil], "when it was issued"), (["iat": "1790009999"], "future"), (["nonce": #""n""#], "nonce"),
      (["nonce": "null"], "nonce"), (["events": nil], "no logout token"), (["events": "{}"], "no logout token"),
      (["events": #"{"http://schemas.openid.net/event/backchannel-logout":1}"#], "no logout token"),
      (["jti": nil], "jti"), (["jti": #""""#], "jti"), (["sub": "7"], "sub"), (["sid": #"["s-1"]"#], "sid"),
      (["sub": nil, "sid": nil], "neither"),
    ] as [([String: String?], String)])
  func `a token with a wrong claim ends nothing`(claims: [String: String?], word: String) async throws {
    let world = try ProviderWorld()
    world.forged.change { $0.claims = claims }
    let error = await #expect(throws: IdentityError.self) { try await logout(world) }
    #expect(error?.kind == .refused && error?.description.contains(word) == true, "\(error?.description ?? "")")
  }

  @Test func `a token that the issuer's keys did not sign ends nothing, and no ID token does`() async throws {
    let world = try ProviderWorld()
    world.forged.change { $0.key = Keys.other }
    await #expect(throws: IdentityError.self) { try await logout(world) }
    world.forged.change { ($0.key, $0.algorithm) = (ForgedKey(.secret(Array("public".utf8)), keyID: "key-1"), "HS256") }
    await #expect(throws: IdentityError.self) { try await logout(world) }
    let honest = try ProviderWorld()
    await #expect(throws: IdentityError.self) {
      try await honest.provider.logout(
        ofToken: honest.forged.idToken(clientID: "aquifer", nonce: "n"), now: ProviderWorld.now)
    }
    await #expect(throws: IdentityError.self) {
      try await honest.provider.identity(
        ofIDToken: honest.forged.logoutToken(), nonce: "n", now: ProviderWorld.now)
    }
  }
}
