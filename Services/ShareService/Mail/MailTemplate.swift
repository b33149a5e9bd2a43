// The text of an invitation by mail, with places for what differs from mail to mail.

import Records

/// A mail's subject, plain text and HTML. `{app}`, `{inviter}`, `{title}`, `{link}` and `{stop}` stand for values.
struct MailTemplate: Hashable, Codable, Sendable {
  var subject: String
  var text: String
  var html: String

  static let byteLimit = 65_536

  static let standard = MailTemplate(
    subject: "{inviter} shares “{title}” with you",
    text: """
      {inviter} shares “{title}” with you in {app}.

      Open it here, and sign in with this e-mail address:
      {link}

      You don't know {inviter}? Then you need to do nothing.
      No more invitations from here: {stop}

      """,
    html: """
      <!doctype html>
      <html lang="en"><body style="font-family: sans-serif; line-height: 1.5">
      <p>{inviter} shares <strong>{title}</strong> with you in {app}.</p>
      <p><a href="{link}">Open it</a>, and sign in with this e-mail address.</p>
      <p style="color: #555">You don't know {inviter}? Then you need to do nothing.<br>
      <a href="{stop}">No more invitations from here</a></p>
      </body></html>

      """)

  /// The values of one mail.
  struct Values: Hashable, Sendable {
    /// Strangers choose these three.
    var app: String
    var inviter: String
    var title: String
    var link: String
    var stop: String

    /// Longer texts end early: a mail is an invitation and no letter.
    private static let characterLimit = 80
    /// A character can have any number of marks.
    private static let scalarLimit = 320

    fileprivate func value(_ name: Substring) -> String? {
      switch name {
      case "app": Self.shown(app)
      case "inviter": Self.shown(inviter)
      case "title": Self.shown(title)
      case "link": link
      case "stop": stop
      default: nil
      }
    }

    /// One line, within the limit, in which no mail program finds a link.
    private static func shown(_ text: String) -> String {
      var line = ""
      for scalar in text.unicodeScalars.prefix(scalarLimit) {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: line += " "
        default: line.unicodeScalars.append(scalar)
        }
      }
      if line.count > characterLimit || !text.unicodeScalars.dropFirst(scalarLimit).isEmpty {
        line = line.prefix(characterLimit - 1) + "…"
      }
      return line.replacing("://", with: " ").replacing("www.", with: "www ")
    }
  }

  /// - Throws: `badRequest` for a name that stands for nothing, and a form without the link or the way to stop.
  func check() throws(RecordError) {
    let parts = [
      ("subject", subject, [Substring]()), ("text", text, ["link", "stop"]), ("html", html, ["link", "stop"]),
    ]
    let known = Values(app: "", inviter: "", title: "", link: "", stop: "")
    for (key, form, needed) in parts {
      let names = Self.pieces(of: form).compactMap { if case .name(let name) = $0 { name } else { nil } }
      if let unknown = names.first(where: { known.value($0) == nil }) {
        throw RecordError(
          .badRequest,
          "'\(key)' has {\(unknown)}, which stands for nothing; the names are app, inviter, title, link and stop")
      }
      if let missing = needed.first(where: { !names.contains($0) }) {
        throw RecordError(.badRequest, "'\(key)' must have {\(missing)}")
      }
    }
  }

  func filled(_ values: Values) -> MailTemplate {
    MailTemplate(
      subject: Self.fill(subject) { values.value($0) }, text: Self.fill(text) { values.value($0) },
      html: Self.fill(html) { values.value($0).map(Self.escaped) })
  }

  // MARK: Pieces

  private enum Piece {
    case text(Substring)
    case name(Substring)
  }

  /// Braces around other text than a name are text, as in style sheets.
  private static func pieces(of form: String) -> [Piece] {
    var pieces: [Piece] = []
    var rest = form[...]
    while let match = rest.firstMatch(of: /\{([a-z]+)\}/) {
      pieces += [.text(rest[..<match.range.lowerBound]), .name(match.1)]
      rest = rest[match.range.upperBound...]
    }
    return pieces + [.text(rest)]
  }

  /// A value is not read again, so that a title can name no other value.
  private static func fill(_ form: String, _ value: (Substring) -> String?) -> String {
    pieces(of: form).map { piece in
      switch piece {
      case .text(let text): String(text)
      case .name(let name): value(name) ?? ""
      }
    }.joined()
  }

  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in text {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "'": escaped += "&#39;"
      default: escaped.append(character)
      }
    }
    return escaped
  }
}
