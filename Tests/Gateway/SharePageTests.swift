// The page of a share for each kind of visitor. Visitors without access must all see the same page.

import FixedClocks
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

@Suite struct SharePageTests {
  private static let guid = ShortGUID(shard: 1) { Array(repeating: 1, count: $0) }.text
  private static let absent = ShortGUID(shard: 1) { Array(repeating: GatewayWorld.absent, count: $0) }.text
  private static let own = [("sec-fetch-site", "same-origin"), ("origin", "http://gateway")]

  private static func result(_ type: String, _ status: String, open: String = "NONE", permission: String = "READ_ONLY")
    -> String
  {
    #"{"participantType":"\#(type)","participantStatus":"\#(status)","participantPermission":"\#(permission)","#
      + #""share":{"publicPermission":"\#(open)","fields":{"cloudkit.title":{"value":"<b>Trip & Co"}}},"#
      + #""ownerIdentity":{"nameComponents":{"givenName":"Ann","familyName":"O'Hara"}}}"#
  }

  private func world(timing: Timing = .system, _ sharing: GatewayWorld.Sharing? = nil) async throws
    -> GatewayWorld
  {
    try await GatewayWorld(workers: ["worker-1", "worker-2"], timing: timing, sharing: sharing)
  }

  private func post(_ world: GatewayWorld, _ form: String, to guid: String = guid, headers: [(String, String)] = own)
    async -> HTTPResponse
  {
    await world.respond(.post, "/share/\(guid)", headers: headers, body: form)
  }

