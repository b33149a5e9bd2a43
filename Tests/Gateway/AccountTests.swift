// The account page: sign-in to it, its forms, and the way to one more provider and back.

import ForgedProvider
import HTTPServer
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import Gateway

private let fromPage = [("sec-fetch-site", "same-origin"), ("origin", "http://gateway")]

private let container = GatewayWorld.container

extension IdentityWorld {
  /// A world whose directory knows an account with two sessions, a password and an identity.
  static func withAccount(publicURL: String = "http://gateway") async throws -> IdentityWorld {
    let world = try await IdentityWorld(publicURL: publicURL)
    let container = try #require(ContainerID(rawValue: container))
    func session(_ name: String, isOwn: Bool) -> UseAccount.Session {
      UseAccount.Session(
        name: name, container: container, environment: .development, client: "<b> on Linux", provider: "acme",
        created: 1_699_999_000_000, lastUsed: 1_699_999_900_000, isOwn: isOwn)
    }
    world.gateway.record.withLock {
      $0.account = UseAccount.Account(
        sessions: [session("s-1", isOwn: true), session("s-2", isOwn: false)],
        ways: [
          UseAccount.Way(kind: .identity, name: "i-1", displayName: "Acme & Co", added: 1_690_000_000_000),
          UseAccount.Way(kind: .passkey, name: "p-1", displayName: "<i>", added: 1_690_000_000_000),
        ],
        hasPassword: true)
    }
    return world
  }

  /// The cookie of a browser that is signed in to the account page.
  func accountCookie() async throws -> (String, String) {
    let entered = await gateway.respond(
      .post, "/account", query: [("state", try state())], headers: [("sec-fetch-site", "same-origin")],
      body: "name=alice&password=right")
    #expect(entered.status == 303 && entered.header("Location") == "/account")
    let cookie = try #require(entered.header("Set-Cookie"))
    let attributes = "; Path=/account; Max-Age=1800; HttpOnly; SameSite=Lax"
    #expect(cookie.hasSuffix(attributes) || cookie.hasSuffix(attributes + "; Secure"))
    return ("cookie", try #require(cookie.split(separator: ";").first.map(String.init)))
  }

  fileprivate func post(_ form: String, headers: [(String, String)]) async -> HTTPResponse {
    await gateway.respond(.post, "/account", headers: headers, body: form)
  }

  var acts: [UseAccount.Act] { gateway.record.withLock { $0.accountUses.map(\.act) } }
}

@Suite struct AccountPageTests {
  @Test func `the sign-in page leads to the account, which asks for a sign-in of its own`() async throws {
    let world = try await IdentityWorld.withAccount()
    let state = try world.state()
    let signIn = await world.gateway.respond(.get, "/signin", query: [("state", state)])
    #expect(signIn.text.contains("href=\"/account?state=\(state)\""))
    let form = await world.gateway.respond(.get, "/account", query: [("state", state)])
    #expect(form.text.contains("action=\"/account?state=\(state)\""))
    #expect(form.text.contains("/signin/with/acme?state=\(state)&amp;for=account"))
    #expect(!form.text.contains("Keep me signed in") && world.acts.isEmpty)
    let wrong = await world.gateway.respond(
      .post, "/account", query: [("state", state)], headers: fromPage, body: "name=alice&password=no")
    #expect(wrong.status == 403 && wrong.header("Set-Cookie") == nil)
    #expect(await world.gateway.respond(.get, "/account").status == 400)
  }

  @Test func `the page shows sessions and ways to sign in, and no text of others as HTML`() async throws {
    let world = try await IdentityWorld.withAccount()
    let page = await world.gateway.respond(.get, "/account", headers: [try await world.accountCookie()])
    #expect(page.status == 200 && page.header("Content-Security-Policy")?.contains("frame-ancestors 'none'") == true)
    for text in [
      "This page", "&lt;b&gt; on Linux", "value=\"s-2\"", "began 16 min ago", "Acme &amp; Co", "Passkey of &lt;i&gt;",
      "Password",
      "href=\"/account/link/acme\"", "End all others",
    ] { #expect(page.text.contains(text), "\(text)") }
    #expect(!page.text.contains("<b> on"))
    let use = try #require(world.gateway.record.withLock(\.accountUses).last)
    #expect(use.userRecordName == "_alice" && use.grant == "grant-ses_new" && use.act == .look)
  }

  @Test func `forms end sessions and remove ways to sign in`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    for form in ["act=end&name=s-2", "act=end-others", "act=remove&name=i-1"] {
      #expect(await world.post(form, headers: fromPage + [cookie]).status == 200)
    }
    #expect(world.acts == [.endSession("s-2"), .endOtherSessions, .removeWay("i-1")])
    for form in ["", "act=delete", "act=end"] {
      #expect(await world.post(form, headers: fromPage + [cookie]).status == 400)
    }
    #expect(world.acts.suffix(3) == [.look, .look, .look])
    world.gateway.record.withLock { $0.accountRefusal = .lastWay }
    let refused = await world.post("act=remove&name=i-1", headers: fromPage + [cookie])
    #expect(refused.status == 403 && refused.text.contains("your only way to sign in"))
  }

  @Test func `a form of another page changes nothing`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    for headers in [
      [("sec-fetch-site", "cross-site")], [("origin", "https://evil.example")],
      [("sec-fetch-site", "same-site"), ("origin", "http://evil.gateway")],
    ] {
      #expect(await world.post("act=end-others", headers: headers + [cookie]).status == 403)
    }
    #expect(world.acts.isEmpty)
  }

