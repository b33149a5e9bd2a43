// Attempts to sign in at a provider count no longer than the page that began them, and for its purpose alone.

import ForgedProvider
import HTTPServer
import OpenID
import Records
import Testing
import WebServices

@testable import Gateway

@Suite struct IdentityAttemptTests {
  private static let now: Int64 = 1_700_000_000_000

  /// The text of the account page's statement.
  private func account(until expiry: Int64) throws -> String {
    KeptSignIn(
      for: .account, container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: .development,
      userRecordName: "_alice", userName: "alice", grant: "grant-ses_new", expiry: expiry
    ).text(signedWith: GatewayWorld.signingKey)
  }

  /// The answer to a browser that comes back with a right code and with an attempt of this kind.
  private func finish(
    _ world: IdentityWorld, _ purpose: IdentityAttempt.Purpose, origin: String, until expiry: Int64 = now + 900_000
  ) async throws -> HTTPResponse {
    let visit = try await world.visit()
    let cookie = try #require(visit.cookie.split(separator: "=", maxSplits: 1).last.map(String.init))
    let own = try #require(
      IdentityAttempt(text: cookie, verifiedWith: GatewayWorld.signingKey, now: Self.now), "the gateway's own attempt")
    let attempt = IdentityAttempt(
      provider: own.provider, origin: origin, state: own.state, nonce: own.nonce, verifier: own.verifier,
      purpose: purpose, expiry: expiry
    ).text(signedWith: GatewayWorld.signingKey)
    return await world.finish(
      IdentityWorld.Visit(
        parameters: visit.parameters, cookie: visit.cookie.replacing(cookie, with: attempt)))
  }

  @Test func `an attempt ends with the page that began it, and serves no other page`() async throws {
    let world = try await IdentityWorld.withAccount()
    let (state, oldState) = (try world.state(), try world.state(expiry: Self.now))
    let (page, oldPage) = (try account(until: Self.now + 60_000), try account(until: Self.now))
    let refused: [(IdentityAttempt.Purpose, String)] = [
      (.app, oldState), (.keptApp, oldState), (.account(deviceCode: nil), oldState), (.link, oldPage), (.app, page),
      (.account(deviceCode: nil), page), (.link, state), (.link, ""), (.app, ""),
    ]
    for (purpose, origin) in refused {
      let answer = try await finish(world, purpose, origin: origin)
      #expect(answer.status == 400 && answer.text.contains("began in another browser"), "\(purpose) \(answer.status)")
    }
    #expect(try await finish(world, .app, origin: state, until: Self.now).status == 400, "the attempt has its own end")
    #expect(world.signIns.isEmpty && world.acts.isEmpty && !world.forged.requests.contains("POST /token"))
    #expect(try await finish(world, .app, origin: state).status == 200)
    #expect(try await finish(world, .link, origin: page).status == 200)
    #expect(world.signIns.count == 1 && world.acts.count == 1)
  }

  @Test func `an answer that names another provider counts for nothing`() async throws {
    let world = try await IdentityWorld()
    for (issuer, status) in [("https://rival.example.org", 403), (world.forged.issuer, 200)] {
      var visit = try await world.visit()
      visit.parameters.append(("iss", issuer))
      #expect(await world.finish(visit).status == status, "\(issuer)")
    }
    #expect(world.signIns.count == 1)
  }
}
