// Passkeys at the gateway: the challenges of its pages, and the answers of authenticators that it passes on.

import Crypto
import HTTPServer
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import Gateway

@Suite struct PasskeyPageTests {
  private static let form = "act=passkey&credential=AQ&client=e30&data=Ag&signature=Aw&user=BA"

  private func challenge(of page: HTTPResponse) throws -> PasskeyChallenge {
    let text = try #require(page.text.firstMatch(of: /data-challenge="([^"]+)"/)?.output.1)
    let bytes = try #require(Base64URL.decode(text))
    return try #require(
      PasskeyChallenge(
        text: String(decoding: bytes, as: UTF8.self), verifiedWith: GatewayWorld.signingKey, now: 1_700_000_000_000))
  }

  private func post(_ world: IdentityWorld, _ form: String) async throws -> HTTPResponse {
    await world.gateway.respond(
      .post, "/signin", query: [("state", try world.state())], headers: [("sec-fetch-site", "same-origin")],
      body: form)
  }

  @Test func `the sign-in page has a challenge for the server's name, another each time`() async throws {
    let world = try await IdentityWorld(publicURL: "https://sync.example.org")
    var pages: [HTTPResponse] = []
    for _ in 0..<2 {
      pages.append(await world.gateway.respond(.get, "/signin", query: [("state", try world.state())]))
    }
    #expect(pages[0].text.contains("data-host=\"sync.example.org\"") && pages[0].text.contains("Use a passkey"))
    let challenges = try pages.map(challenge)
    #expect(challenges[0].purpose == .signIn && challenges[0].nonce != challenges[1].nonce)
    #expect(challenges[0].expiry == 1_700_000_900_000)
  }

  @Test(arguments: ["http://gateway", "https://192.0.2.1", "https://[2001:db8::1]:8443"])
  func `no passkey is offered or taken where browsers make none`(publicURL: String) async throws {
    let world = try await IdentityWorld(publicURL: publicURL)
    let page = await world.gateway.respond(.get, "/signin", query: [("state", try world.state())])
    #expect(!page.text.contains("data-challenge") && !page.text.contains("Use a passkey"))
    #expect(try await post(world, Self.form).status == 400)
    #expect(world.gateway.record.withLock(\.passkeySignIns).isEmpty)
  }

  @Test func `an authenticator's answer signs in, with this server's name and origin`() async throws {
    let world = try await IdentityWorld(publicURL: "https://sync.example.org:8443")
    let page = try await post(world, Self.form + "&keep=yes")
    #expect(page.status == 200 && page.text.contains("data-token=\"ses_new\""))
    let message = try #require(world.gateway.record.withLock(\.passkeySignIns).last)
    #expect(
      message.assertion
        == PasskeyAssertion(
          credentialID: [1], clientData: Array("{}".utf8), authenticatorData: [2], signature: [3],
          relyingParty: RelyingParty(id: "sync.example.org", origin: "https://sync.example.org:8443"),
          userHandle: [4]))
    #expect(message.isKept && message.grant == "app" && message.source.way == .passkey)
    #expect(try await post(world, Self.form.replacing("user=BA", with: "user=")).status == 200)
    let other = try #require(world.gateway.record.withLock(\.passkeySignIns).last)
    #expect(!other.isKept && other.assertion.userHandle == nil)
  }

  @Test func `a refused passkey leads back to the page, and a foreign form nowhere`() async throws {
    let world = try await IdentityWorld(publicURL: "https://sync.example.org")
    let refused = try await post(world, Self.form.replacing("credential=AQ", with: "credential=Ag"))
    #expect(refused.status == 403 && refused.text.contains("does not sign you in"))
    let foreign = await world.gateway.respond(
      .post, "/signin", query: [("state", try world.state())], headers: [("sec-fetch-site", "cross-site")],
      body: Self.form)
    #expect(foreign.status == 403 && world.gateway.record.withLock(\.passkeySignIns).count == 1)
    #expect(try await post(world, "act=passkey&credential=*&client=e30&data=Ag&signature=Aw").status == 400)
  }

  @Test func `the account page registers a passkey for its user alone`() async throws {
    let world = try await IdentityWorld.withAccount(publicURL: "https://sync.example.org")
    let cookie = try await world.accountCookie()
    let page = await world.gateway.respond(.get, "/account", headers: [cookie])
    #expect(try challenge(of: page).purpose == .registration(userRecordName: "_alice"))
    let added = await world.gateway.respond(
      .post, "/account", headers: [("sec-fetch-site", "same-origin"), cookie],
      body: "act=passkey&client=e30&data=Ag&key=Aw")
    #expect(added.status == 200)
    guard case .addPasskey(let registration) = world.acts.last else {
      Issue.record("\(world.acts)")
      return
    }
    #expect(registration.publicKey == [3] && registration.relyingParty.id == "sync.example.org")
  }
}
