// The sign-in page as text: no resources from elsewhere, no script but its own, and no way into a frame.

import Crypto
import HTTPServer
import Records
import WebServices

enum SignInPage {
  /// What was typed, to be shown again; never the password.
  struct Entry: Hashable, Sendable {
    var name = ""
    var isKept = false
  }

  enum Problem: Hashable, Sendable {
    case wrong, incomplete, away
    case throttled(seconds: Int)
    /// Nothing can be typed any more.
    case badLink, foreignForm, revoked

    /// The same for an unknown name and a wrong password.
    var sentence: String {
      switch self {
      case .wrong: "The name or the password is wrong."
      case .incomplete: "Type your name and your password."
      case .away: "Signing in does not work at the moment. Try again in a few seconds."
      case .throttled(let seconds): "Too many attempts. Try again in \(Self.text(seconds))."
      case .badLink: "This sign-in took too long, or its address is not complete. Go back to the app and sign in from there."
      case .revoked: "The app that asked is not known here any more."
      case .foreignForm: "This form was not sent by the sign-in page. Go back to the app and sign in from there."
      }
    }

    var status: Int {
      switch self {
      case .wrong, .foreignForm, .revoked: 403
      case .incomplete, .badLink: 400
      case .away: 503
      case .throttled: 429
      }
    }

    private static func text(_ seconds: Int) -> String {
      let minutes = (seconds + 59) / 60
      return seconds < 100 ? "\(seconds) \(seconds == 1 ? "second" : "seconds")" : "\(minutes) minutes"
    }
  }

  /// - Parameter problem: why it is shown again.
  static func form(_ state: SignInState, _ entry: Entry = Entry(), problem: Problem? = nil) -> HTTPResponse {
    let body = """
      <body data-origin="\(escaped(state.origin ?? ""))" data-callback="\(escaped(state.callbackURL ?? ""))">
      <main>
      <h1>Sign in</h1>
      <p>\(audience(of: state))</p>
      \(problem.map { "<p id=\"reason\" role=\"alert\">\(escaped($0.sentence))</p>" } ?? "")
      <form method="post">
      <label for="name">Name</label>
      <input id="name" name="name" type="text" value="\(escaped(entry.name))" maxlength="255" autocomplete="username" autocapitalize="none" autocorrect="off"
       spellcheck="false" required\(entry.name.isEmpty ? " autofocus" : "")>
      <label for="password">Password</label>
      <input id="password" name="password" type="password" autocomplete="current-password" required\(entry.name.isEmpty ? "" : " autofocus")>
      <p class="row"><input id="keep" name="keep" type="checkbox" value="yes"\(entry.isKept ? " checked" : "")><label for="keep">Keep me signed in</label></p>
      <p class="row"><button id="submit" type="submit">Sign in</button><button id="cancel" type="button" hidden>Cancel</button></p>
      </form>
      </main>
      <script>\(formScript)</script>
      </body>
      """
    return page(status: problem?.status ?? 200, problem: problem, body: body, script: formScript, formTarget: state.callbackURL.map(source))
  }

  /// Hands the token to whoever asked for it: in the address of the callback, or in one message to the page that opened this one.
  static func success(_ state: SignInState, token: String) -> HTTPResponse {
    if let callback = state.callbackURL {
      let mark = callback.contains("?") ? "&" : "?"
      let headers = [(name: "Location", value: "\(callback)\(mark)ckWebAuthToken=\(token)&ckSession=\(token)"), ("Cache-Control", "no-store")]
      return HTTPResponse(status: 302, headers: headers + [("Referrer-Policy", "no-referrer")])
    }
    let unreachable = "You are signed in, but the app that asked for it can't be told. Go back to it and sign in from there."
    guard let origin = state.origin else { return page(status: 200, body: "<body><main><h1>Signed in</h1><p>\(escaped(unreachable))</p></main></body>") }
    let body = """
      <body data-origin="\(escaped(origin))" data-token="\(escaped(token))" data-unreachable="\(escaped(unreachable))">
      <main><h1>Signed in</h1><p id="message" role="status">You are signed in. This window can be closed.</p></main>
      <script>\(successScript)</script>
      </body>
      """
    return page(status: 200, body: body, script: successScript)
  }

