// Sign-in of devices by a code: their calls, and the page on which a person allows them.

import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import Gateway

private let fromPage = [("sec-fetch-site", "same-origin"), ("origin", "http://gateway")]

@Suite struct DeviceCallTests {
  private func call(_ world: GatewayWorld, _ name: String, _ body: String, api: String? = GatewayWorld.apiToken) async
    -> HTTPResponse
  {
    await world.respond(
      .post, "/identity/1/\(GatewayWorld.container)/development/\(name)",
      query: api.map { [("ckAPIToken", $0)] } ?? [], body: body)
  }

  private let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code"

  @Test func `a device gets its codes and the address of the page`() async throws {
    let world = try await GatewayWorld()
    let answer = await call(world, "device", "client_id=tv&device_name=Living+room")
    #expect(answer.status == 200 && answer.header("Cache-Control") == "no-store")
    let json = try answer.json
    #expect(json["device_code"]?.string == "device-1" && json["user_code"]?.string == "WDJB-MJHT")
    #expect(json["verification_uri"]?.string == "http://gateway/account/device")
    #expect(json["verification_uri_complete"]?.string == "http://gateway/account/device?code=WDJB-MJHT")
    #expect(json["expires_in"]?.int64 == 600 && json["interval"]?.int64 == 5)
    let begun = try #require(world.record.withLock(\.deviceBeginnings).last)
    #expect(begun.source == SignInSource(way: .device, address: "127.0.0.1", client: "Living room"))
    #expect(begun.grant == "grant-" + GatewayWorld.apiToken)
  }

  @Test func `a device without an app and one with a bad name get no code`() async throws {
    let world = try await GatewayWorld()
    #expect(await call(world, "device", "", api: nil).status == 401)
    #expect(await call(world, "device", "", api: "unknown").status == 401)
    for name in ["a%0Ab", String(repeating: "x", count: 61), "%"] {
      let answer = await call(world, "device", "device_name=\(name)")
      #expect(answer.status == 400)
      #expect(try answer.json["error"]?.string == "invalid_request")
    }
    #expect(world.record.withLock(\.deviceBeginnings).isEmpty)
  }

  @Test(arguments: [
    (PollDeviceSignIn.Reply.pending, "authorization_pending"), (.slowDown, "slow_down"), (.refused, "access_denied"),
    (.expired, "expired_token"),
  ])
  func `a device hears why it is not signed in`(_ reply: PollDeviceSignIn.Reply, _ word: String) async throws {
    let world = try await GatewayWorld()
    world.record.withLock { $0.devicePoll = reply }
    let answer = await call(world, "token", "\(grant)&device_code=device-1")
    #expect(answer.status == 400 && answer.header("Cache-Control") == "no-store")
    #expect(try answer.json["error"]?.string == word)
  }

  @Test func `a device gets its token, and nothing for another grant`() async throws {
    let world = try await GatewayWorld()
    world.record.withLock { $0.devicePoll = .signedIn(webAuthToken: "ses_new") }
    let answer = await call(world, "token", "\(grant)&device_code=device-1")
    #expect(answer.status == 200)
    #expect(try answer.json["access_token"]?.string == "ses_new" && answer.json["token_type"]?.string == "Bearer")
    let other = await call(world, "token", "grant_type=password&device_code=device-1")
    #expect(try other.json["error"]?.string == "unsupported_grant_type")
    #expect(try await call(world, "token", grant).json["error"]?.string == "invalid_request")
    #expect(await call(world, "token", "\(grant)&device_code=device-1", api: nil).status == 401)
  }
}

@Suite struct DevicePageTests {
  private func get(_ world: IdentityWorld, _ code: String?, _ cookie: (String, String)? = nil) async -> HTTPResponse {
    await world.gateway.respond(
      .get, "/account/device", query: code.map { [("code", $0)] } ?? [], headers: cookie.map { [$0] } ?? [])
  }

  private func post(
    _ world: IdentityWorld, _ form: String, _ cookie: (String, String), headers: [(String, String)] = fromPage
  ) async -> HTTPResponse {
    await world.gateway.respond(.post, "/account/device", headers: headers + [cookie], body: form)
  }

