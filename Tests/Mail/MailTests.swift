// Addresses and headers of mails: no text of a stranger ends its line or names another receiver.

import Foundation
import Testing

@testable import Mail

struct MailTests {
  @Test(arguments: ["ada@example.org", "a.b+c_d'e@mail-1.example.co", "A@B.C"])
  func `an address of letters, digits and their usual signs is one`(_ text: String) {
    #expect(MailAddress(text)?.description == text)
  }

  @Test(arguments: [
    "", "ada", "@example.org", "ada@", "ada@localhost", "ada@@example.org", "ada@example..org", "ada@-a.org",
    ".a@b.org",
    "a.@b.org", "a..b@c.org", "ada@example.org\r\nRCPT TO:<eve@example.org>", "ada@example.org>,<eve@example.org",
    "ada lovelace@example.org", "\"ada\"@example.org", "ada@example.org\n", "ada@[127.0.0.1]", "ädä@example.org",
    "ada@exämple.org", "<ada@example.org>", "ada@example.org,eve@example.org", "ada@example.org\0",
  ])
  func `any other text is no address`(_ text: String) { #expect(MailAddress(text) == nil) }

  @Test func `an address has a bounded length`() {
    #expect(MailAddress(String(repeating: "a", count: 64) + "@example.org") != nil)
    #expect(MailAddress(String(repeating: "a", count: 65) + "@example.org") == nil)
    #expect(MailAddress("a@" + String(repeating: "b", count: 64) + ".org") == nil)
    #expect(MailAddress("a@" + String(repeating: "b.", count: 130) + "org") == nil)
  }

  /// The text that a reader of encoded words sees (RFC 2047).
  private func decoded(_ header: String) throws -> String {
    var bytes = Data()
    for word in header.split(separator: "\r\n ") {
      let match = try #require(word.wholeMatch(of: /=\?utf-8\?B\?([A-Za-z0-9+\/=]+)\?=/))
      #expect(word.utf8.count <= 75)
      bytes += try #require(Data(base64Encoded: String(match.1)))
    }
    return try #require(String(data: bytes, encoding: .utf8))
  }

  @Test(arguments: [
    "Gräte lädt dich ein", "日本語の題名がとても長いときにはいくつかの語に分かれる", "=?utf-8?B?eA==?=",
    "a title of plain letters that is longer than one word may be", "👨‍👩‍👧‍👦👨‍👩‍👧‍👦👨‍👩‍👧‍👦",
  ])
  func `text of any language is read as it was written`(_ text: String) throws {
    #expect(try decoded(HeaderText.encoded(text)) == text)
  }

  @Test func `short plain text stands as it is, and a line's end never does`() throws {
    #expect(HeaderText.encoded("Ada shares \"Trips\"") == "Ada shares \"Trips\"")
    #expect(HeaderText.encoded("Trips\r\nBcc: eve@example.org") == "Trips  Bcc: eve@example.org")
    #expect(try decoded(HeaderText.encoded("Träume\u{2028}\u{85}x")) == "Träume  x")
    #expect(HeaderText.phrase("Photos of Ada") == "Photos of Ada")
    #expect(try decoded(HeaderText.phrase("Ada <eve@example.org>,")) == "Ada <eve@example.org>,")
  }

  @Test(arguments: ["👨‍👩‍👧‍👦", "a", "ä\u{301}\u{301}\u{301}"])
  func `no line of a mail's head is longer than servers take`(_ character: String) throws {
    let address = try #require(MailAddress("a@example.org"))
    let text = String(repeating: character, count: 400)
    let message = MailMessage(
      from: address, fromName: text, to: address, subject: text, text: "", html: "", messageID: "1@example.org",
      date: "", refusalURL: "")
    for header in message.headers {
      let lines = header.split(separator: "\r\n", omittingEmptySubsequences: false)
      // RFC 5322: 78 bytes are a good length of a line, and 998 the most.
      #expect(lines.allSatisfy { $0.utf8.count < 100 } && lines.dropFirst().allSatisfy { $0.hasPrefix(" =?") })
    }
    #expect(try decoded(String(message.headers[2].dropFirst("Subject: ".count))) == text)
  }

  @Test func `a mail's head is one line of ASCII for each header, with both ways to refuse`() throws {
    let from = try #require(MailAddress("photos@example.org"))
    let to = try #require(MailAddress("ida@example.org"))
    let message = MailMessage(
      from: from, fromName: "Fotos\r\nX: y", to: to, subject: "Grüße\nX: y", text: "", html: "",
      messageID: "1@example.org", date: "Thu, 26 Nov 2026 09:00:00 +0000", refusalURL: "https://example.org/stop")
    #expect(message.headers.allSatisfy { $0.utf8.allSatisfy { (0x20...0x7e).contains($0) } })
    #expect(
      message.headers.map { $0.prefix { $0 != ":" } } == [
        "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post",
      ])
    #expect(message.headers[0].hasSuffix("<photos@example.org>") && message.headers[1] == "To: <ida@example.org>")
  }

