// The page of a share in browsers that are kept signed in.

import FixedClocks
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

/// Browsers whose users chose to stay signed in.
@Suite struct KeptSignInTests {
  private static let guid = ShortGUID(shard: 1) { Array(repeating: 1, count: $0) }.text
  private static let absent = ShortGUID(shard: 1) { Array(repeating: GatewayWorld.absent, count: $0) }.text
  private static let share =
    #"{"participantType":"USER","participantStatus":"INVITED","share":{"fields":{"cloudkit.title":{"value":"Trip"}}}}"#

  private func state(_ environment: Environment = .production) throws -> String {
    SignInState(
      container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: environment,
      origin: "https://app.example", callbackURL: nil,
      expiry: 1_700_000_000_001, grant: "app"
    ).text(signedWith: GatewayWorld.signingKey)
  }

  /// The browser's cookie after a sign-in, as it sends it back.
  private func cookie(_ world: GatewayWorld, _ environment: Environment = .production, keep: String = "&keep=yes")
    async throws -> String?
  {
    let signedIn = await world.respond(
      .post, "/signin", query: [("state", try state(environment))], headers: [("sec-fetch-site", "same-origin")],
      body: "name=alice&password=right\(keep)")
    #expect(signedIn.status == 200)
    return signedIn.header("Set-Cookie").map { String($0.prefix { $0 != ";" }) }
  }

  private func visit(_ world: GatewayWorld, _ guid: String = guid, cookie: String?, query: [(String, String)] = [])
    async -> HTTPResponse
  {
    await world.respond(.get, "/share/\(guid)", query: query, headers: cookie.map { [("cookie", "a=b; \($0)")] } ?? [])
  }

