// Sign-in with a provider of identities: the way of a browser there and back, and the exchange of an app's token.

import Crypto
import ForgedProvider
import HTTPClient
import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import Gateway

private let curve = ForgedKey(.p256, keyID: "key-3")

/// A gateway, a provider, and a browser that follows its redirects.
struct IdentityWorld {
  let gateway: GatewayWorld
  let forged = ForgedProvider(now: now, key: ForgedKey(.rsa(bitCount: 2048), keyID: "key-1"))
  let server: HTTPServer
  let client = HTTPClient()

  static let own = [("sec-fetch-site", "same-origin")]

  init(publicURL: String = "http://gateway", answersByForm: Bool = false) async throws {
    gateway = try await GatewayWorld(publicURL: publicURL)
    server = try forged.serve()
    let entry = IdentityProviderEntry(
      name: "acme", displayName: "Acme <ID>", issuer: forged.issuer, clientID: "aquifer",
      secret: .text("s3cret & more"), nativeClientIDs: ["org.example.app"], scopes: ["openid", "email"],
      answersByForm: answersByForm)
    gateway.record.withLock { $0.providers = [entry] }
  }

  private static let now: Int64 = 1_700_000_000_000

  func state(expiry: Int64 = now + 900_000, callbackURL: String? = nil) throws -> String {
    SignInState(
      container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: .development,
      origin: "https://app.example", callbackURL: callbackURL, expiry: expiry, grant: "app"
    ).text(signedWith: GatewayWorld.signingKey)
  }

  func begin(keep: Bool = false, headers: [(String, String)] = own, provider: String = "acme") async throws
    -> HTTPResponse
  {
    await gateway.respond(
      .get, "/signin/with/\(provider)", query: [("state", try state())] + (keep ? [("keep", "yes")] : []),
      headers: headers)
  }

  /// The provider's answer to a browser that was sent there: the parameters of the return address, and the cookie.
  struct Visit {
    var parameters: [(String, String)]
    var cookie: String
  }

  func visit(keep: Bool = false) async throws -> Visit {
    try await visit(try await begin(keep: keep))
  }

  func visit(_ begun: HTTPResponse) async throws -> Visit {
    let address = try #require(begun.header("Location"))
    let cookie = try #require(begun.header("Set-Cookie")?.split(separator: ";").first.map(String.init))
    let answer = try await client.send("GET", address)
    let target = try #require(answer["location"])
    let query = try #require(target.split(separator: "?").last)
    return Visit(
      parameters: query.split(separator: "&").map { pair in
        let parts = pair.split(separator: "=").map(String.init)
        return (parts[0], parts[1])
      }, cookie: cookie)
  }

  func finish(_ visit: Visit, provider: String = "acme") async -> HTTPResponse {
    await gateway.respond(
      .get, "/signin/return/\(provider)", query: visit.parameters, headers: [("cookie", visit.cookie)])
  }

  var signIns: [SignInByIdentity] { gateway.record.withLock(\.identitySignIns) }
  /// The noted refusals, each as its way and its reason.
  var refusals: [String] {
    gateway.record.withLock(\.refusedSignIns).map { "\($0.source.way.rawValue) \($0.refusal.rawValue)" }
  }
}

@Suite struct IdentityPageTests {
  @Test func `the sign-in page offers the providers, and passwords as before`() async throws {
    let world = try await IdentityWorld()
    let state = try world.state()
    let page = await world.gateway.respond(.get, "/signin", query: [("state", state)])
    #expect(page.status == 200)
    #expect(page.text.contains("href=\"/signin/with/acme?state=\(state)\""))
    #expect(page.text.contains("Continue with Acme &lt;ID&gt;") && page.text.contains("or with a password"))
    #expect(page.text.contains("action=\"/signin?state=\(state)\""))
    world.gateway.record.withLock { $0.providers = nil }
    world.gateway.state.providers.expire()
    let plain = await world.gateway.respond(.get, "/signin", query: [("state", state)])
    #expect(plain.status == 200 && !plain.text.contains("/signin/with/"))
  }