  /// No form any more: the app is told, and the visitor how to go on.
  static func ended(_ problem: Problem) -> HTTPResponse {
    let body = """
      <body data-reason="\(escaped(problem.sentence))">
      <main><h1>Sign in</h1><p id="reason" role="alert">\(escaped(problem.sentence))</p></main>
      <script>\(endScript)</script>
      </body>
      """
    return page(status: problem.status, problem: problem, body: body, script: endScript)
  }

  private static func audience(of state: SignInState) -> String {
    let container = "<strong>\(escaped(state.container.rawValue))</strong>"
    let environment = state.environment == .development ? " (development)" : ""
    guard let origin = state.origin else { return "An app asks who you are in \(container)\(environment)." }
    return "<strong>\(escaped(origin))</strong> asks who you are in \(container)\(environment)."
  }

  // MARK: Scripts

  // Constant texts, so that the policy can name them by their hash: what varies is in `data-` attributes.

  private static let formScript = """
    const page = document.body.dataset, cancel = document.getElementById('cancel');
    cancel.hidden = !window.opener && !page.callback;
    cancel.addEventListener('click', () => {
      const errorMessage = 'The sign-in was cancelled';
      if (window.opener) { window.opener.postMessage({errorMessage}, page.origin || '*'); window.close(); }
      else { location.assign(page.callback + (page.callback.includes('?') ? '&' : '?') + 'errorMessage=' + encodeURIComponent(errorMessage)); }
    });
    """

  private static let successScript = """
    const page = document.body.dataset, token = page.token;
    if (window.opener) { window.opener.postMessage({ckSession: token, ckWebAuthToken: token}, page.origin); window.close(); }
    else { document.getElementById('message').textContent = page.unreachable; }
    """

  private static let endScript = """
    if (window.opener) window.opener.postMessage({errorMessage: document.body.dataset.reason}, '*');
    """

  private static let style = """
    :root { color-scheme: light dark; }
    body { font: 16px/1.4 system-ui, sans-serif; margin: 0; }
    main { box-sizing: border-box; margin: 0 auto; max-width: 26rem; padding: 1.5rem; overflow-wrap: anywhere; }
    h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
    label { display: block; margin: 1rem 0 .25rem; }
    input[type=text], input[type=password] { box-sizing: border-box; font: inherit; padding: .6rem; width: 100%; }
    .row { align-items: center; display: flex; gap: .75rem; margin: 1rem 0 0; }
    .row label { margin: 0; }
    button { font: inherit; padding: .6rem 1.2rem; }
    #reason { border-left: .25rem solid #c22; padding-left: .75rem; }
    """

  // MARK: The page around

  /// - Parameters:
  ///   - script: what runs in it; nil: nothing.
  ///   - formTarget: where a form's answer may lead besides this server.
  static func page(title: String = "Sign in", status: Int, problem: Problem? = nil, body: String, script: String? = nil, formTarget: String? = nil) -> HTTPResponse {
    let html = """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
      <title>\(title)</title><style>\(style)</style></head>
      \(body)
      </html>

      """
    let policy =
      "default-src 'none'; style-src \(hash(style)); script-src \(script.map(hash) ?? "'none'"); form-action 'self'\(formTarget.map { " " + $0 } ?? ""); "
      + "frame-ancestors 'none'; base-uri 'none'"
    var headers: [(name: String, value: String)] = [
      ("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), ("Content-Security-Policy", policy), ("X-Frame-Options", "DENY"),
      // Not `no-referrer`: browsers would send the form without saying which page it is from.
      ("Referrer-Policy", "same-origin"), ("X-Content-Type-Options", "nosniff"),
    ]
    if case .throttled(let seconds) = problem { headers.append(("Retry-After", String(seconds))) }
    return HTTPResponse(status: status, headers: headers, body: .bytes(Array(html.utf8)))
  }

  private static func hash(_ text: String) -> String { "'sha256-\(Base64.encode(SHA256.hash(text)))'" }

  /// What a policy calls the place of a URL: its origin, or the scheme of an app's own.
  private static func source(_ url: String) -> String {
    url.hasPrefix("http://") || url.hasPrefix("https://") ? PageOrigin.origin(of: url) : String(url.prefix { $0 != ":" }) + ":"
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
