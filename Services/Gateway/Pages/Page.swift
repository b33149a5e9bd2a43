// The frame of all HTML pages: one card, no foreign resources, no script but the page's own, and never shown in a
// frame.

import Crypto
import HTTPServer
import Records
import ServiceBus

/// An HTML page of the gateway.
struct Page {
  let title: String
  var status = 200
  /// Seconds until the visitor may try again; nil: the answer does not say.
  var retryAfter: Int?
  /// Values for scripts, by name behind `data-`. The content security policy names scripts by their hash, so a script's
  /// text can't vary.
  var data: [(name: String, value: String)] = []
  /// The card's HTML; its parts are escaped already.
  let content: String
  /// A script that runs when the page has loaded; nil: none.
  var script: String?
  /// A source that the answer to a form may redirect to, besides this server.
  var formTarget: String?
  /// True for a page with pictures of this server.
  var showsIcons = false
  /// The value of a `Set-Cookie` header.
  var cookie: String?

  var response: HTTPResponse {
    let html = """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, \
      initial-scale=1"><meta name="robots" content="noindex">
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
      + (showsIcons ? "img-src 'self'; " : "")
      + "form-action 'self'\(formTarget.map { " " + $0 } ?? ""); frame-ancestors 'none'; base-uri 'none'"
    var headers: [(name: String, value: String)] = [
      ("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), ("Content-Security-Policy", policy),
      ("X-Frame-Options", "DENY"),
      // Not `no-referrer`: browsers would then send the form without its page's origin.
      ("Referrer-Policy", "same-origin"), ("X-Content-Type-Options", "nosniff"),
    ]
    if let retryAfter { headers.append(("Retry-After", String(retryAfter))) }
    if let cookie { headers.append(("Set-Cookie", cookie)) }
    return HTTPResponse(status: status, headers: headers, body: .bytes(Array(html.utf8)))
  }

  private static func hash(_ text: String) -> String { "'sha256-\(Base64.encode(SHA256.hash(text)))'" }

  // MARK: Parts

  /// The app's first letter on the accent colour.
  static func badge(_ name: String) -> String {
    let letter = name.first { $0.isLetter || $0.isNumber }.map { String($0).uppercased() } ?? "A"
    return "<p class=\"badge\" aria-hidden=\"true\">\(escaped(letter))</p>"
  }

  /// A sentence that a screen reader announces at once; empty without a sentence.
  static func alert(_ sentence: String?) -> String {
    sentence.map { "<p id=\"reason\" role=\"alert\">\(escaped($0))</p>" } ?? ""
  }

  /// The fields of a sign-in form. The first empty one has the focus.
  /// - Parameter name: the name typed before, shown again. The password is never shown again.
  static func credentialFields(name: String) -> String {
    """
    <label for="name">Name</label>
    <input id="name" name="name" type="text" value="\(escaped(name))" maxlength="255" autocomplete="username" \
    autocapitalize="none" autocorrect="off"
     spellcheck="false" required\(name.isEmpty ? " autofocus" : "")>
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" \
    required\(name.isEmpty ? "" : " autofocus")>
    """
  }

  /// Leaves out what changes the direction of text: somebody's name must not make the words behind it read otherwise.
  static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "'": escaped += "&#39;"
      case "\u{202a}"..."\u{202e}", "\u{2066}"..."\u{2069}": break
      default: escaped.unicodeScalars.append(character)
      }
    }
    return escaped
  }
}

/// The app behind a container, as its users know it.
struct PageApp: Hashable, Sendable {
  /// The display name that the developer gave it; without one, the container's identifier.
  let name: String
  /// A web link or a link with the app's own scheme that opens the app; nil when there is none.
  let url: String?

  /// A button that opens the app; without a link, a sentence.
  var opening: String {
    guard let url else { return "<p>Go back to <strong>\(Page.escaped(name))</strong> to see it.</p>" }
    return
      """
      <p class=\"actions\"><a id=\"open\" class=\"primary\" href=\"\(Page.escaped(url))\">Open \
      \(Page.escaped(name))</a></p>
      """
  }
}

extension Gateway {
  /// The name and link of a container's app.
  func pageApp(of container: ContainerID) async -> PageApp {
    let app = await app(of: container)
    return PageApp(name: app.displayName ?? container.rawValue, url: app.appURL)
  }
}
