// Callbacks of programs that listen on this device: which addresses they may ask for.

import HTTPServer
import Records
import Synchronization
import Testing
import WebServices

@testable import Gateway

private let now: Int64 = 1_700_000_000_000
private let nonce = "3q2-7wAbCdEfGhIjKlMn_Q"

@Suite struct LoopbackCallbackTests {
  private func state(callback: String?) throws -> String {
    SignInState(
      container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: .development, origin: nil,
      callbackURL: callback, expiry: now + 1, grant: "app"
    ).text(signedWith: GatewayWorld.signingKey)
  }

  private func visit(_ registered: String?, _ asked: String) async throws -> (form: HTTPResponse, answer: HTTPResponse)
  {
    let world = try await GatewayWorld()
    let query = [("state", try state(callback: registered)), ("callbackURL", asked)]
    let form = await world.respond(.get, "/signin", query: query)
    let answer = await world.respond(
      .post, "/signin", query: query, headers: [("sec-fetch-site", "same-origin")], body: "name=alice&password=right")
    if answer.status != 302 {
      #expect(world.record.withLock(\.signIns).isEmpty, "no session is made for a refused address")
    }
    return (form, answer)
  }

  @Test(
    arguments: [
      ("http://127.0.0.1/done", "http://127.0.0.1:51234/done", "http://127.0.0.1:51234"),
      ("http://127.0.0.1/done", "http://127.0.0.1/done", "http://127.0.0.1"),
      ("http://127.0.0.1:8080/done", "http://127.0.0.1:1/done", "http://127.0.0.1:1"),
      ("http://127.0.0.1:8080/", "http://127.0.0.1:65535/", "http://127.0.0.1:65535"),
      ("http://127.0.0.1", "http://127.0.0.1:9", "http://127.0.0.1:9"),
      ("http://127.0.0.1/a?b=c", "http://127.0.0.1:9/a?b=c", "http://127.0.0.1:9"),
      ("http://[::1]/done", "http://[::1]:51234/done", "http:"), ("http://[::1]:7/done", "http://[::1]/done", "http:"),
    ])
  func `a program that is registered with a loopback address is called back at the port that it asks for`(
    registered: String, asked: String, source: String
  ) async throws {
    let (form, answer) = try await visit(registered, asked)
    #expect(form.status == 200 && form.text.contains("<form"))
    #expect(form.header("Content-Security-Policy")?.contains("form-action 'self' \(source);") == true)
    #expect(answer.status == 302)
    #expect(
      answer.header("Location") == "\(asked)\(asked.contains("?") ? "&" : "?")ckWebAuthToken=ses_new&ckSession=ses_new")
  }

  @Test(arguments: [
    "http://localhost:51234/done", "http://localhost/done", "http://LOCALHOST/done", "https://127.0.0.1:51234/done",
    "HTTP://127.0.0.1:51234/done",
    "//127.0.0.1/done",
    "http://127.0.0.1:51234/other", "http://127.0.0.1:51234/done/", "http://127.0.0.1:51234/done/../x",
    "http://127.0.0.1:51234/done?next=https://evil.example",
    "http://127.0.0.1:51234/done#x", "http://127.0.0.1:51234/DONE", "http://127.0.0.1:51234/%64one",
    "http://127.0.0.1:51234//done", "http://127.0.0.1:51234",
    "http://127.0.0.1.evil.example/done", "http://127.0.0.1:51234.evil.example/done",
    "http://127.0.0.1evil.example/done", "http://127.0.0.11/done",
    "http://127.0.0.1@evil.example/done", "http://127.0.0.1:51234@evil.example/done",
    "http://user@127.0.0.1:51234/done", "http://user:pass@127.0.0.1/done",
    "http://127.0.0.1:80:90/done", "http://127.0.0.1:/done", "http://127.0.0.1:0/done", "http://127.0.0.1:080/done",
    "http://127.0.0.1:65536/done",
    "http://127.0.0.1:100000/done", "http://127.0.0.1:+80/done", "http://127.0.0.1:-1/done", "http://127.0.0.1:8a/done",
    "http://127.0.0.1:\u{661}/done",
    "http://127.0.0.1:80\\evil.example/done", "http://127.0.0.1\\@evil.example/done", "http://127.0.0.1:80 /done",
    "http://127.0.0.1:80/done\r\nSet-Cookie: a=b",
    "http://127.0.0.2/done", "http://127.1/done", "http://2130706433/done", "http://0x7f.0.0.1/done",
    "http://0.0.0.0/done", "http://[::1]:51234/done",
    "http://[::ffff:127.0.0.1]/done", "http://127.0.0.1./done", "http://evil.example/?http://127.0.0.1/done",
    "http://evil.example/done", "javascript:alert(1)", "",
  ])
  func `every other address is refused, and no token is made for it`(asked: String) async throws {
    for registered in ["http://127.0.0.1/done", "http://127.0.0.1:8080/done"] {
      let (form, answer) = try await visit(registered, asked)
      for response in [form, answer] {
        #expect(
          response.status == 400 && !response.text.contains("<form") && response.header("Location") == nil,
          "\(registered) \(asked)")
        #expect(
          response.text.contains("an address that it is not registered with") && !response.text.contains("ses_new"))
      }
    }
  }

  @Test(
    arguments: [
      (nil, "http://127.0.0.1:51234/done"), ("https://app.example/done", "http://127.0.0.1:51234/done"),
      ("https://app.example/done", "https://app.example:8443/done"),
      ("http://app.example/done", "http://app.example:8080/done"), ("myapp://done", "http://127.0.0.1/done"),
      ("myapp://done", "myapp://done"),
      ("http://localhost/done", "http://localhost:51234/done"),
      ("https://127.0.0.1/done", "https://127.0.0.1:51234/done"),
      ("http://[::1]/done", "http://127.0.0.1/done"),
      ("http://[::1]/done", "http://[::1]x/done"), ("http://[::1]/done", "http://[::2]/done"),
      ("http://[::1]/done", "http://[0:0:0:0:0:0:0:1]/done"),
      ("http://[::1]/done", "http://[::1%25lo]/done"), ("http://[::1]/done", "http://[::1]@evil.example/done"),
      ("http://127.0.0.1@evil.example/done", "http://127.0.0.1@evil.example/done"),
      ("http://127.0.0.1.evil.example/", "http://127.0.0.1.evil.example:80/"),
    ] as [(String?, String)])
  func `an app that is registered with anything else can't ask for an address`(registered: String?, asked: String)
    async throws
  {
    let (form, answer) = try await visit(registered, asked)
    #expect(form.status == 400 && answer.status == 400 && answer.header("Location") == nil)
  }

  // MARK: The nonce

  @Test(
    arguments: [
      ("http://127.0.0.1/done", "http://127.0.0.1:51234/done?nonce=\(nonce)"),
      ("http://127.0.0.1/done", "http://127.0.0.1/done?nonce=\(String(repeating: "0f", count: 64))"),
      ("http://127.0.0.1", "http://127.0.0.1:9?nonce=\(nonce)"),
      ("http://127.0.0.1/a?b=c", "http://127.0.0.1:9/a?b=c&nonce=\(nonce)"),
      ("http://[::1]/done", "http://[::1]:51234/done?nonce=\(nonce)"),
    ])
  func `a program that adds a nonce gets it back with the token, and when the person cancels`(
    registered: String, asked: String
  ) async throws {
    let (form, answer) = try await visit(registered, asked)
    #expect(form.status == 200 && answer.status == 302)
    #expect(answer.header("Location") == "\(asked)&ckWebAuthToken=ses_new&ckSession=ses_new")
    // The page's script appends the error to it.
    #expect(form.text.contains("data-callback=\"\(asked.replacing("&", with: "&amp;"))\""))
    // The form comes back without `callbackURL`: its state has the nonce.
    let state = try #require(form.text.firstMatch(of: /action="\/signin\?state=([^"&]+)/)?.output.1)
    let own = SignInState(text: String(state), verifiedWith: GatewayWorld.signingKey, now: now)
    #expect(own?.callbackURL == asked)
    let (second, _) = try await visit(own?.callbackURL, asked)
    #expect(second.status == 200, "the page can be loaded anew")
  }

  @Test(arguments: [
    "?nonce=", "?nonce=abcdefghijklmnopqrstu", "?nonce=\(String(repeating: "a", count: 129))", "?Nonce=\(nonce)",
    "?nonce=\(nonce)=", "?nonce=\(nonce)%41", "?nonce=\(nonce)+", "?nonce=\(nonce).", "?nonce=\(nonce)/",
    "?nonce=\(nonce)\u{e9}",
    "?nonce=\(nonce)#x", "?nonce=\(nonce)\r\nSet-Cookie: a=b", "?nonce=\(nonce)&next=x",
    "?nonce=\(nonce)&nonce=\(nonce)", "?next=x&nonce=\(nonce)", "?&nonce=\(nonce)", "&nonce=\(nonce)",
    "??nonce=\(nonce)", "?state=\(nonce)", "/?nonce=\(nonce)", "?ckWebAuthToken=\(nonce)",
  ])
  func `nothing else is added to a callback, and no nonce of another shape`(member: String) async throws {
    let (form, answer) = try await visit("http://127.0.0.1/done", "http://127.0.0.1:51234/done\(member)")
    #expect(form.status == 400 && answer.status == 400 && answer.header("Location") == nil, "\(member)")
  }

  @Test func `a callback has one nonce, and only a program's has any`() async throws {
    let other = String(nonce.reversed())
    for (registered, asked) in [
      ("http://127.0.0.1/done?nonce=\(nonce)", "http://127.0.0.1/done?nonce=\(nonce)&nonce=\(other)"),
      ("http://127.0.0.1/done?nonce=\(nonce)", "http://127.0.0.1/done?nonce=\(other)"),
      ("https://app.example/done", "https://app.example/done?nonce=\(other)"),
      ("myapp://done", "myapp://done?nonce=\(other)"),
      ("http://127.0.0.1/a?b=c", "http://127.0.0.1/a?b=c?nonce=\(other)"),
    ] {
      let (form, answer) = try await visit(registered, asked)
      #expect(form.status == 400 && answer.status == 400 && answer.header("Location") == nil, "\(asked)")
    }
  }
}
