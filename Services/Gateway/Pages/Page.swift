// What all pages for people have in common: one card, no resources from elsewhere, no script but their own, and no way into a frame.

import Crypto
import HTTPServer
import Records
import ServiceBus

/// A page of the gateway as text.
struct Page {
  let title: String
  var status = 200
  /// Seconds until the visitor may try again; nil: no answer says so.
  var retryAfter: Int?
  /// What scripts read, by name behind `data-`: a policy names scripts by their hash, so what varies can't be in them.
  var data: [(name: String, value: String)] = []
  /// The card's content, escaped where it must be.
  let content: String
  /// Runs when the page is there; nil: nothing runs.
  var script: String?
  /// Where the answer to a form may lead besides this server.
  var formTarget: String?
  /// A cookie to keep, as its header has it.
  var cookie: String?

  var response: HTTPResponse {
    let html = """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
      <title>\(title)</title><style>\(PageStyle.text)</style></head>
      <body\(data.map { " data-\($0.name)=\"\(Self.escaped($0.value))\"" }.joined())>
      <main>
      \(content)
      </main>\(script.map { "\n<script>\($0)</script>" } ?? "")
      </body>
      </html>

      """
    let policy =
      "default-src 'none'; style-src \(Self.hash(PageStyle.text)); script-src \(script.map(Self.hash) ?? "'none'"); "
      + "form-action 'self'\(formTarget.map { " " + $0 } ?? ""); frame-ancestors 'none'; base-uri 'none'"
    var headers: [(name: String, value: String)] = [
      ("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), ("Content-Security-Policy", policy), ("X-Frame-Options", "DENY"),
      // Not `no-referrer`: browsers would send the form without saying which page it is from.
      ("Referrer-Policy", "same-origin"), ("X-Content-Type-Options", "nosniff"),
    ]
    if let retryAfter { headers.append(("Retry-After", String(retryAfter))) }
    if let cookie { headers.append(("Set-Cookie", cookie)) }
    return HTTPResponse(status: status, headers: headers, body: .bytes(Array(html.utf8)))
  }

  private static func hash(_ text: String) -> String { "'sha256-\(Base64.encode(SHA256.hash(text)))'" }

  // MARK: Parts

  /// The app that a page speaks for: its first letter in its colour, and its name.
  static func badge(_ name: String) -> String {
    let letter = name.first { $0.isLetter || $0.isNumber }.map { String($0).uppercased() } ?? "A"
    return "<p class=\"badge\" aria-hidden=\"true\">\(escaped(letter))</p>"
  }

  /// A sentence that a screen reader says at once; empty without one.
  static func alert(_ sentence: String?) -> String { sentence.map { "<p id=\"reason\" role=\"alert\">\(escaped($0))</p>" } ?? "" }

  /// The fields of a sign-in. The first that is empty has the focus.
  /// - Parameter name: what was typed, to be shown again; never the password.
  static func credentialFields(name: String) -> String {
    """
    <label for="name">Name</label>
    <input id="name" name="name" type="text" value="\(escaped(name))" maxlength="255" autocomplete="username" autocapitalize="none" autocorrect="off"
     spellcheck="false" required\(name.isEmpty ? " autofocus" : "")>
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required\(name.isEmpty ? "" : " autofocus")>
    """
  }

  static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "'": escaped += "&#39;"
      default: escaped.unicodeScalars.append(character)
      }
    }
    return escaped
  }
}

/// The app behind a container, as its users know it.
struct PageApp: Hashable, Sendable {
  /// What its developer calls it; else the container's identifier.
  let name: String
  /// Opens the app: of the web, or of a scheme of its own. nil: there is no such link.
  let url: String?

  /// A button that opens the app, or a sentence where no link does.
  var opening: String {
    guard let url else { return "<p>Go back to <strong>\(Page.escaped(name))</strong>: you find it there.</p>" }
    return "<p class=\"actions\"><a id=\"open\" class=\"primary\" href=\"\(Page.escaped(url))\">Open \(Page.escaped(name))</a></p>"
  }
}

extension Gateway {
  /// The app of a container; without a name of its own it is called by the container's identifier.
  func pageApp(of container: ContainerID) async -> PageApp {
    let app = await app(of: container)
    return PageApp(name: app.displayName ?? container.rawValue, url: app.appURL)
  }
}