  @Test func `a share of the same container shows at once`() async throws {
    let asked = Mutex<[ResolveShortGUIDs]>([])
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"],
      sharing: { message in
        asked.withLock { $0.append(message) }
        return Self.share
      })
    let cookie = try #require(try await cookie(world))
    let page = await visit(world, cookie: cookie)
    #expect(
      page.status == 200 && page.text.contains("<h1>Trip</h1>")
        && page.text.contains("Signed in as <strong>alice</strong>"))
    #expect(asked.withLock { $0.map(\.caller.userRecordName) } == ["_alice"])
    // Visitors accept with the page's ticket, as after a sign-in there.
    let ticket = try #require(page.text.firstMatch(of: /name="ticket" value="([^"]+)"/)).output.1
    let done = await world.respond(
      .post, "/share/\(Self.guid)", headers: [("sec-fetch-site", "same-origin"), ("cookie", cookie)],
      body: "ticket=\(ticket)&action=accept")
    #expect(done.text.contains("You have joined"))
    let other = await visit(world, cookie: cookie, query: [("account", "another")])
    #expect(other.text.contains("<input id=\"password\"") && !other.text.contains("Trip"))
  }

  @Test func `the cookie is sent to pages of shares alone, read by no script, and only secured where the server is`()
    async throws
  {
    let world = try await GatewayWorld()
    let signedIn = await world.respond(
      .post, "/signin", query: [("state", try state())], headers: [("sec-fetch-site", "same-origin")],
      body: "name=alice&password=right&keep=yes")
    let cookie = try #require(signedIn.header("Set-Cookie"))
    #expect(cookie.hasSuffix("; Path=/share/; Max-Age=1209600; HttpOnly; SameSite=Lax"))
    #expect(!cookie.contains("ses_new"), "the session's token is the app's alone")
  }

  @Test func `nobody is kept who did not ask for it, and an earlier user's cookie goes`() async throws {
    let world = try await GatewayWorld()
    #expect(try await cookie(world, keep: "") == nil)
    let signedIn = await world.respond(
      .post, "/signin", query: [("state", try state())],
      headers: [("sec-fetch-site", "same-origin"), ("cookie", "aquifer-signed-in=x")],
      body: "name=alice&password=right")
    #expect(signedIn.header("Set-Cookie")?.hasPrefix("aquifer-signed-in=; Path=/share/; Max-Age=0") == true)
  }

  @Test func `an invalid sign-in, an unknown link and another visitor's share look as they do to strangers`()
    async throws
  {
    let isThere = Mutex(true)
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"], sharing: { _ in isThere.withLock(\.self) ? Self.share : "null" })
    let stranger = await visit(world, cookie: nil)
    #expect(stranger.text.contains("<input id=\"password\""))
    let kept = try #require(try await cookie(world))
    func expectStranger(_ page: HTTPResponse, _ why: Comment) {
      #expect(page.bytes == stranger.bytes && page.status == stranger.status, why)
    }
    expectStranger(
      await visit(world, cookie: try await cookie(world, .development)), "signed in to another environment")
    expectStranger(await visit(world, cookie: "aquifer-signed-in=forged"), "a forged cookie")
    expectStranger(await visit(world, cookie: String(kept.dropLast())), "a cookie that was cut")
    expectStranger(await visit(world, Self.absent, cookie: kept), "an unknown link")
    isThere.withLock { $0 = false }
    expectStranger(await visit(world, cookie: kept), "a share that is not for the visitor")
    isThere.withLock { $0 = true }
    #expect(await visit(world, cookie: kept).text.contains("Trip"))
    world.record.withLock { _ = $0.disabled.insert("_alice") }
    expectStranger(await visit(world, cookie: kept), "a user who was disabled")
  }

  @Test func `a cookie ends with its session`() async throws {
    let world = try await GatewayWorld(workers: ["worker-1", "worker-2"], sharing: { _ in Self.share })
    let kept = try #require(try await cookie(world))
    world.record.withLock { _ = $0.revoked.insert("ses_new") }
    #expect(await visit(world, cookie: kept).text.contains("<input id=\"password\""))
  }

  @Test func `a cookie ends with its session also when the share service misses the question`() async throws {
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"], timing: FixedTime().skippingPauses, sharing: { _ in Self.share })
    let kept = try #require(try await cookie(world))
    world.record.withLock { $0.missedGrantCount = 1 }
    #expect(await visit(world, cookie: kept).text.contains("Trip"), "the question is asked again")
    world.record.withLock { record in
      record.missedGrantCount = 1
      _ = record.revoked.insert("ses_new")
    }
    #expect(await visit(world, cookie: kept).text.contains("<input id=\"password\""))
    world.record.withLock { record in
      record.missedGrantCount = .max
      record.revoked = []
    }
    #expect(await visit(world, cookie: kept).text.contains("<input id=\"password\""), "nobody can say")
  }

  @Test func `nothing is accepted with a page whose session has ended since`() async throws {
    let asked = Mutex<[ResolveShortGUIDs.Purpose]>([])
    let world = try await GatewayWorld(
      workers: ["worker-1", "worker-2"], timing: FixedTime().skippingPauses,
      sharing: { message in
        asked.withLock { $0.append(message.purpose) }
        return Self.share
      })
    let kept = try #require(try await cookie(world))
    let page = await visit(world, cookie: kept)
    let ticket = try #require(page.text.firstMatch(of: /name="ticket" value="([^"]+)"/)).output.1
    func accept() async -> HTTPResponse {
      await world.respond(
        .post, "/share/\(Self.guid)", headers: [("sec-fetch-site", "same-origin"), ("cookie", kept)],
        body: "ticket=\(ticket)&action=accept")
    }
    world.record.withLock { $0.missedGrantCount = .max }
    #expect(await accept().status == 503)
    world.record.withLock { record in
      record.missedGrantCount = 0
      _ = record.revoked.insert("ses_new")
    }
    let refused = await accept()
    #expect(refused.status == 403 && refused.text.contains("<input id=\"password\""))
    #expect(asked.withLock(\.self) == [.resolve])
  }
}