  @Test func `a cookie of a share's page, an app's token and a made-up cookie open no account`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie().1
    let text = try #require(cookie.split(separator: "=").last)
    let kept = KeptSignIn(
      for: .shares, container: try #require(ContainerID(rawValue: container)), environment: .development,
      userRecordName: "_alice", userName: "alice", grant: "grant-ses_new", expiry: .max)
    for value in [kept.text(signedWith: GatewayWorld.signingKey), "ses_new", String(text.dropLast()), ""] {
      let page = await world.gateway.respond(.get, "/account", headers: [("cookie", "aquifer-account=\(value)")])
      #expect(page.status == 400)
    }
    let share = await world.gateway.respond(
      .get, "/share/0abc", headers: [("cookie", "aquifer-signed-in=\(text)")])
    #expect(!share.text.contains("alice"), "and the account's opens no share")
    #expect(world.acts.isEmpty)
  }

  @Test func `a session that has ended leaves the page, and its cookie goes`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    world.gateway.record.withLock { $0.account = nil }
    let page = await world.post("act=end&name=s-1", headers: fromPage + [cookie])
    #expect(page.text.contains("signed out of this page"))
    #expect(page.header("Set-Cookie")?.hasPrefix("aquifer-account=; Path=/account; Max-Age=0;") == true)
  }

  @Test func `a person signs in to the account with a provider, and no app gets the token`() async throws {
    let world = try await IdentityWorld.withAccount()
    let begun = await world.gateway.respond(
      .get, "/signin/with/acme", query: [("state", try world.state()), ("for", "account")], headers: IdentityWorld.own)
    let finished = await world.finish(try await world.visit(begun))
    #expect(finished.status == 303 && finished.header("Location") == "/account")
    #expect(finished.headers.contains { $0.value.hasPrefix("aquifer-account=") })
    #expect(!finished.headers.contains { $0.value.contains("ses_new") } && !finished.text.contains("ses_new"))
    #expect(world.signIns.last?.isKept == false)
  }
}

@Suite struct LinkingTests {
  private func begin(
    _ world: IdentityWorld, _ cookie: (String, String), headers: [(String, String)] = IdentityWorld.own,
    provider: String = "acme"
  ) async -> HTTPResponse {
    await world.gateway.respond(.get, "/account/link/\(provider)", headers: headers + [cookie])
  }

  @Test func `a person who is signed in adds one more way to sign in`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    let finished = await world.finish(try await world.visit(await begin(world, cookie)))
    #expect(finished.status == 200 && finished.text.contains("Ways to sign in"))
    let use = try #require(world.gateway.record.withLock(\.accountUses).last)
    guard case .link("acme", let person) = use.act else {
      Issue.record("\(use.act) is no link")
      return
    }
    #expect(person.subject == "person-1" && person.issuer == world.forged.issuer)
    #expect(use.userRecordName == "_alice" && use.grant == "grant-ses_new")
    #expect(world.signIns.isEmpty, "nobody is signed in by that")
  }

  @Test func `a foreign page can't make somebody add a way to sign in`() async throws {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    for headers in [[], [("sec-fetch-site", "cross-site")], [("referer", "https://evil.example/account")]] {
      let page = await begin(world, cookie, headers: headers)
      #expect(page.status == 200 && page.header("Location") == nil)
    }
    // The answer to a stranger's attempt, which a link or an image brings into the browser.
    let stranger = try await world.visit(await begin(world, try await world.accountCookie()))
    let forged = await world.gateway.respond(
      .get, "/signin/return/acme", query: stranger.parameters, headers: [cookie])
    #expect(forged.status == 400)
    #expect(!world.acts.contains { if case .link = $0 { true } else { false } })
    #expect(await world.finish(stranger).status == 200)
  }

  @Test func `nobody links without the account page's sign-in`() async throws {
    let world = try await IdentityWorld.withAccount()
    #expect(await begin(world, ("cookie", "aquifer-account=ses_new")).status == 400)
    #expect(await begin(world, ("cookie", "")).status == 400)
    #expect(await begin(world, try await world.accountCookie(), provider: "rival").status == 404)
    // A session that ended while the person was at the provider.
    let visit = try await world.visit(await begin(world, try await world.accountCookie()))
    world.gateway.record.withLock { $0.account = nil }
    let late = await world.finish(visit)
    #expect(late.text.contains("signed out of this page"))
  }

  @Test func `an attempt to sign in is no attempt to link, and answers of mixed-up providers count for neither`()
    async throws
  {
    let world = try await IdentityWorld.withAccount()
    let cookie = try await world.accountCookie()
    let link = try await world.visit(await begin(world, cookie))
    #expect(await world.finish(link, provider: "rival").status == 400)
    let signIn = try await world.visit()
    let crossed = IdentityWorld.Visit(parameters: signIn.parameters, cookie: link.cookie)
    #expect(await world.finish(crossed).status == 400)
    let swapped = IdentityWorld.Visit(
      parameters: link.parameters.map { pair in
        pair.0 == "code" ? signIn.parameters.first { $0.0 == "code" } ?? pair : pair
      }, cookie: link.cookie)
    let refused = await world.finish(swapped)
    #expect(refused.status == 403 && refused.text.contains("You were not signed in there"))
    #expect(!world.acts.contains { if case .link = $0 { true } else { false } } && world.signIns.isEmpty)
  }

  @Test func `an identity of another user stays theirs`() async throws {
    let world = try await IdentityWorld.withAccount()
    let visit = try await world.visit(await begin(world, try await world.accountCookie()))
    world.gateway.record.withLock { $0.accountRefusal = .taken }
    let page = await world.finish(visit)
    #expect(page.status == 403 && page.text.contains("Another account signs in there already"))
  }
}