  private func ticket(in page: HTTPResponse) throws -> String {
    String(try #require(page.text.firstMatch(of: /name="ticket" value="([^"]+)"/)).output.1)
  }

  @Test func `an invited user accepts by name and password`() async throws {
    let asked = Mutex<[ResolveShortGUIDs]>([])
    let world = try await world { message in
      asked.withLock { $0.append(message) }
      return Self.result("USER", message.purpose == .accept ? "ACCEPTED" : "INVITED")
    }
    let page = await post(world, "name=alice+&password=right")
    #expect(page.status == 200 && page.text.contains("<h1>&lt;b&gt;Trip &amp; Co</h1>"))
    #expect(page.text.contains("Ann O&#39;Hara would like to share this with you. You may read it."))
    #expect(
      page.text.contains("Signed in as <strong>alice</strong>") && page.text.contains("href=\"?account=another\""))
    let done = await post(world, "ticket=\(try ticket(in: page))&action=accept")
    #expect(
      done.status == 200
        && done.text.contains("You have joined: Ann O&#39;Hara shares this with you, and you may read it.")
        && !done.text.contains("<form"))
    #expect(
      done.text.contains("<a id=\"open\" class=\"primary\" href=\"https://photos.example.org\">Open Photo Book</a>"))
    #expect(asked.withLock { $0.map(\.purpose) } == [.resolve, .accept])
    let last = asked.withLock { $0.last }
    let message = try #require(last)
    #expect(
      message.caller.userRecordName == "_alice" && message.environment == .production && message.shard == 1
        && message.items.first?.shortGUID == Self.guid)
  }

  @Test(
    arguments: [
      ("OWNER", "ACCEPTED", "NONE", "You share this with others.", nil),
      ("USER", "ACCEPTED", "NONE", "shares this with you", nil),
      ("PUBLIC_USER", "UNKNOWN", "READ_ONLY", "would like to share", "accept decline"),
      ("UNKNOWN", "UNKNOWN", "NONE", "You can ask for it.", "request"),
      ("ADMINISTRATOR", "PENDING", "NONE", "would like to share", "accept decline"),
    ] as [(String, String, String, String, String?)])
  func `a visitor is offered what he can do`(
    type: String, status: String, open: String, sentence: String, action: String?
  ) async throws {
    let world = try await world { _ in Self.result(type, status, open: open) }
    let page = await post(world, "name=alice&password=right")
    #expect(page.text.contains(sentence))
    #expect(
      page.text.matches(of: /name="action" value="([a-z]+)"/).map { String($0.output.1) }.joined(separator: " ")
        == action ?? "")
    #expect(page.text.matches(of: /class="primary"/).count == 1, "one button is what most visitors came for")
  }

  @Test(arguments: [("READ_WRITE", "You may read and change it."), ("READ_ONLY", "You may read it.")])
  func `a visitor is told what they may do before they accept`(permission: String, sentence: String) async throws {
    let world = try await world { _ in Self.result("USER", "INVITED", permission: permission) }
    #expect(await post(world, "name=alice&password=right").text.contains(sentence))
  }

  @Test func `without a name and an address of its own the app is called by its container`() async throws {
    let world = try await world { _ in Self.result("USER", "ACCEPTED") }
    world.record.withLock { $0.app = LookUpApp.Reply() }
    #expect(
      await post(world, "name=alice&password=right").text.contains(
        "Go back to <strong>\(GatewayWorld.container)</strong>"))
  }

  @Test func `access is asked for`() async throws {
    let world = try await world { _ in Self.result("UNKNOWN", "UNKNOWN") }
    let page = await post(world, "name=alice&password=right")
    #expect(
      await post(world, "ticket=\(try ticket(in: page))&action=request").text.contains("The owner has your request."))
  }

  @Test(arguments: [#"{"participantStatus":"REMOVED"}"#, "null"])
  func `an invitation is declined, also by visitors who are on no list`(answer: String) async throws {
    let asked = Mutex<[ResolveShortGUIDs.Purpose]>([])
    let world = try await world { message in
      asked.withLock { $0.append(message.purpose) }
      return message.purpose == .decline ? answer : Self.result("USER", "INVITED")
    }
    let page = await post(world, "name=alice&password=right")
    let declined = await post(world, "ticket=\(try ticket(in: page))&action=decline")
    #expect(
      declined.status == 200 && declined.text.contains("You have declined the invitation.")
        && !declined.text.contains("<form"))
    #expect(asked.withLock(\.self) == [.resolve, .decline])
  }

  private func isSame(_ one: HTTPResponse, _ other: HTTPResponse) -> Bool {
    func headers(_ response: HTTPResponse) -> [String] {
      response.headers.filter { $0.name != "X-Apple-Request-UUID" }.map { "\($0)" }
    }
    return one.bytes == other.bytes && one.status == other.status && headers(one) == headers(other)
  }

  @Test func `strangers are asked to sign in, whatever the link leads to`() async throws {
    let world = try await world { _ in "null" }
    let first = await world.respond(.get, "/share/\(Self.guid)")
    #expect(first.status == 200 && first.text.contains("Sign in to open the share"))
    for path in ["/share/\(Self.absent)", "/share/nonsense"] {
      #expect(isSame(await world.respond(.get, path), first), "\(path)")
    }
    let wrong = [
      await post(world, "name=alice&password=wrong"), await post(world, "name=alice&password=wrong", to: Self.absent),
    ]
    #expect(wrong[0].bytes == wrong[1].bytes && wrong.map(\.status) == [403, 403])
  }

  @Test func `a missing share and another user's share show the same page`() async throws {
    let world = try await world { _ in "null" }
    func page(_ guid: String) async -> HTTPResponse {
      var page = await post(world, "name=alice&password=right", to: guid)
      page.headers.removeAll { $0.name == "X-Apple-Request-UUID" }
      return page
    }
    let first = await page(Self.guid)
    #expect(
      first.status == 200 && first.text.contains("Nothing here for this account")
        && first.text.contains("Signed in as <strong>alice</strong>"))
    for guid in [Self.absent, "nonsense", ShortGUID(shard: 99) { Array(repeating: 1, count: $0) }.text] {
      #expect(isSame(await page(guid), first), "\(guid)")
    }
  }

  @Test func `a ticket is good for its page, its user and its time`() async throws {
    let asked = Mutex(0)
    let world = try await world { _ in
      asked.withLock { $0 += 1 }
      return Self.result("USER", "INVITED")
    }
    let page = await post(world, "name=alice&password=right")
    let ticket = try ticket(in: page)
    let before = asked.withLock(\.self)
    let late = ShareTicket(userRecordName: "_alice", userName: "alice", shortGUID: Self.guid, expiry: 1_700_000_000_000)
      .text(signedWith: GatewayWorld.signingKey)
    let forged = ShareTicket(userRecordName: "_alice", userName: "alice", shortGUID: Self.guid, expiry: .max).text(
      signedWith: [1, 2, 3])
    for (text, guid) in [
      (late, Self.guid), (forged, Self.guid), (ticket + "x", Self.guid),
      (ticket, ShortGUID(shard: 1) { Array(repeating: 2, count: $0) }.text),
    ] {
      let refused = await post(world, "ticket=\(text)&action=accept", to: guid)
      #expect(refused.status == 400 && refused.text.contains("This took too long."))
    }
    world.record.withLock { _ = $0.disabled.insert("_alice") }
    #expect(await post(world, "ticket=\(ticket)&action=accept").text.contains("Nothing here for this account"))
    #expect(asked.withLock(\.self) == before)
  }

  @Test func `other pages' forms, and what no browser sends, are not looked at`() async throws {
    let world = try await world { _ in Self.result("USER", "INVITED") }
    for headers in [[("sec-fetch-site", "cross-site")], [("origin", "https://evil.example")], [("origin", "null")]] {
      let refused = await post(world, "name=alice&password=right", headers: headers)
      #expect(refused.status == 403 && !refused.text.contains("Trip"))
    }
    for form in [
      "", "name=alice", "name=+&password=right", "name=%zz&password=x",
      "name=a&password=" + String(repeating: "x", count: 20_000),
    ] {
      #expect(await post(world, form).status == 400)
    }
    let often = await post(world, "name=alice&password=often")
    #expect(often.status == 429 && often.header("Retry-After") == "120")
    #expect(await world.respond(.put, "/share/\(Self.guid)").status == 405)
  }

  @Test func `a share's refusal is shown in a sentence, and an unreachable share is not called missing`() async throws {
    let world = try await world(timing: FixedTime().skippingPauses) { _ in
      #"{"serverErrorCode":"EXISTS","reason":"The user is invited <already>"}"#
    }
    let refused = await post(world, "name=alice&password=right")
    #expect(refused.status == 409 && refused.text.contains("The user is invited &lt;already&gt;"))
    try await world.map(version: 2, holders: [])
    let away = await post(world, "name=alice&password=right")
    #expect(away.status == 503 && away.text.contains("Try again"))
  }

  @Test func `the page runs nothing, loads nothing and goes into no frame`() async throws {
    let world = try await world { _ in Self.result("USER", "INVITED") }
    for page in [await world.respond(.get, "/share/\(Self.guid)"), await post(world, "name=alice&password=right")] {
      let policy = try #require(page.header("Content-Security-Policy"))
      for rule in ["default-src 'none'", "script-src 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
        #expect(policy.contains(rule))
      }
      #expect(
        page.header("Cache-Control") == "no-store" && page.header("X-Frame-Options") == "DENY"
          && page.header("Access-Control-Allow-Origin") == nil)
      #expect(page.header("Content-Type") == "text/html; charset=utf-8")
    }
  }

  @Test func `no name or title turns the direction of the words behind it`() async throws {
    let world = try await world { _ in
      #"{"participantType":"USER","participantStatus":"INVITED","share":{"fields":{"cloudkit.title":"#
        + #"{"value":"Trip\u202e"}}},"ownerIdentity":{"nameComponents":{"givenName":"\u2067Ann"}}}"#
    }
    let page = await post(world, "name=alice%E2%80%AE&password=right")
    #expect(page.text.contains("<h1>Trip</h1>") && page.text.contains("<p>Ann would like to share this with you."))
    #expect(page.text.contains("Signed in as <strong>alice</strong>"))
  }

  @Test func `a page whose visitor typed a password ends when all their sessions are ended`() async throws {
    let asked = Mutex<[ResolveShortGUIDs.Purpose]>([])
    let world = try await world(timing: FixedTime().skippingPauses) { message in
      asked.withLock { $0.append(message.purpose) }
      return Self.result("USER", "INVITED")
    }
    let ticket = try ticket(in: await post(world, "name=alice&password=right"))
    world.record.withLock { $0.missedGrantCount = .max }
    #expect(await post(world, "ticket=\(ticket)&action=accept").status == 503, "nobody can say")
    world.record.withLock { record in
      record.missedGrantCount = 0
      record.signOutCount = 4
    }
    let refused = await post(world, "ticket=\(ticket)&action=accept")
    #expect(refused.status == 403 && refused.text.contains("<input id=\"password\""))
    #expect(asked.withLock(\.self) == [.resolve])
    let again = try self.ticket(in: await post(world, "name=alice&password=right"))
    #expect(await post(world, "ticket=\(again)&action=accept").status == 200)
  }

  @Test func `a share service of the release before tells no sign-outs, and visitors accept as before`() async throws {
    let world = try await world { message in Self.result("USER", message.purpose == .accept ? "ACCEPTED" : "INVITED") }
    world.record.withLock { $0.signOutCount = nil }
    let ticket = try ticket(in: await post(world, "name=alice&password=right"))
    #expect(await post(world, "ticket=\(ticket)&action=accept").text.contains("You have joined"))
  }
}
