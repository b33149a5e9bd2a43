// Invitations by mail: whom they reach, once, within limits, and in words that the operator chooses.

import JSON
import Mail
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import ShareService

@Suite(.eachEngine) struct InvitationMailTests {
  @Test func `a person without an account gets one mail for a share, with names, title and link`() async throws {
    let scene = try await MailScene.begin()
    try await scene.world.ok("POST", "/admin/1/containers/\(World.photos)", #"{"displayName":"Photos"}"#)
    try await scene.invite(["ida@example.org"])
    let message = try #require(scene.counterpart.messages.first)
    #expect(message.to.description == "ida@example.org" && message.fromName == "Photos")
    #expect(message.subject == "Grace H shares “Trips & <b>” with you")
    #expect(message.text.contains("https://photos.example.org/share/0short\n") && message.text.contains("in Photos."))
    #expect(message.html.contains("<strong>Trips &amp; &lt;b&gt;</strong>") && !message.html.contains("<b>"))
    let stop = try #require(message.refusalURL.split(separator: "/").last)
    let signed = MailStop(text: String(stop), verifiedWith: scene.world.service.directory.signingKey)
    #expect(signed?.emailAddress == "ida@example.org" && message.text.contains(message.refusalURL))
    let server = try #require(scene.counterpart.servers.first)
    #expect(server.url == "smtps://mail.example.org" && server.password == "hush-hush")
    // Reports again, also after a restart, and with one more person.
    try await scene.invite(["ida@example.org"])
    let restarted = try await MailScene(try await scene.world.restarted())
    try await restarted.invite(["ida@example.org", "bob@example.org"])
    try await restarted.invite(["ida@example.org"], share: "T")
    #expect(restarted.counterpart.receivers == ["bob@example.org", "ida@example.org"])
    #expect(try await restarted.outcomes().count == 3)
  }

  @Test func `without a server no mail is sent, and none later`() async throws {
    let scene = try await MailScene.begin(isSet: false)
    try await scene.invite(["ida@example.org"])
    try await scene.world.refused("GET", "/admin/1/mail", status: 404)
    try await scene.world.ok("PUT", "/admin/1/mail", MailScene.server)
    try await scene.invite(["ida@example.org"])
    scene.counterpart.state.withLock { $0.described = nil }
    try await scene.invite(["ida@example.org", "bob@example.org"])
    try await scene.world.ok("DELETE", "/admin/1/mail")
    scene.counterpart.state.withLock { $0.described = .init(shortGUID: "0short") }
    try await scene.world.ok("PUT", "/admin/1/mail", MailScene.server)
    scene.world.clock.advance(by: Directory.mailHour)
    await scene.mails.round()
    #expect(scene.counterpart.receivers.isEmpty)
  }

  @Test func `nobody gets mail who has an account, waits no more, was invited long ago, or asked for no more`()
    async throws
  {
    let scene = try await MailScene.begin()
    try await scene.world.ok("POST", "/admin/1/users", #"{"name":"bob","email":"Bob@example.org"}"#)
    try await scene.invite(["bob@example.org"])
    try await scene.invite(["old@example.org"], share: "old", age: Directory.mailPatience)
    try await scene.invite(["restored@example.org"], share: "restored", isComparison: true)
    try await scene.world.service.directory.refuseMail("Stop@example.org")
    try await scene.invite(["stop@example.org"], share: "stop")
    scene.counterpart.state.withLock { $0.described = .init() }
    try await scene.invite(["gone@example.org"], share: "gone")
    #expect(try await scene.world.service.directory.waitingMailCount() == 0)
    scene.counterpart.state.withLock { $0.described = nil }
    try await scene.invite(["late@example.org", "stopped@example.org"], share: "late")
    // While the shard can't be asked, one signs up and one asks for no more.
    try await scene.world.ok("POST", "/admin/1/users", #"{"name":"late","email":"late@example.org"}"#)
    try await scene.world.service.directory.refuseMail("stopped@example.org")
    scene.counterpart.state.withLock { $0.described = .init(shortGUID: "0short") }
    scene.world.clock.advance(by: Directory.mailHour)
    await scene.mails.round()
    #expect(scene.counterpart.receivers.isEmpty)
    #expect(try await scene.outcomes().isEmpty)
    #expect(try await scene.world.service.directory.waitingMailCount() == 0)
    try await scene.world.ok("DELETE", "/admin/1/mail/refusals/stop@example.org")
    try await scene.world.refused("DELETE", "/admin/1/mail/refusals/stop@example.org", status: 404)
    try await scene.invite(["stop@example.org"], share: "again")
    #expect(scene.counterpart.receivers == ["stop@example.org"])
  }

  @Test func `one inviter, and one address, cause few mails in a day; the others wait, or are given up`() async throws {
    let scene = try await MailScene.begin()
    let crowd = (1...30).map { "p\($0)@example.org" }
    try await scene.invite(crowd)
    #expect(scene.counterpart.receivers.count == Int(Directory.mailsPerInviter))
    for number in 1...5 {
      let other = try await scene.world.user("other-\(number)").recordName
      try await scene.invite(["ida@example.org"], share: "S\(number)", owner: other)
    }
    #expect(scene.counterpart.receivers.count { $0 == "ida@example.org" } == Int(Directory.mailsPerAddress))
    scene.world.clock.advance(by: Directory.mailDay + Directory.mailHour)
    await scene.mails.round()
    #expect(Set(scene.counterpart.receivers) == Set(crowd + ["ida@example.org"]))
    #expect(scene.counterpart.receivers.count { $0 == "ida@example.org" } == 5)
    try await scene.invite(crowd.map { "q" + $0 }, share: "T")
    scene.world.clock.advance(by: Directory.mailPatience)
    await scene.mails.round()
    #expect(try await scene.outcomes().count { $0.hasSuffix("expired") } == 20)
  }

  @Test func `an installation sends a bounded number of mails in an hour`() async throws {
    let scene = try await MailScene.begin()
    for number in 0..<12 {
      let owner = try await scene.world.user("owner-\(number)").recordName
      try await scene.invite((0..<20).map { "p\($0)@\(number).example.org" }, share: "S\(number)", owner: owner)
    }
    #expect(scene.counterpart.receivers.count == Int(Directory.mailsPerHour))
    scene.world.clock.advance(by: Directory.mailHour)
    await scene.mails.round()
    #expect(Set(scene.counterpart.receivers).count == 240)
  }

  @Test func `accounts that strangers made for themselves leave most mails to the others`() async throws {
    let scene = try await MailScene.begin()
    try await scene.world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","issuer":"https://acme.example.org","clientID":"a","signUp":"open"}"#)
    for number in 0..<20 {
      let stranger = try await scene.signUp("stranger-\(number)")
      try await scene.invite((0..<10).map { "p\($0)@s\(number).example.org" }, share: "S\(number)", owner: stranger)
    }
    #expect(scene.counterpart.receivers.count == Int(Directory.newcomersMailsPerHour))
    let first = scene.counterpart.receivers.prefix(Int(Directory.mailsPerNewcomer) + 1)
    #expect(Set(first.map { $0.split(separator: "@").last }).count == 2, "the first account has had its part")
    for number in 0..<8 {
      let owner = try await scene.world.user("owner-\(number)").recordName
      try await scene.invite((0..<20).map { "p\($0)@o\(number).example.org" }, share: "T\(number)", owner: owner)
    }
    #expect(scene.counterpart.receivers.count == Int(Directory.mailsPerHour), "no stranger's mail is in the way")
    scene.world.clock.advance(by: Directory.mailHour)
    await scene.mails.round()
    #expect(scene.counterpart.receivers.count { $0.hasSuffix("example.org") && $0.contains("@s") } == 100)
  }

  @Test func `an account is no newcomer after a week, with an invitation, or where an operator made it`() async throws {
    let scene = try await MailScene.begin()
    for (name, rule) in [("acme", "open"), ("rival", "invited")] {
      try await scene.world.ok(
        "POST", "/admin/1/identities",
        #"{"name":"\#(name)","issuer":"https://\#(name).example.org","clientID":"a","signUp":"\#(rule)"}"#)
    }
    let old = try await scene.signUp("old", at: "acme")
    scene.world.clock.advance(by: Directory.newcomerTime + 1)
    try await scene.world.ok("POST", "/admin/1/invitations", #"{"email":"guest@example.org"}"#)
    let owners = [
      (try await scene.signUp("new", at: "acme"), Directory.mailsPerNewcomer), (old, Directory.mailsPerInviter),
      (try await scene.signUp("guest", at: "rival"), Directory.mailsPerInviter),
      (try await scene.world.user("made").recordName, Directory.mailsPerInviter),
    ]
    for (number, (owner, limit)) in owners.enumerated() {
      let before = scene.counterpart.receivers.count
      try await scene.invite((0..<25).map { "p\($0)@o\(number).example.org" }, share: "S\(number)", owner: owner)
      #expect(scene.counterpart.receivers.count - before == Int(limit), "\(number)")
    }
  }

  @Test func `the operator sees what waits, how the mails of a day ended, and the last failure`() async throws {
    let scene = try await MailScene.begin()
    let before = try await scene.world.ok("GET", "/admin/1/mail")
    #expect(before["waiting"]?.int64 == 0 && before["sentInDay"]?.int64 == 0 && before["lastFailure"] == nil)
    try await scene.invite(["ida@example.org"], share: "sent")
    scene.counterpart.fail(.refused)
    try await scene.invite(["bob@example.org"], share: "refused")
    scene.counterpart.fail(.later)
    try await scene.invite(["eve@example.org"], share: "later")
    let failure = try #require(await scene.mails.lastFailure)
    #expect(failure.reason == "told so (550)" && failure.at <= scene.world.clock.now)
    let shown = try await scene.world.ok("GET", "/admin/1/mail")
    #expect(shown["waiting"]?.int64 == 1 && shown["sentInDay"]?.int64 == 1 && shown["bouncedInDay"]?.int64 == 1)
    #expect(shown["expiredInDay"]?.int64 == 0)
    scene.world.clock.advance(by: Directory.mailDay)
    #expect(try await scene.world.ok("GET", "/admin/1/mail")["sentInDay"]?.int64 == 0)
  }

  @Test func `a server that is away is tried again, with longer and longer waits`() async throws {
    let scene = try await MailScene.begin()
    scene.counterpart.fail(.later, 3)
    try await scene.invite(["ida@example.org"])
    for (early, late) in [(59_000, 2000), (119_000, 2000), (239_000, 2000)] as [(Int64, Int64)] {
      let count = scene.counterpart.servers.count
      scene.world.clock.advance(by: early)
      await scene.mails.round()
      #expect(scene.counterpart.servers.count == count)
      scene.world.clock.advance(by: late)
      await scene.mails.round()
      #expect(scene.counterpart.servers.count == count + 1)
    }
    #expect(scene.counterpart.receivers == ["ida@example.org"])
    #expect(await scene.mails.laterCount == 3)
  }

  @Test func `a mail that the server refuses, and an address that can't stand in one, are not tried again`()
    async throws
  {
    let scene = try await MailScene.begin()
    scene.counterpart.fail(.refused)
    try await scene.invite(["ida@example.org"])
    try await scene.invite(["eve@example.org>,<x@example.org"], share: "T")
    scene.world.clock.advance(by: Directory.mailDay)
    await scene.mails.round()
    #expect(scene.counterpart.receivers.isEmpty && scene.counterpart.servers.count == 1)
    let list = try await scene.world.ok("GET", "/admin/1/mail/sent", query: ["limit": "1"])
    #expect(list["mails"]?.elements.first?["outcome"]?.string == "bounced")
    let after = try #require(list["after"]?.int64)
    let rest = try await scene.world.ok("GET", "/admin/1/mail/sent", query: ["after": "\(after)"])
    #expect(rest["mails"]?.elements.map { $0["reason"]?.string } == ["told so (550)"])
  }
}

@Suite(.eachEngine) struct MailSettingTests {
  @Test func `the password is never shown, and settings are checked`() async throws {
    let scene = try await MailScene.begin()
    let shown = await scene.world.call("GET", "/admin/1/mail")
    let text = String(decoding: shown.body, as: UTF8.self)
    #expect(text.contains("smtps:") && text.contains(#""user":"u""#) && !text.contains("hush"))
    for (member, value, word) in [
      ("server", "http://mail.example.org", "'server'"), ("server", "smtps://u:p@mail.example.org", "'server'"),
      ("server", "smtps://mail.example.org/x", "'server'"), ("server", "smtps://mail.example.org:0", "'server'"),
      ("from", "photos", "'from'"), ("from", "a@example.org>\\r\\nRCPT TO:<b@example.org", "'from'"),
      ("fromName", " Photos", "'fromName'"), ("linkURL", "http://photos.example.org", "'linkURL'"),
      ("linkURL", "https://photos.example.org/", "'linkURL'"), ("user", "", "'user'"), ("x", "y", "'x'"),
    ] {
      let old = try JSONValue(parsing: Array(MailScene.server.utf8))
      var members = old.members.map { ($0.key, $0.value.string ?? "") }.filter { $0.0 != member }
      members.append((member, value))
      let body = "{" + members.map { #""\#($0.0)":"\#($0.1)""# }.joined(separator: ",") + "}"
      let refusal = try await scene.world.refused("PUT", "/admin/1/mail", body, status: 400)
      #expect(refusal["reason"]?.string?.contains(word) == true, "\(body)")
    }
    try await scene.world.refused(
      "PUT", "/admin/1/mail",
      #"{"server":"smtps://m.example.org","from":"a@example.org","linkURL":"https://a.example","user":"u"}"#,
      status: 400)
  }

  @Test func `an operator's template takes the place of the standard one, and stays with another server`() async throws
  {
    let scene = try await MailScene.begin()
    let template = """
      {"subject":"{app}: {title}","text":"{link} {stop} {inviter}",\
      "html":"<style>p {color: red}</style><p title='{inviter}'>{title} {link} {stop}"}
      """
    try await scene.world.ok("PUT", "/admin/1/mail/template", template)
    try await scene.world.ok("PUT", "/admin/1/mail", MailScene.server)
    #expect(
      try await scene.world.ok("GET", "/admin/1/mail/template")["subject"]?.string == "{app}: {title}")
    scene.counterpart.state.withLock { $0.described = .init(shortGUID: "0s", title: "{link}'https://evil.example\n") }
    try await scene.invite(["ida@example.org"])
    let message = try #require(scene.counterpart.messages.first)
    #expect(message.subject == "\(World.photos): {link}'https evil.example ")
    #expect(message.html.hasPrefix("<style>p {color: red}</style><p title='Grace H'>{link}&#39;https evil.example "))
    for (key, form) in [
      ("text", "{link}"), ("html", "{stop}"), ("text", "{link} {stop} {password}"), ("subject", "{name}"),
    ] {
      let bad = ["subject": "s", "text": "{link} {stop}", "html": "{link} {stop}"].merging([key: form]) { $1 }
      let body = "{" + bad.map { #""\#($0.key)":"\#($0.value)""# }.joined(separator: ",") + "}"
      try await scene.world.refused("PUT", "/admin/1/mail/template", body, status: 400)
    }
    try await scene.world.ok("DELETE", "/admin/1/mail")
    try await scene.world.refused("GET", "/admin/1/mail/template", status: 404)
  }

  @Test func `a long title ends early`() {
    let values = MailTemplate.Values(
      app: "A", inviter: "I", title: String(repeating: "x", count: 100) + "\u{202e}", link: "l", stop: "s")
    #expect(
      MailTemplate(subject: "{title}", text: "", html: "").filled(values).subject
        == String(repeating: "x", count: 79) + "…")
  }

  @Test func `a title of few characters with many marks ends early`() {
    let title = String(repeating: "a" + String(repeating: "\u{301}", count: 1000), count: 5)
    let values = MailTemplate.Values(app: "A", inviter: "I", title: title, link: "l", stop: "s")
    let subject = MailTemplate(subject: "{title}", text: "", html: "").filled(values).subject
    #expect(subject.hasSuffix("…") && subject.unicodeScalars.count <= 321, "\(subject.unicodeScalars.count)")
  }

  @Test(
    arguments: [
      (0, "Thu, 1 Jan 1970 00:00:00 +0000"), (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 +0000"),
      (1_795_683_849_999, "Thu, 26 Nov 2026 09:04:09 +0000"), (4_107_542_399_000, "Sun, 28 Feb 2100 23:59:59 +0000"),
      (4_107_542_400_000, "Mon, 1 Mar 2100 00:00:00 +0000"),
    ] as [(Int64, String)])
  func `a mail's date is one of RFC 5322`(_ time: Int64, _ text: String) { #expect(MailDate.text(time) == text) }
}
