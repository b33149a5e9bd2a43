// Sign-ins by authorization code against a provider on this machine, honest and cheating.

import Crypto
import ForgedProvider
import JSON
@testable import OpenID
import Testing

struct SignInTests {
  @Test func `a person signs in, and the client proves itself by PKCE and its secret`() async throws {
    let world = try ProviderWorld()
    let identity = try await world.signIn()
    #expect(
      identity
        == Identity(
          issuer: world.forged.issuer, subject: "person-1", emailAddress: "ada@example.org", givenName: "Ada",
          familyName: "Byron"))
    #expect(
      world.forged.requests == [
        "GET /.well-known/openid-configuration", "GET /authorize", "POST /token", "GET /keys",
      ])
  }

  @Test func `the documents are read once an hour`() async throws {
    let world = try ProviderWorld()
    _ = try await world.signIn()
    _ = try await world.signIn(now: ProviderWorld.now + 30_000)
    #expect(world.forged.requests.count { $0 == "GET /keys" } == 1)
    world.forged.change { $0.claims = ["exp": "1800000000"] }
    _ = try await world.signIn(now: ProviderWorld.now + 3_600_001)
    #expect(world.forged.requests.count { $0 == "GET /keys" } == 2)
  }

  @Test func `a client without a secret and one that posts it are served`() async throws {
    let world = try ProviderWorld(secret: .none)
    world.forged.change { $0.clientSecret = nil }
    #expect(try await world.signIn().subject == "person-1")
    let other = try ProviderWorld()
    other.forged.change { $0.metadata = ["token_endpoint_auth_methods_supported": #"["client_secret_post"]"#] }
    #expect(try await other.signIn().subject == "person-1")
  }

  @Test func `an elliptic key signs as well`() async throws {
    let world = try ProviderWorld()
    world.forged.change {
      ($0.key, $0.algorithm, $0.header, $0.publishedKeys) = (Keys.curve, "ES256", ["kid": "key-3"], [Keys.curve])
    }
    #expect(try await world.signIn().subject == "person-1")
  }

  @Test func `a new key of the provider is fetched when a token names it, at most once a minute`() async throws {
    let world = try ProviderWorld()
    _ = try await world.signIn()
    world.forged.change { ($0.key, $0.header, $0.publishedKeys) = (Keys.other, ["kid": "key-2"], [Keys.other]) }
    let soon = ProviderWorld.now + 59_000
    await #expect(throws: IdentityError.refused("No key of the provider made the token's signature")) {
      try await world.signIn(now: soon)
    }
    #expect(world.forged.requests.count { $0 == "GET /keys" } == 1)
    #expect(try await world.signIn(now: ProviderWorld.now + 60_000).subject == "person-1")
    #expect(world.forged.requests.count { $0 == "GET /keys" } == 2)
  }

  @Test func `tokens that name unknown keys at once make one question, and a new key without a name is found`()
    async throws
  {
    let world = try ProviderWorld()
    _ = try await world.signIn()
    world.forged.change { $0.header = ["kid": "absent"] }
    let (provider, forged) = (world.provider, world.forged)
    await withTaskGroup(of: Bool.self) { group in
      for number in 0..<8 {
        group.addTask {
          let token = forged.idToken(clientID: "org.example.app", nonce: "n-\(number)")
          return
            (try? await provider.identity(
              ofIDToken: token, nonce: "n-\(number)", now: ProviderWorld.now + 60_000)) == nil
        }
      }
      for await isRefused in group { #expect(isRefused) }
    }
    #expect(world.forged.requests.count { $0 == "GET /keys" } == 2)
    world.forged.change { ($0.key, $0.header, $0.publishedKeys) = (Keys.other, [:], [Keys.other]) }
    #expect(try await world.signIn(now: ProviderWorld.now + 120_000).subject == "person-1")
  }

  @Test(arguments: ["admin", "@", "ada@", "a@b@c", "ada byron@example.org"])
  func `a text that is no address is none, though it is verified`(_ text: String) async throws {
    let world = try ProviderWorld()
    world.forged.change { $0.claims = ["email": "\"\(text)\""] }
    #expect(try await world.signIn().emailAddress == nil)
  }

  @Test func `an address counts only when the provider has verified it`() async throws {
    let world = try ProviderWorld()
    world.forged.change { $0.claims = ["email_verified": "false"] }
    #expect(try await world.signIn().emailAddress == nil)
    world.forged.change { $0.claims = ["email_verified": nil] }
    #expect(try await world.signIn().emailAddress == nil)
    world.forged.change { $0.claims = ["email_verified": #""true""#] }
    #expect(try await world.signIn().emailAddress == "ada@example.org")
  }

  @Test func `a telephone number counts only when the provider has verified it`() async throws {
    let world = try ProviderWorld()
    for (flag, number) in [(nil, nil), ("false", nil), ("true", "+49 30 1234"), (#""true""#, "+49 30 1234")] {
      world.forged.change { $0.claims = ["phone_number": #""+49 30 1234""#, "phone_number_verified": flag] }
      #expect(try await world.signIn().phoneNumber == number, "\(flag ?? "no flag")")
    }
  }

  @Test func `userinfo tells what the token lacks, of the same person alone`() async throws {
    let world = try ProviderWorld()
    world.forged.change {
      $0.claims = ["email": nil, "given_name": nil]
      $0.userInfo = #"{"sub":"person-1","email":"ada@example.org","email_verified":true,"given_name":"Augusta"}"#
    }
    let identity = try await world.signIn()
    #expect(identity.emailAddress == "ada@example.org" && identity.givenName == "Augusta")
    world.forged.change { $0.userInfo = #"{"sub":"person-2","email":"eve@example.org","email_verified":true}"# }
    await #expect(throws: IdentityError.refused("Userinfo is of another person")) { try await world.signIn() }
  }

  /// A way in which a token can lie.
  struct Lie: CustomTestStringConvertible, Sendable {
    let name: String
    let claims: [String: String?]
    let reason: String
    var testDescription: String { name }
  }

  static let lies: [Lie] = {
    let now = ProviderWorld.now / 1000
    return [
      Lie(name: "audience", claims: ["aud": #""another""#], reason: "The token is for another client"),
      Lie(name: "no audience", claims: ["aud": nil], reason: "The token is for another client"),
      Lie(name: "native app", claims: ["aud": #""org.example.app""#], reason: "The token is for another client"),
      Lie(
        name: "audiences without a party", claims: ["aud": #"["aquifer","another"]"#],
        reason: "The token was issued to another client"),
      Lie(
        name: "another party", claims: ["aud": #"["aquifer","another"]"#, "azp": #""another""#],
        reason: "The token was issued to another client"),
      Lie(
        name: "issuer", claims: ["iss": #""https://accounts.example.org""#], reason: "The token is of another issuer"),
      Lie(name: "expired", claims: ["exp": "\(now - 60)"], reason: "The token has expired"),
      Lie(name: "no end", claims: ["exp": nil], reason: "The token has expired"),
      Lie(
        name: "from the future", claims: ["iat": "\(now + 61)"],
        reason: "The token does not say when it was issued, or was issued in the future"),
      Lie(name: "not yet", claims: ["nbf": "\(now + 61)"], reason: "The token is not valid yet"),
      Lie(name: "nonce", claims: ["nonce": #""another""#], reason: "The token has another nonce"),
      Lie(name: "no nonce", claims: ["nonce": nil], reason: "The token has another nonce"),
      Lie(name: "no subject", claims: ["sub": #""""#], reason: "The token has no subject of 1 to 255 bytes"),
      Lie(name: "number as subject", claims: ["sub": "7"], reason: "The token has no subject of 1 to 255 bytes"),
    ]
  }()

  @Test(arguments: lies) func `a token that lies signs nobody in`(_ lie: Lie) async throws {
    let world = try ProviderWorld()
    world.forged.change { $0.claims = lie.claims }
    await #expect(throws: IdentityError.refused(lie.reason)) { try await world.signIn() }
  }

  @Test func `clocks may differ by a minute`() async throws {
    let world = try ProviderWorld()
    let now = ProviderWorld.now / 1000
    world.forged.change { $0.claims = ["exp": "\(now - 59)", "iat": "\(now + 60)", "nbf": "\(now + 60)"] }
    #expect(try await world.signIn().subject == "person-1")
  }

  @Test func `a signature of another key, a weak one, and a shared secret count for nothing`() async throws {
    let unsigned = "No key of the provider made the token's signature"
    let world = try ProviderWorld()
    world.forged.change { $0.key = Keys.other }
    await #expect(throws: IdentityError.refused(unsigned)) { try await world.signIn() }
    world.forged.change { ($0.key, $0.publishedKeys) = (Keys.weak, [Keys.weak]) }
    await #expect(throws: IdentityError.refused(unsigned)) {
      try await world.signIn(now: ProviderWorld.now + 120_000)
    }
    // The public key's text as the secret of an HMAC, which fools readers that believe the header.
    let confused = ForgedKey(.secret(Array(Keys.rsa.publicJWK.utf8)), keyID: "key-1")
    world.forged.change { ($0.key, $0.algorithm, $0.publishedKeys) = (confused, "HS256", [Keys.rsa]) }
    await #expect(throws: IdentityError.refused("The token is not signed with RS256 or ES256")) {
      try await world.signIn()
    }
  }

  @Test func `a token without a signature, or with critical extensions, is refused`() throws {
    func spelled(_ text: String) -> String { Base64URL.encode(Array(text.utf8)) }
    let payload = spelled(#"{"sub":"person-1"}"#)
    #expect(throws: IdentityError.refused("The token is not signed with RS256 or ES256")) {
      try SignedToken("\(spelled(#"{"alg":"none"}"#)).\(payload).")
    }
    #expect(throws: IdentityError.refused("The token has critical extensions")) {
      try SignedToken("\(spelled(#"{"alg":"RS256","crit":["exp"]}"#)).\(payload).AAAA")
    }
    for text in ["", "a.b", "a.b.c.d", "!.e30.AA", String(repeating: "A", count: 20_000)] {
      #expect(throws: IdentityError.self) { try SignedToken(text) }
    }
  }

  @Test func `a code counts once, and only with its own verifier`() async throws {
    let world = try ProviderWorld()
    let code = try await world.visit()
    let known = IdentityError.refused("\(world.forged.issuer) does not know the code, or has seen it before")
    let stolen = SignInAttempt(state: world.attempt.state, nonce: world.attempt.nonce, verifier: "another")
    await #expect(throws: known) {
      try await world.provider.identity(
        forCode: code, issuer: nil, stolen, returnAddress: ProviderWorld.returnAddress, now: ProviderWorld.now)
    }
    await #expect(throws: known) {
      try await world.provider.identity(
        forCode: code, issuer: nil, world.attempt, returnAddress: ProviderWorld.returnAddress, now: ProviderWorld.now)
    }
  }

  @Test func `an answer that names another provider, or none where it should, is refused`() async throws {
    let world = try ProviderWorld()
    let mixed = IdentityError.refused("The answer is of another provider")
    func answer(_ issuer: String?) async throws -> Identity {
      try await world.provider.identity(
        forCode: try await world.visit(), issuer: issuer, world.attempt, returnAddress: ProviderWorld.returnAddress,
        now: ProviderWorld.now)
    }
    await #expect(throws: mixed) { try await answer("https://accounts.example.org") }
    #expect(try await answer(world.forged.issuer).subject == "person-1")
    let naming = try ProviderWorld()
    naming.forged.change { $0.metadata = ["authorization_response_iss_parameter_supported": "true"] }
    await #expect(throws: mixed) { try await naming.signIn() }
  }

  @Test func `a native app's token is exchanged with its nonce or the nonce's hash`() async throws {
    let world = try ProviderWorld()
    let now = ProviderWorld.now
    let token = world.forged.idToken(clientID: "org.example.app", nonce: "n-1")
    let found = try await world.provider.identity(ofIDToken: token, nonce: "n-1", now: now)
    #expect(found.identity.subject == "person-1" && found.expiry == now + 660_000)
    let hashed = world.forged.idToken(clientID: "org.example.app", nonce: Hex.encode(SHA256.hash("n-1")))
    #expect(try await world.provider.identity(ofIDToken: hashed, nonce: "n-1", now: now).identity.subject == "person-1")
    await #expect(throws: IdentityError.refused("The token has another nonce")) {
      try await world.provider.identity(ofIDToken: token, nonce: "n-2", now: now)
    }
    let web = world.forged.idToken(clientID: "aquifer", nonce: "n-1")
    await #expect(throws: IdentityError.refused("The token is for another client")) {
      try await world.provider.identity(ofIDToken: web, nonce: "n-1", now: now)
    }
    await #expect(throws: IdentityError.refused("The nonce is missing")) {
      try await world.provider.identity(ofIDToken: token, nonce: "", now: now)
    }
  }
}
