// The page of a share: who sees what, and that those who may not know see one page.

import HTTPServer
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import Gateway

@Suite struct SharePageTests {
  private static let guid = ShortGUID(shard: 1) { Array(repeating: 1, count: $0) }.text
  private static let absent = ShortGUID(shard: 1) { Array(repeating: GatewayWorld.absent, count: $0) }.text
  private static let own = [("sec-fetch-site", "same-origin"), ("origin", "http://gateway")]

  private static func result(_ type: String, _ status: String, open: String = "NONE") -> String {
    #"{"participantType":"\#(type)","participantStatus":"\#(status)","share":{"publicPermission":"\#(open)","fields":{"cloudkit.title":{"value":"<b>Trip & Co"}}},"#
      + #""ownerIdentity":{"nameComponents":{"givenName":"Ann","familyName":"O'Hara"}}}"#
  }

  private func world(limit: Duration = .seconds(10), _ sharing: GatewayWorld.Sharing? = nil) async throws -> GatewayWorld {
    try await GatewayWorld(workers: ["worker-1", "worker-2"], limit: limit, sharing: sharing)
  }

  private func post(_ world: GatewayWorld, _ form: String, to guid: String = guid, headers: [(String, String)] = own) async -> HTTPResponse {
    await world.respond(.post, "/share/\(guid)", headers: headers, body: form)
  }

  private func ticket(in page: HTTPResponse) throws -> String {
    String(try #require(page.text.firstMatch(of: /name="ticket" value="([^"]+)"/)).output.1)
  }

  @Test func `who is asked for it accepts by name and password`() async throws {
    let asked = Mutex<[ResolveShortGUIDs]>([])
    let world = try await world { message in
      asked.withLock { $0.append(message) }
      return Self.result("USER", message.purpose == .accept ? "ACCEPTED" : "INVITED")
    }
    let page = await post(world, "name=alice+&password=right")
    #expect(page.status == 200 && page.text.contains("<h1>&lt;b&gt;Trip &amp; Co</h1>") && page.text.contains("Ann O&#39;Hara would like to share this with you."))
    let done = await post(world, "ticket=\(try ticket(in: page))&action=accept")
    #expect(done.status == 200 && done.text.contains("It is in your app.") && !done.text.contains("<form"))
    #expect(asked.withLock { $0.map(\.purpose) } == [.resolve, .accept])
    let last = asked.withLock { $0.last }
    let message = try #require(last)
    #expect(message.caller.userRecordName == "_alice" && message.environment == .production && message.shard == 1 && message.items.first?.shortGUID == Self.guid)
  }

  @Test(
    arguments: [
      ("OWNER", "ACCEPTED", "NONE", "You share this.", nil), ("USER", "ACCEPTED", "NONE", "shares this with you", nil),
      ("PUBLIC_USER", "UNKNOWN", "READ_ONLY", "would like to share", "accept"), ("UNKNOWN", "UNKNOWN", "NONE", "You can ask for it.", "request"),
      ("ADMINISTRATOR", "PENDING", "NONE", "would like to share", "accept"),
    ] as [(String, String, String, String, String?)])
  func `a visitor is offered what he can do`(type: String, status: String, open: String, sentence: String, action: String?) async throws {
    let world = try await world { _ in Self.result(type, status, open: open) }
    let page = await post(world, "name=alice&password=right")
    #expect(page.text.contains(sentence))
    #expect(page.text.firstMatch(of: /name="action" value="([a-z]+)"/).map { String($0.output.1) } == action)
  }

  @Test func `access is asked for`() async throws {
    let world = try await world { Self.result("UNKNOWN", $0.purpose == .requestAccess ? "UNKNOWN" : "UNKNOWN") }
    let page = await post(world, "name=alice&password=right")
    #expect(await post(world, "ticket=\(try ticket(in: page))&action=request").text.contains("The owner was asked."))
  }

  @Test func `what is not there, what is not for the visitor, and who is nobody are one page`() async throws {
    let world = try await world { _ in "null" }
    let first = await world.respond(.get, "/share/\(Self.guid)")
    #expect(first.status == 200 && first.text.contains("There is nothing here for you, or you have to sign in."))
    let others = [
      await world.respond(.get, "/share/\(Self.absent)"), await world.respond(.get, "/share/nonsense"),
      await post(world, "name=alice&password=right"), await post(world, "name=alice&password=right", to: Self.absent),
      await post(world, "name=alice&password=right", to: "nonsense"),
      await post(world, "name=alice&password=right", to: ShortGUID(shard: 99) { Array(repeating: 1, count: $0) }.text),
    ]
    for other in others {
      #expect(other.bytes == first.bytes && other.status == first.status)
      #expect(other.headers.filter { $0.name != "X-Apple-Request-UUID" }.map { "\($0)" } == first.headers.filter { $0.name != "X-Apple-Request-UUID" }.map { "\($0)" })
    }
    let wrong = [await post(world, "name=alice&password=wrong"), await post(world, "name=alice&password=wrong", to: Self.absent)]
    #expect(wrong[0].bytes == wrong[1].bytes && wrong.map(\.status) == [403, 403])
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
    let late = ShareTicket(userRecordName: "_alice", shortGUID: Self.guid, expiry: 1_700_000_000_000).text(signedWith: GatewayWorld.signingKey)
    let forged = ShareTicket(userRecordName: "_alice", shortGUID: Self.guid, expiry: .max).text(signedWith: [1, 2, 3])
    for (text, guid) in [(late, Self.guid), (forged, Self.guid), (ticket + "x", Self.guid), (ticket, ShortGUID(shard: 1) { Array(repeating: 2, count: $0) }.text)] {
      let refused = await post(world, "ticket=\(text)&action=accept", to: guid)
      #expect(refused.status == 400 && refused.text.contains("This took too long."))
    }
    world.record.withLock { _ = $0.disabled.insert("_alice") }
    #expect(await post(world, "ticket=\(ticket)&action=accept").text.contains("There is nothing here for you"))
    #expect(asked.withLock(\.self) == before)
  }

  @Test func `other pages' forms, and what no browser sends, are not looked at`() async throws {
    let world = try await world { _ in Self.result("USER", "INVITED") }
    for headers in [[("sec-fetch-site", "cross-site")], [("origin", "https://evil.example")], [("origin", "null")]] {
      let refused = await post(world, "name=alice&password=right", headers: headers)
      #expect(refused.status == 403 && !refused.text.contains("Trip"))
    }
    for form in ["", "name=alice", "name=+&password=right", "name=%zz&password=x", "name=a&password=" + String(repeating: "x", count: 20_000)] {
      #expect(await post(world, form).status == 400)
    }
    let often = await post(world, "name=alice&password=often")
    #expect(often.status == 429 && often.header("Retry-After") == "120")
    #expect(await world.respond(.put, "/share/\(Self.guid)").status == 405)
  }

  @Test func `what a share refuses is said in a sentence, and what can't be reached is not called missing`() async throws {
    let world = try await world(limit: .seconds(2)) { _ in #"{"serverErrorCode":"EXISTS","reason":"The user is invited <already>"}"# }
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
      for rule in ["default-src 'none'", "script-src 'none'", "frame-ancestors 'none'", "form-action 'self'"] { #expect(policy.contains(rule)) }
      #expect(page.header("Cache-Control") == "no-store" && page.header("X-Frame-Options") == "DENY" && page.header("Access-Control-Allow-Origin") == nil)
      #expect(page.header("Content-Type") == "text/html; charset=utf-8")
    }
  }
}
