import Authentication
import Crypto
import FixedClocks
import HTTPServer
import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

private let caller = "/database/1/\(GatewayWorld.container)/development/public/users/caller"
private let now: Int64 = 1_700_000_000_000

extension GatewayWorld {
  fileprivate func state(origin: String? = "https://app.example", callback: String? = nil, expiry: Int64 = now + 1)
    throws -> String
  {
    SignInState(
      container: try #require(ContainerID(rawValue: Self.container)), environment: .development, origin: origin,
      callbackURL: callback, expiry: expiry,
      grant: "app"
    ).text(signedWith: Self.signingKey)
  }

  fileprivate func post(
    _ state: String, _ form: String,
    headers: [(String, String)] = [("sec-fetch-site", "same-origin"), ("origin", "http://gateway")]
  ) async
    -> HTTPResponse
  {
    await respond(.post, "/signin", query: [("state", state)], headers: headers, body: form)
  }
}

@Suite struct SignInURLTests {
  private func stateOf(_ response: HTTPResponse) throws -> SignInState {
    #expect(response.status == 421)
    let error = try response.json
    #expect(
      error["serverErrorCode"]?.string == "AUTHENTICATION_REQUIRED"
        && error["reason"]?.string == "request needs authorization")
    let url = try #require(error["redirectURL"]?.string)
    #expect(url.hasPrefix("http://gateway/signin?state="))
    let text = try #require(url.split(separator: "=").last.map(String.init))
    let state = try #require(SignInState(text: text, verifiedWith: GatewayWorld.signingKey, now: now))
    #expect(state.expiry == now + 900_000)
    return state
  }

  @Test func `without a user the answer says where to sign in for this app and page`() async throws {
    let world = try await GatewayWorld()
    world.record.withLock { $0.callbackURL = "myapp://done" }
    let query = [("ckAPIToken", GatewayWorld.apiToken)]
    let paths = [
      caller, "/database/1/\(GatewayWorld.container)/development/public/users/current",
      "\(GatewayWorld.records)/zones/list",
    ]
    for path in paths {
      let state = try stateOf(
        await world.respond(.get, path, query: query, headers: [("origin", "https://page.example")]))
      #expect(state.container.rawValue == GatewayWorld.container && state.environment == .development)
      #expect(state.origin == "https://page.example" && state.callbackURL == "myapp://done")
      #expect(
        state.grant == "grant-" + GatewayWorld.apiToken, "the sign-in ends with the API token it was asked for with")
    }
    // Chromium repeats such a request by itself.
    _ = try stateOf(await world.respond(.get, caller, query: query, headers: [("origin", "https://page.example")]))
  }

  @Test func `only an origin that a message can be addressed to is bound`() async throws {
    let world = try await GatewayWorld()
    let query = [("ckAPIToken", GatewayWorld.apiToken)]
    for (headers, origin) in [
      ([], nil), ([("origin", "null")], nil), ([("origin", "*")], nil), ([("origin", "https://a/b")], nil),
      ([("origin", "https://\"onload=")], nil),
      ([("sec-fetch-site", "cross-site")], nil), ([("sec-fetch-site", "same-origin")], "http://gateway"),
      ([("origin", "capacitor://localhost")], "capacitor://localhost"),
      ([("origin", "http://127.0.0.1:3000")], "http://127.0.0.1:3000"),
    ] as [([(String, String)], String?)] {
      #expect(
        try stateOf(await world.respond(.get, caller, query: query, headers: headers)).origin == origin, "\(headers)")
    }
  }

  @Test func `a page of another origin than the token's is not sent to sign in`() async throws {
    let world = try await GatewayWorld()
    let query = [("ckAPIToken", GatewayWorld.restrictedToken)]
    let refused = await world.respond(.get, caller, query: query, headers: [("origin", "https://evil.example")])
    #expect(refused.status == 403 && refused.header("Access-Control-Allow-Origin") == nil)
    #expect(
      try stateOf(await world.respond(.get, caller, query: query, headers: [("origin", "https://app.example")])).origin
        == "https://app.example")
    // This server's own origin is not among the token's allowed ones.
    #expect(
      try stateOf(await world.respond(.get, caller, query: query, headers: [("sec-fetch-site", "same-origin")])).origin
        == nil)
  }

  @Test func `a user of an ended session has to sign in again`() async throws {
    let world = try await GatewayWorld()
    let query = [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "ses_gone")]
    let response = await world.respond(.get, caller, query: query, headers: [("origin", "https://page.example")])
    #expect(response.status == 421)
    #expect(try response.json["redirectURL"]?.string?.contains("/signin?state=") == true)
    let bearer = await world.respond(.get, caller, headers: [("authorization", "Bearer ses_gone")])
    #expect(bearer.status == 401)
  }
}