  @Test func `the page asks for a code, and names no device behind a wrong one`() async throws {
    let world = try await IdentityWorld.withAccount()
    #expect(await get(world, nil).text.contains("Type the code that the device shows"))
    for code in ["x", "BCDF-GHJK"] {
      let page = await get(world, code)
      #expect(page.status == 403 && page.text.contains("No device waits with this code"))
    }
    let often = await get(world, "BBBB-BBBB")
    #expect(often.status == 429 && often.header("Retry-After") == "30")
  }

  @Test func `a person signs in first, and then sees the device, its place and the app`() async throws {
    let world = try await IdentityWorld.withAccount()
    let form = await get(world, "wdjb-mjht")
    #expect(form.text.contains("before you sign a device in") && !form.text.contains("Living room"))
    let action = try #require(form.text.firstMatch(of: /action="\/account\?state=([^&"]+)&amp;code=WDJBMJHT"/))
    let entered = await world.gateway.respond(
      .post, "/account", query: [("state", String(action.output.1)), ("code", "WDJBMJHT")], headers: fromPage,
      body: "name=alice&password=right")
    #expect(entered.status == 303 && entered.header("Location") == "/account/device?code=WDJB-MJHT")
    let cookie = try #require(entered.header("Set-Cookie")?.split(separator: ";").first.map(String.init))
    let page = await get(world, "WDJB-MJHT", ("cookie", cookie))
    for text in ["&lt;i&gt;Living room", "192.0.2.9", "60 s ago", "WDJB-MJHT", "as <strong>alice</strong>"] {
      #expect(page.text.contains(text), "\(text)")
    }
    #expect(world.acts.isEmpty, "nothing is allowed by looking")
  }

  @Test func `a sign-in with a provider leads back to the device`() async throws {
    let world = try await IdentityWorld.withAccount()
    let form = await get(world, "WDJB-MJHT")
    #expect(form.text.contains("&amp;for=account&amp;code=WDJBMJHT"))
    let begun = await world.gateway.respond(
      .get, "/signin/with/acme", query: [("state", try world.state()), ("for", "account"), ("code", "WDJBMJHT")],
      headers: IdentityWorld.own)
    let finished = await world.finish(try await world.visit(begun))
    #expect(finished.status == 303 && finished.header("Location") == "/account/device?code=WDJB-MJHT")
  }

  @Test func `a person allows a device or turns it away, and no foreign form does`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    let code = try #require(UserCode("WDJBMJHT"))
    for headers in [[("sec-fetch-site", "cross-site")], [("origin", "https://evil.example")]] {
      #expect(await post(world, "act=allow&code=WDJBMJHT", cookie, headers: headers).status == 403)
    }
    #expect(await post(world, "act=allow&code=WDJBMJHT", ("cookie", "aquifer-account=ses_new")).status == 400)
    for form in ["", "act=allow", "act=steal&code=WDJBMJHT", "act=allow&code=1"] {
      #expect(await post(world, form, cookie).status == 400)
    }
    #expect(world.acts.isEmpty)
    #expect(await post(world, "act=allow&code=WDJBMJHT", cookie).text.contains("The device is signed in"))
    #expect(await post(world, "act=refuse&code=WDJBMJHT", cookie).text.contains("was turned away"))
    #expect(world.acts == [.allowDevice(code), .refuseDevice(code)])
    world.gateway.record.withLock { $0.accountRefusal = .device }
    #expect(await post(world, "act=allow&code=WDJBMJHT", cookie).status == 403)
    #expect(world.gateway.record.withLock(\.accountUses).allSatisfy { $0.clientAddress == "127.0.0.1" })
    world.gateway.record.withLock { $0.accountWait = 30 }
    let often = await post(world, "act=allow&code=WDJBMJHT", cookie)
    #expect(often.status == 429 && often.header("Retry-After") == "30")
    world.gateway.record.withLock { record in (record.account, record.accountWait) = (nil, nil) }
    let left = await post(world, "act=allow&code=WDJBMJHT", cookie)
    #expect(left.text.contains("signed out of this page") && left.header("Set-Cookie") != nil)
  }
}
