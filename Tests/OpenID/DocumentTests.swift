// Documents of providers that are wrong or missing, and the vectors of the standards.

import Crypto
import ForgedProvider
import HTTPClient
import HTTPServer
import JSON
@testable import OpenID
import Testing

struct DocumentTests {
  @Test func `PKCE's challenge is that of RFC 7636`() {
    let attempt = SignInAttempt(state: "s", nonce: "n", verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    #expect(attempt.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
  }

  @Test func `the three secrets of an attempt are apart`() {
    let attempt = SignInAttempt(random: (0..<96).map { UInt8($0) })
    #expect(attempt.state == "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
    #expect(Set([attempt.state, attempt.nonce, attempt.verifier]).count == 3)
  }

  @Test func `a signature of RFC 7515 is verified, and a changed one is not`() throws {
    let key = """
      {"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",\
      "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}
      """
    let keys = try SigningKeySet(Array(key.utf8))
    let text =
      "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290"
      + "Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    let token = try SignedToken(text)
    let payload = try token.payload(verifiedWith: keys.candidates(.es256, keyID: nil))
    #expect(try JSONValue(parsing: payload)["iss"]?.string == "joe")
    let changed = try SignedToken(text.dropLast(2) + "1A")
    #expect(throws: IdentityError.self) { try changed.payload(verifiedWith: keys.keys) }
  }

  @Test func `keys that sign nothing are left out of a set`() throws {
    let point = #""x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#
    let others = [
      #"{"kty":"EC","crv":"P-256","use":"enc",\#(point)}"#, #"{"kty":"EC","crv":"P-384",\#(point)}"#,
      #"{"kty":"EC","crv":"P-256","alg":"ES384",\#(point)}"#, #"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
      #"{"kty":"oct","k":"AAAA"}"#, #"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, "7", #"{}"#,
    ]
    #expect(try SigningKeySet(Array("{\"keys\":[\(others.joined(separator: ","))]}".utf8)).keys.isEmpty)
    for text in ["", "[]", "{}", #"{"keys":{}}"#] {
      #expect(throws: IdentityError.misconfigured("The provider's keys are no JWK set")) {
        try SigningKeySet(Array(text.utf8))
      }
    }
  }

  @Test func `a description of another issuer, or with plain addresses, is refused`() async throws {
    let world = try ProviderWorld()
    let issuer = world.forged.issuer
    let cases: [([String: String?], String)] = [
      (["issuer": #""https://accounts.example.org""#], "The description of \(issuer) names another issuer"),
      (["token_endpoint": nil], "The description of \(issuer) lacks an endpoint that sign-in needs"),
      (["jwks_uri": #""http://keys.example.org/""#], "The jwks_uri of \(issuer) is not an https address"),
      (["userinfo_endpoint": #""file:///etc/passwd""#], "The userinfo_endpoint of \(issuer) is not an https address"),
      (
        ["token_endpoint": #""http://127.0.0.1@example.org/""#],
        "The token_endpoint of \(issuer) is not an https address"
      ),
    ]
    for (number, (metadata, reason)) in cases.enumerated() {
      world.forged.change { $0.metadata = metadata }
      // A failure is remembered for 5 s.
      let now = ProviderWorld.now + Int64(number) * 5000
      await #expect(throws: IdentityError.misconfigured(reason)) { try await world.visit(now: now) }
    }
  }

  @Test func `a provider that is away or confused is told apart from a wrong registration`() async throws {
    let world = try ProviderWorld()
    world.forged.change { $0.answers = ["/token": (503, "")] }
    await #expect { try await world.signIn() } throws: { ($0 as? IdentityError)?.kind == .unavailable }
    world.forged.change { $0.answers = ["/token": (200, "<html>")] }
    await #expect { try await world.signIn() } throws: { ($0 as? IdentityError)?.kind == .unavailable }
    world.forged.change { $0.answers = ["/token": (200, #"{"access_token":"a"}"#)] }
    await #expect(throws: IdentityError.refused("The provider's answer has no ID token")) { try await world.signIn() }
    world.forged.change { ($0.answers, $0.clientSecret) = ([:], "another") }
    await #expect(
      throws: IdentityError.misconfigured(
        "\(world.forged.issuer) refuses this client: check its client ID and its secret")
    ) { try await world.signIn() }
    world.server.stop()
    let fresh = IdentityProvider(
      ProviderConfiguration(issuer: world.forged.issuer, clientID: "aquifer"), client: world.client)
    await #expect {
      try await fresh.authorizationAddress(
        world.attempt, returnAddress: ProviderWorld.returnAddress, now: ProviderWorld.now)
    } throws: {
      ($0 as? IdentityError)?.kind == .unavailable
    }
  }

  @Test func `a secret of Apple is a token that its key signs for a few minutes`() async throws {
    let key = try #require(P256PrivateKey(pem: Self.privatePEM))
    let apple = AppleKey(teamID: "TEAM", keyID: "KEY", key: key)
    let secret = apple.secret(forClient: "org.example", issuer: "https://appleid.apple.com", now: ProviderWorld.now)
    let token = try SignedToken(secret)
    #expect(token.keyID == "KEY" && token.algorithm == .es256)
    let keys = try SigningKeySet(Array("{\"keys\":[\(Self.publicJWK)]}".utf8))
    let claims = try JSONValue(parsing: try token.payload(verifiedWith: keys.keys))
    #expect(claims["iss"]?.string == "TEAM" && claims["sub"]?.string == "org.example")
    #expect(claims["exp"]?.int64 == ProviderWorld.now / 1000 + 300)
    #expect(P256PrivateKey(pem: "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----") == nil)
  }
}

extension DocumentTests {
  /// A key that was made for this test.
  fileprivate static let privatePEM = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg7DpTwo7FCdbb5S4C
    XjnQl+rjRfQ7RIXVcQgrTq9WyE+hRANCAASoSWQ1cD+6RqcQ/Otz4yzBNcc0pIN2
    wPL2haJXDqSrwTdUBR51MDPJPVTAVlXt08ln6LQkTwOwsDdqUCpy8BoB
    -----END PRIVATE KEY-----
    """
  fileprivate static let publicJWK = """
    {"kty":"EC","crv":"P-256","x":"qElkNXA_ukanEPzrc-MswTXHNKSDdsDy9oWiVw6kq8E",\
    "y":"N1QFHnUwM8k9VMBWVe3TyWfotCRPA7CwN2pQKnLwGgE"}
    """
}