  @Test(.timeLimit(.minutes(1))) func `a conversation with a server that says nothing ends when it is told to`()
    async throws
  {
    let listener = try Listener()
    let stop = MailServer.Stop()
    let message = try message()
    let server = MailServer(url: "smtp://127.0.0.1:\(listener.port)", user: nil, password: nil)
    let result: Result<Void, MailError> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result { () throws(MailError) in try server.send(message, timeout: 300, until: stop) })
      }
      let connection = accept(listener.socket, nil, nil)
      stop.set()
      var byte: UInt8 = 0
      _ = read(connection, &byte, 1)
      close(connection)
    }
    guard case .failure(let error) = result else {
      Issue.record("a mail was taken by nobody")
      return
    }
    #expect(error.kind == .later)
  }

  @Test(
    arguments: [
      ("EHLO", 550, .later), ("MAIL", 550, .later), ("MAIL", 553, .later), ("RCPT", 550, .refused),
      ("RCPT", 450, .later), ("DATA", 554, .refused), (".", 552, .refused), (".", 451, .later),
    ] as [(String, Int, MailError.Kind)])
  func `only a refused receiver or content is a bounce, and no refused sender`(
    command: String, code: Int, kind: MailError.Kind
  ) async throws {
    try await expectRefusal(of: command, "\(code) no", kind)
  }

  /// Most servers refuse a sender only when the receiver is named.
  @Test(
    arguments: [
      ("RCPT", "553 5.7.1 <a@example.org>: Sender address rejected: not owned by user", .later),
      ("RCPT", "554 5.7.1 <b@example.org>: Relay access denied", .later),
      ("RCPT", "530-5.7.0 Authentication required.\r\n530 5.7.0 Learn more", .later), ("RCPT", "530 5.5.1 no", .later),
      ("RCPT", "550 5.1.0 Sender address rejected: User unknown", .later), ("RCPT", "550 5.1.8 no", .later),
      ("RCPT", "553 5.1.7 no", .later), (".", "554 5.7.1 our reputation", .later), (".", "552 5.3.4 no", .later),
      ("RCPT", "550 5.1.1 User unknown", .refused), ("RCPT", "556 5.1.10 no", .refused),
      ("RCPT", "550-5.1.1 no\r\n550 5.1.1", .refused), ("RCPT", "552 5.2.2 full", .refused),
      ("RCPT", "550 5.4.1 no", .refused), (".", "554 5.6.0 no", .refused), ("RCPT", "550 5.7 no", .refused),
      ("RCPT", "550 version 5.7.1", .refused), ("RCPT", "450 4.7.1 no", .later),
    ] as [(String, String, MailError.Kind)])
  func `an answer whose status is about the sender or the server is no bounce`(
    command: String, answer: String, kind: MailError.Kind
  ) async throws {
    try await expectRefusal(of: command, answer, kind)
  }

  private func expectRefusal(of command: String, _ answer: String, _ kind: MailError.Kind) async throws {
    let listener = try Listener()
    let message = try message()
    let server = MailServer(url: "smtp://127.0.0.1:\(listener.port)", user: nil, password: nil)
    let result: Result<Void, MailError> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(returning: Result { () throws(MailError) in try server.send(message, timeout: 30) })
      }
      MailConversation(listener, refused: command, answer: answer).run()
    }
    guard case .failure(let error) = result else {
      Issue.record("the mail was taken")
      return
    }
    #expect(error.kind == kind && error.reason.contains("(\(answer.prefix(3)))"), "\(error)")
  }

  private func message() throws -> MailMessage {
    let address = try #require(MailAddress("a@example.org"))
    return MailMessage(
      from: address, fromName: nil, to: address, subject: "", text: "", html: "", messageID: "1@example.org",
      date: "", refusalURL: "")
  }

  @Test func `a server that is away takes the mail later`() throws {
    let message = try message()
    let error = #expect(throws: MailError.self) {
      try MailServer(url: "smtp://127.0.0.1:1", user: nil, password: nil).send(message, timeout: 5)
    }
    #expect(error?.kind == .later)
  }
}