@Suite struct SignInPageTests {
  @Test func `the page asks for what it needs, loads nothing, runs nothing but its own and shows in no frame`()
    async throws
  {
    let world = try await GatewayWorld()
    let response = await world.respond(
      .get, "/signin", query: [("state", try world.state())], headers: [("origin", "https://evil.example")])
    #expect(response.status == 200)
    #expect(response.header("Content-Type") == "text/html; charset=utf-8")
    #expect(response.header("Cache-Control") == "no-store")
    #expect(response.header("X-Frame-Options") == "DENY")
    #expect(response.header("X-Content-Type-Options") == "nosniff")
    #expect(response.header("Referrer-Policy") == "same-origin")
    #expect(response.header("Access-Control-Allow-Origin") == nil)
    let policy = try #require(response.header("Content-Security-Policy"))
    for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self';"] {
      #expect(policy.contains(part), "\(part)")
    }
    #expect(!policy.contains("unsafe"))
    let html = response.text
    for id in ["name", "password", "keep"] {
      #expect(html.contains("<label for=\"\(id)\">") && html.contains("<input id=\"\(id)\" name=\"\(id)\""))
    }
    for part in [
      "id=\"submit\"", "autocomplete=\"username\"", "autocomplete=\"current-password\"", "lang=\"en\"",
      "width=device-width", "Photo Book",
      "https://app.example",
    ] {
      #expect(html.contains(part), "\(part)")
    }
    for part in ["src=", "@import", "url(", " style=", "onclick"] { #expect(!html.contains(part), "\(part)") }
    let links = html.matches(of: /href="([^"]*)"/).map { String($0.output.1.prefix { $0 != "?" }) }
    #expect(links == ["/account"], "the only link is to a page of this server")
  }

  /// Compares as a browser does.
  @Test func `the policy names the page's script and style by their hash`() async throws {
    let world = try await GatewayWorld()
    var pages = [await world.respond(.get, "/signin", query: [("state", try world.state())])]
    pages.append(await world.respond(.get, "/signin", query: [("state", "x")]))
    pages.append(await world.post(try world.state(), "name=alice&password=right"))
    for page in pages {
      let policy = try #require(page.header("Content-Security-Policy"))
      for tag in ["script", "style"] {
        let content = try #require(
          page.text.firstMatch(of: try Regex("(?s)<\(tag)>(.*?)</\(tag)>"))?.output[1].substring)
        #expect(policy.contains("\(tag)-src 'sha256-\(Base64.encode(SHA256.hash(String(content))))'"))
      }
    }
  }

  @Test(arguments: ["", "x", "AAAA"])
  func `without a state of ours there is nothing to type into, and the app is told`(text: String) async throws {
    let world = try await GatewayWorld()
    for method in [HTTPMethod.get, .post] {
      let response = await world.respond(
        method, "/signin", query: text.isEmpty ? [] : [("state", text)], body: "name=alice&password=right")
      #expect(response.status == 400)
      #expect(!response.text.contains("<form") && response.text.contains("errorMessage"))
    }
    #expect(await world.respond(.get, "/signin", query: [("state", try world.state(expiry: now))]).status == 400)
    #expect(world.record.withLock(\.signIns).isEmpty)
  }

  @Test func `a right password hands the token to the page that asked, and to it alone`() async throws {
    let world = try await GatewayWorld()
    let response = await world.post(try world.state(), "name=+alice+&password=right")
    #expect(response.status == 200)
    #expect(response.text.contains("data-origin=\"https://app.example\" data-token=\"ses_new\""))
    #expect(response.text.matches(of: /postMessage/).count == 1)
    #expect(
      response.text.contains("postMessage({ckSession: token, ckWebAuthToken: token}, page.origin)")
        && !response.text.contains("'*'"))
    #expect(response.header("Cache-Control") == "no-store" && response.header("Access-Control-Allow-Origin") == nil)
    let message = try #require(world.record.withLock(\.signIns).first)
    #expect(
      message.userName == "alice" && message.password == "right" && !message.isKept
        && message.clientAddress == "127.0.0.1")
    #expect(message.container.rawValue == GatewayWorld.container && message.environment == .development)
  }

  @Test func `with a callback the browser is sent there with both parameters`() async throws {
    let world = try await GatewayWorld()
    for (callback, location) in [
      ("https://app.example/done", "https://app.example/done?ckWebAuthToken=ses_new&ckSession=ses_new"),
      ("myapp://done?a=b", "myapp://done?a=b&ckWebAuthToken=ses_new&ckSession=ses_new"),
    ] {
      let response = await world.post(try world.state(callback: callback), "name=alice&password=right&keep=yes")
      #expect(response.status == 302 && response.header("Location") == location)
      #expect(response.bytes.isEmpty)
      // Browsers apply `form-action` to the redirect that answers the form, too.
      let form = await world.respond(.get, "/signin", query: [("state", try world.state(callback: callback))])
      let source = callback.hasPrefix("https") ? "https://app.example" : "myapp:"
      #expect(form.header("Content-Security-Policy")?.contains("form-action 'self' \(source);") == true)
    }
    let areKept = world.record.withLock(\.signIns).map(\.isKept)
    #expect(areKept == [true, true])
  }

  @Test func `for nobody in particular there is a sentence, and no token`() async throws {
    let world = try await GatewayWorld()
    let response = await world.post(try world.state(origin: nil), "name=alice&password=right")
    #expect(response.status == 200 && !response.text.contains("ses_new") && response.text.contains("signed in"))
    #expect(!response.text.contains("<script"))
  }

  @Test func `a wrong password shows the reason with the form again, and what was typed but the password`() async throws
  {
    let world = try await GatewayWorld()
    let response = await world.post(try world.state(), "name=%3Cb%3E%22al%26ice&password=wr%3Cong&keep=yes")
    #expect(response.status == 403)
    #expect(response.text.contains("role=\"alert\">The name or the password is wrong."))
    #expect(response.text.contains("value=\"&lt;b&gt;&quot;al&amp;ice\"") && response.text.contains("checked"))
    #expect(!response.text.contains("wr&lt;ong") && !response.text.contains("wr<ong"))
    let late = await world.post(try world.state(), "name=alice&password=late")
    #expect(
      late.status == 403 && late.text.contains("This server no longer knows the app.") && !late.text.contains("<form"))
    #expect(world.record.withLock(\.signIns).allSatisfy { $0.grant == "app" })
    let often = await world.post(try world.state(), "name=alice&password=often")
    #expect(
      often.status == 429 && often.header("Retry-After") == "120" && often.text.contains("Try again in 2 minutes"))
    for form in [
      "", "name=alice", "name=&password=x", "name=+&password=x", "name=alice&password=", "name=%zz&password=x",
      "name=%ff&password=x",
      String(repeating: "x", count: 20_000),
    ] {
      let count = world.record.withLock(\.signIns).count
      #expect(await world.post(try world.state(), form).status == 400, "\(form.prefix(30))")
      #expect(world.record.withLock(\.signIns).count == count)
    }
  }

  @Test func `another site can't send the form`() async throws {
    let world = try await GatewayWorld()
    for headers in [
      [("origin", "https://evil.example")], [("origin", "null")], [("sec-fetch-site", "cross-site")],
      [("sec-fetch-site", "same-site"), ("origin", "http://gateway")],
      [("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")],
      [("origin", "http://gateway.evil.example"), ("host", "gateway")],
    ] as [[(String, String)]] {
      let response = await world.post(try world.state(), "name=alice&password=right", headers: headers)
      #expect(response.status == 403 && !response.text.contains("<form"), "\(headers)")
    }
    #expect(world.record.withLock(\.signIns).isEmpty)
    for headers in [
      [], [("origin", "http://gateway")],
      [("origin", "https://other.name:8443"), ("host", "other.name:8443"), ("sec-fetch-site", "same-origin")],
    ]
      as [[(String, String)]]
    {
      #expect(
        await world.post(try world.state(), "name=alice&password=right", headers: headers).status == 200, "\(headers)")
    }
  }

  @Test func `without the share service the visitor can try again`() async throws {
    let world = try await GatewayWorld(timing: FixedTime().skippingPauses)
    #expect(await world.respond(.get, "/signin", query: [("state", try world.state())]).status == 200)
    world.network.kill("share")
    let response = await world.post(try world.state(), "name=alice&password=right")
    #expect(response.status == 503 && response.text.contains("<form"))
  }
}