  @Test func `a browser goes to the provider and comes back signed in`() async throws {
    let world = try await IdentityWorld()
    let begun = try await world.begin(keep: true)
    #expect(begun.status == 302 && begun.header("Cache-Control") == "no-store")
    #expect(begun.header("Location")?.hasPrefix("\(world.forged.issuer)/authorize?response_type=code&") == true)
    let cookie = try #require(begun.header("Set-Cookie"))
    #expect(cookie.hasPrefix("aquiferSignIn_"))
    #expect(cookie.hasSuffix("; Path=/signin/return/; Max-Age=900; HttpOnly; SameSite=Lax"))
    let finished = await world.finish(try await world.visit(keep: true))
    #expect(finished.status == 200)
    #expect(finished.text.contains("data-origin=\"https://app.example\" data-token=\"ses_new\""))
    let cookies = finished.headers.filter { $0.name == "Set-Cookie" }.map(\.value)
    #expect(cookies.count == 2, "the sign-in is kept, and the attempt is over")
    #expect(cookies.last?.contains("=; Path=/signin/return/; Max-Age=0;") == true)
    let signIn = try #require(world.signIns.last)
    #expect(
      signIn.person
        == SignInByIdentity.Person(
          issuer: world.forged.issuer, subject: "person-1", emailAddress: "ada@example.org", givenName: "Ada",
          familyName: "Byron"))
    #expect(signIn.provider == "acme" && signIn.isKept && signIn.grant == "app")
    #expect(signIn.source == SignInSource(way: .provider, provider: "acme", address: "127.0.0.1"))
    #expect(signIn.container.rawValue == GatewayWorld.container && signIn.environment == .development)
  }

  @Test func `a callback address that no cookie can carry is refused with a sentence`() async throws {
    let world = try await IdentityWorld()
    let state = try world.state(callbackURL: "https://app.example/" + String(repeating: "a", count: 2200))
    let page = await world.gateway.respond(
      .get, "/signin/with/acme", query: [("state", state)], headers: IdentityWorld.own)
    #expect(page.status == 400 && page.text.contains("too long for this way to sign in"))
    #expect(page.header("Set-Cookie") == nil)
    #expect(page.text.contains("name=\"password\""), "a password does it")
  }

  @Test func `only a link of this server's own page leads to the provider`() async throws {
    let world = try await IdentityWorld()
    for headers in [
      [], [("sec-fetch-site", "cross-site")], [("sec-fetch-site", "none")],
      [("referer", "https://evil.example/gateway")],
    ] {
      let page = try await world.begin(headers: headers)
      #expect(page.status == 200 && page.header("Location") == nil && page.header("Set-Cookie") == nil)
      #expect(page.text.contains("/signin/with/acme"), "the person can go on from the page")
    }
    #expect(try await world.begin(headers: [("referer", "http://gateway/signin?state=x")]).status == 302)
    #expect(try await world.begin(provider: "other").status == 404)
    let old = await world.gateway.respond(
      .get, "/signin/with/acme", query: [("state", try world.state(expiry: 1_700_000_000_000))],
      headers: IdentityWorld.own)
    #expect(old.status == 400)
    #expect(world.forged.requests.count { $0 == "GET /authorize" } == 0)
  }

  @Test func `an answer counts only in the browser that asked, for the provider that it asked`() async throws {
    let world = try await IdentityWorld()
    let visit = try await world.visit()
    let other = try await world.visit()
    var cases: [(IdentityWorld.Visit, String)] = []
    cases.append((IdentityWorld.Visit(parameters: visit.parameters, cookie: ""), "acme"))
    cases.append((IdentityWorld.Visit(parameters: visit.parameters, cookie: other.cookie), "acme"))
    cases.append((visit, "rival"))
    cases.append((IdentityWorld.Visit(parameters: visit.parameters, cookie: visit.cookie + "A"), "acme"))
    let foreign = visit.parameters.map { $0.0 == "state" ? ("state", String($0.1.dropLast()) + "_") : $0 }
    cases.append((IdentityWorld.Visit(parameters: foreign, cookie: visit.cookie), "acme"))
    cases.append((IdentityWorld.Visit(parameters: [], cookie: visit.cookie), "acme"))
    for (visit, provider) in cases {
      let refused = await world.finish(visit, provider: provider)
      #expect(refused.status == 400 && refused.text.contains("began in another browser"))
    }
    #expect(world.signIns.isEmpty && !world.forged.requests.contains("POST /token"))
    #expect(await world.finish(visit).status == 200)
  }

  @Test func `an answer counts once, however often it is sent`() async throws {
    let world = try await IdentityWorld()
    let visit = try await world.visit()
    #expect(await world.finish(visit).status == 200)
    #expect(await world.finish(visit).status == 400)
    #expect(world.signIns.count == 1 && world.forged.requests.count { $0 == "POST /token" } == 1)
    #expect(world.refusals == ["provider used"])
  }

  @Test func `a code of somebody else's sign-in is not taken`() async throws {
    let world = try await IdentityWorld()
    let (own, stolen) = (try await world.visit(), try await world.visit())
    let code = try #require(stolen.parameters.first { $0.0 == "code" })
    let mixed = own.parameters.map { $0.0 == "code" ? code : $0 }
    let refused = await world.finish(IdentityWorld.Visit(parameters: mixed, cookie: own.cookie))
    #expect(refused.status == 403 && refused.text.contains("You were not signed in there"))
    #expect(world.signIns.isEmpty && world.refusals == ["provider provider"])
  }

  @Test func `a person who declines, and a provider that is away, lead back to the page`() async throws {
    let world = try await IdentityWorld()
    let visit = try await world.visit()
    let state = try #require(visit.parameters.first { $0.0 == "state" })
    let declined = await world.finish(
      IdentityWorld.Visit(parameters: [("error", "access_denied"), state], cookie: visit.cookie))
    #expect(declined.status == 403 && declined.text.contains("/signin/with/acme"))
    let next = try await world.visit()
    world.forged.change { $0.answers = ["/token": (503, "")] }
    let away = await world.finish(next)
    #expect(away.status == 503 && away.text.contains("Try again in a few seconds"))
    #expect(world.signIns.isEmpty && world.refusals == ["provider provider"], "only the person's no is a refusal")
  }

  @Test(arguments: [
    (SignInByIdentity.Refusal.closed, "New people can&#39;t sign up here"), (.uninvited, "Only invited people"),
    (.addressTaken, "Somebody has an account with your e-mail address"), (.disabled, "This account is closed"),
  ])
  func `a refusal of the directory is told`(_ refusal: SignInByIdentity.Refusal, _ sentence: String) async throws {
    let world = try await IdentityWorld()
    world.gateway.record.withLock { $0.identityRefusal = refusal }
    let page = await world.finish(try await world.visit())
    #expect(page.status == 403 && page.text.contains(sentence) && !page.text.contains("ses_new"))
  }

  @Test func `a provider that answers by form gets a cookie that comes with it, and its names count`() async throws {
    let world = try await IdentityWorld(publicURL: "https://sync.example.org", answersByForm: true)
    world.forged.change { $0.claims = ["given_name": nil, "family_name": nil] }
    let begun = try await world.begin()
    #expect(begun.header("Location")?.hasSuffix("&response_mode=form_post") == true)
    #expect(begun.header("Set-Cookie")?.hasSuffix("; HttpOnly; SameSite=None; Secure") == true)
    let visit = try await world.visit()
    let fields = visit.parameters.map { "\($0.0)=\($0.1)" }.joined(separator: "&")
    let user = "%7B%22name%22%3A%7B%22firstName%22%3A%22Ada%22%2C%22lastName%22%3A%22King%22%7D%7D"
    let finished = await world.gateway.respond(
      .post, "/signin/return/acme", headers: [("cookie", visit.cookie), ("sec-fetch-site", "cross-site")],
      body: "\(fields)&user=\(user)")
    #expect(finished.status == 200)
    #expect(world.signIns.last?.person.givenName == "Ada" && world.signIns.last?.person.familyName == "King")
  }
}

