// Invitations by mail over HTTP: the server, the template, and the mails that were sent.

import JSON
import Mail
import Records
import ServiceBus

extension OperatorAPI {
  private static let mailPage = 1000

  /// `GET`, `PUT` with the members of `MailObject`, `DELETE`; `GET` and `PUT template`; `GET sent` with `after` and
  /// `limit`; `DELETE refusals/{email}`.
  func mail(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.first, request.rest.count) {
    case ("GET", nil, _): return try await mailAnswer()
    case ("PUT", nil, _):
      let settings = try MailObject(request.body).settings(template: try await directory.mailSettings()?.template)
      try await directory.setMail(settings)
      return try await mailAnswer()
    case ("DELETE", nil, _):
      try await directory.setMail(nil)
      return OperatorAnswer { $0.member("removed", true) }
    case ("GET", "template", 1): return Self.answer(try await settings().template)
    case ("PUT", "template", 1):
      var settings = try await settings()
      settings.template = try MailTemplate(request.body)
      try await directory.setMail(settings)
      return Self.answer(settings.template)
    case ("GET", "sent", 1): return try await sentMails(request)
    case ("DELETE", "refusals", 2):
      try await directory.allowMail(request.rest[1])
      return OperatorAnswer { $0.member("allowed", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  private func settings() async throws -> MailSettings {
    guard let settings = try await directory.mailSettings() else {
      throw RecordError(.notFound, "No mail server is set, so that no mail is sent")
    }
    return settings
  }

  /// The password is never shown.
  private func mailAnswer() async throws -> OperatorAnswer {
    let settings = try await settings()
    let waiting = try await directory.waitingMailCount()
    let ends = try await directory.mailsOfDay()
    let failure = await lastMailFailure()
    return OperatorAnswer { writer in
      writer.member("server", settings.server)
      if let user = settings.user { writer.member("user", user) }
      writer.member("from", settings.from)
      if let name = settings.fromName { writer.member("fromName", name) }
      writer.member("linkURL", settings.linkURL)
      writer.member("waiting", waiting)
      for outcome in MailOutcome.allCases { writer.member("\(outcome.rawValue)InDay", ends[outcome] ?? 0) }
      if let failure {
        writer.member("lastFailure", failure.reason)
        writer.member("lastFailureAt", failure.at)
      }
    }
  }

  private static func answer(_ template: MailTemplate) -> OperatorAnswer {
    OperatorAnswer { writer in
      writer.member("subject", template.subject)
      writer.member("text", template.text)
      writer.member("html", template.html)
    }
  }

  private func sentMails(_ request: Request) async throws -> OperatorAnswer {
    let limit = try request.limit(maximum: Self.mailPage)
    let rows = try await directory.sentMails(before: try request.number("after"), limit: limit)
    return OperatorAnswer { writer in
      writer.key("mails")
      writer.beginArray()
      for row in rows {
        writer.beginObject()
        writer.member("number", row.number)
        writer.member("at", row.at)
        writer.member("container", row.container)
        writer.member("inviter", row.owner)
        writer.member("email", row.emailAddress)
        writer.member("outcome", row.outcome)
        if let reason = row.reason { writer.member("reason", reason) }
        writer.endObject()
      }
      writer.endArray()
      if rows.count == limit, let last = rows.last { writer.member("after", last.number) }
    }
  }
}

/// The mail server as an operator describes it.
private struct MailObject {
  private let object: RequestObject

  init(_ body: [UInt8]) throws(RecordError) {
    object = try RequestObject(body, keys: "server", "user", "password", "from", "fromName", "linkURL")
  }

  /// - Parameter template: the present one; nil: none was set yet.
  func settings(template: MailTemplate?) throws(RecordError) -> MailSettings {
    let server = try object.required("server")
    guard MailServerAddress.isAcceptable(server) else {
      throw RecordError(.badRequest, "'server' \(MailServerAddress.rule)")
    }
    let from = try object.required("from")
    guard MailAddress(from) != nil else { throw RecordError(.badRequest, "'from' is not an e-mail address") }
    let fromName = try object.text("fromName", limit: AppText.nameByteLimit)
    if let fromName, !AppText.isName(fromName) { throw RecordError(.badRequest, "'fromName' \(AppText.nameRule)") }
    let linkURL = try object.required("linkURL", limit: 2048)
    guard WebAddress.isIssuer(linkURL), !linkURL.hasSuffix("/") else {
      throw RecordError(
        .badRequest,
        "'linkURL' must be the gateways' https address (http only for 127.0.0.1), without a slash at its end")
    }
    let (user, password) = (try object.text("user"), try object.text("password"))
    guard (user == nil) == (password == nil) else {
      throw RecordError(.badRequest, "'user' and 'password' belong together")
    }
    return MailSettings(
      server: server, user: user, password: password, from: from, fromName: fromName, linkURL: linkURL,
      template: template ?? .standard)
  }
}

/// The place of a mail server.
enum MailServerAddress {
  static let rule =
    "must be smtps://HOST, or smtp://HOST for a server that begins TLS by STARTTLS, with a port if it is another one"

  static func isAcceptable(_ text: String) -> Bool {
    guard let match = text.wholeMatch(of: /smtps?:\/\/([A-Za-z0-9.-]+)(?::([0-9]{1,5}))?/) else { return false }
    return match.2.map { (1...65_535).contains(Int($0) ?? 0) } ?? true
  }
}

extension MailTemplate {
  /// - Throws: `badRequest` for members and names that a template does not have, and those that it lacks.
  fileprivate init(_ body: [UInt8]) throws(RecordError) {
    let object = try RequestObject(body, keys: "subject", "text", "html")
    self.init(
      subject: try object.required("subject"),
      text: try object.required("text", limit: Self.byteLimit, allowsLines: true),
      html: try object.required("html", limit: Self.byteLimit, allowsLines: true))
    try check()
  }
}