@Suite struct RotationTests {
  private func header(_ token: String, _ world: GatewayWorld, path: String = caller, status: Int = 200) async -> String?
  {
    let response = await world.respond(
      .get, path, query: [("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", token)])
    #expect(response.status == status)
    return response.header("X-Apple-CloudKit-Web-Auth-Token")
  }

  @Test func `a good answer hands out the successor of a session's token that is due`() async throws {
    let world = try await GatewayWorld()
    for _ in 0..<3 { #expect(await header("ses_alice", world) == "ses_alice_next") }
    #expect(world.record.withLock(\.rotations) == 1)
    #expect(await header("ses_young", world) == nil)
    #expect(await header("alice", world) == nil)
    #expect(world.record.withLock(\.rotations) == 1)
  }

  @Test func `a page's event stream rotates nothing, because its page can't read the successor`() async throws {
    let world = try await GatewayWorld { _, _, _ in
      Answer(
        DatabaseRequest.Reply(status: 200, mayWait: true),
        body: Array(#"{"events":[],"lastEvent":"0","moreComing":false}"#.utf8))
    }
    func header(_ query: [(String, String)], _ headers: [(String, String)]) async -> String? {
      let response = await world.respond(
        .get, "\(GatewayWorld.stores)/S/events", query: query, headers: headers + [("accept", "text/event-stream")])
      #expect(response.status == 200 && response.header("Content-Type") == "text/event-stream")
      return response.header("X-Apple-CloudKit-Web-Auth-Token")
    }
    #expect(await header([("ckAPIToken", GatewayWorld.apiToken), ("ckWebAuthToken", "ses_alice")], []) == nil)
    #expect(world.record.withLock(\.rotations) == 0)
    #expect(await header([], [("authorization", "Bearer ses_alice")]) == "ses_alice_next", "programs read headers")
  }

  @Test func `an error hands out nothing and rotates nothing`() async throws {
    let world = try await GatewayWorld { _, _, _ in Answer(DatabaseRequest.Reply(status: 400), body: Array("{}".utf8)) }
    #expect(await header("ses_alice", world, path: "\(GatewayWorld.records)/zones/list", status: 400) == nil)
    #expect(
      await header(
        "ses_alice", world, path: "/database/1/\(GatewayWorld.container)/development/public/users/nonsense", status: 404
      ) == nil)
    #expect(world.record.withLock(\.rotations) == 0)
  }
}