@Suite struct IdentityExchangeTests {
  private static let path = "/identity/1/\(GatewayWorld.container)/development/exchange"

  private func exchange(
    _ world: IdentityWorld, _ token: String, nonce: String = "n-1", provider: String = "acme",
    api: String = GatewayWorld.apiToken
  ) async -> HTTPResponse {
    await world.gateway.respond(
      .post, Self.path, query: [("ckAPIToken", api)],
      body: #"{"provider":"\#(provider)","idToken":"\#(token)","nonce":"\#(nonce)"}"#)
  }

  @Test func `a native app's token is exchanged once`() async throws {
    let world = try await IdentityWorld()
    let token = world.forged.idToken(clientID: "org.example.app", nonce: "n-1")
    let answer = await exchange(world, token)
    #expect(answer.status == 200)
    #expect(try answer.json["ckWebAuthToken"]?.string == "ses_new")
    #expect(try answer.json["userRecordName"]?.string == "_alice")
    #expect(world.signIns.last?.isKept == true && world.signIns.last?.grant == "grant-" + GatewayWorld.apiToken)
    let asked = world.gateway.record.withLock(\.providerQuestions)
    #expect(asked.map { $0?.rawValue } == [GatewayWorld.container], "another app's providers vouch for nobody here")
    let again = await exchange(world, token)
    #expect(again.status == 401)
    #expect(try again.json["reason"]?.string == "The ID token was used before")
    #expect(world.signIns.count == 1 && world.refusals.isEmpty, "the directory notes what it refuses")
  }

  @Test func `a token is not used up by a request that the directory did not carry out`() async throws {
    let world = try await IdentityWorld()
    world.gateway.record.withLock { $0.identityFailures = [.unreachable] }
    let token = world.forged.idToken(clientID: "org.example.app", nonce: "n-1")
    #expect(await exchange(world, token).status == 503)
    let answer = await exchange(world, token)
    #expect(try answer.json["ckWebAuthToken"]?.string == "ses_new")
  }

  @Test func `a token opens one session at a share service of the release before, too`() async throws {
    let world = try await IdentityWorld()
    world.gateway.record.withLock { $0.claimsWithSession = false }
    let token = world.forged.idToken(clientID: "org.example.app", nonce: "n-1")
    #expect(await exchange(world, token).status == 200)
    let again = await exchange(world, token)
    #expect(again.status == 401)
    #expect(try again.json["reason"]?.string == "The ID token was used before")
    #expect(world.refusals == ["exchange used"])
    #expect(world.signIns.count == 1)
  }

  @Test func `the other spelling of a signature is no other token`() async throws {
    let world = try await IdentityWorld()
    world.forged.change { ($0.key, $0.algorithm, $0.header, $0.publishedKeys) = (curve, "ES256", [:], [curve]) }
    let token = world.forged.idToken(clientID: "org.example.app", nonce: "n-1")
    let parts = token.split(separator: ".").map(String.init)
    let signature = try #require(Base64URL.decode(parts[2]))
    let negated = signature.prefix(32) + Self.negated(Array(signature.suffix(32)))
    #expect(await exchange(world, token).status == 200)
    let again = await exchange(world, "\(parts[0]).\(parts[1]).\(Base64URL.encode(Array(negated)))")
    #expect(try again.json["reason"]?.string == "The ID token was used before", "the signature itself is valid")
  }

  /// `n - s` for the order n of P-256.
  private static func negated(_ s: [UInt8]) -> [UInt8] {
    let order: [UInt8] = [
      0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad, 0xa7,
      0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ]
    var (difference, borrow) = (order, 0)
    for index in order.indices.reversed() {
      let value = Int(order[index]) - Int(s[index]) - borrow
      borrow = value < 0 ? 1 : 0
      difference[index] = UInt8(truncatingIfNeeded: value)
    }
    return difference
  }

  @Test func `a token for another client, another nonce, and one without an app are refused`() async throws {
    let world = try await IdentityWorld()
    let token = world.forged.idToken(clientID: "org.example.app", nonce: "n-1")
    let web = await exchange(world, world.forged.idToken(clientID: "aquifer", nonce: "n-1"))
    #expect(web.status == 401)
    #expect(try web.json["reason"]?.string == "The token is for another client")
    #expect(await exchange(world, token, nonce: "n-2").status == 401)
    #expect(await exchange(world, token, provider: "rival").status == 404)
    #expect(await exchange(world, token, api: "unknown").status == 401)
    let bare = await world.gateway.respond(.post, Self.path, body: "{}")
    #expect(bare.status == 401)
    #expect(world.signIns.isEmpty && world.refusals == ["exchange provider", "exchange provider"])
    #expect(await exchange(world, token).status == 200, "no refusal has used the token up")
  }

  @Test func `a refusal of the directory is an error with its sentence`() async throws {
    let world = try await IdentityWorld()
    world.gateway.record.withLock { $0.identityRefusal = .uninvited }
    let answer = await exchange(world, world.forged.idToken(clientID: "org.example.app", nonce: "n-1"))
    #expect(answer.status == 403)
    #expect(try answer.json["reason"]?.string?.contains("nobody has invited") == true)
  }
}
