// The HTML of the sign-in page.

import HTTPServer
import Records
import WebServices

enum SignInPage {
  /// The visitor's entries, shown again after a problem. The password is never shown again.
  struct Entry: Hashable, Sendable {
    var name = ""
    var isKept = false
  }

  enum Problem: Hashable, Sendable {
    case wrong, incomplete, away
    case throttled(seconds: Int)
    /// Problems that end the sign-in: the page shows no form.
    case badLink, foreignForm, foreignCallback, revoked

    /// The sentence for the visitor. An unknown name and a wrong password get the same one.
    var sentence: String {
      switch self {
      case .wrong: "The name or the password is wrong."
      case .incomplete: "Type your name and your password."
      case .away: "Sign-in does not work at the moment. Try again in a few seconds."
      case .throttled(let seconds): "Too many attempts. Try again in \(Self.text(seconds))."
      case .badLink:
        "This sign-in took too long, or its address is not complete. Go back to the app and sign in from there."
      case .revoked: "This server no longer knows the app."
      case .foreignCallback: "The app asked for a callback to an address that it is not registered with."
      case .foreignForm: "The form did not come from the sign-in page. Go back to the app and sign in from there."
      }
    }

    var status: Int {
      switch self {
      case .wrong, .foreignForm, .revoked: 403
      case .incomplete, .badLink, .foreignCallback: 400
      case .away: 503
      case .throttled: 429
      }
    }

    /// Seconds to wait; nil: the visitor may try again at once.
    var retryAfter: Int? { if case .throttled(let seconds) = self { seconds } else { nil } }

    private static func text(_ seconds: Int) -> String {
      let minutes = (seconds + 59) / 60
      return seconds < 100 ? "\(seconds) \(seconds == 1 ? "second" : "seconds")" : "\(minutes) minutes"
    }
  }

  /// - Parameters:
  ///   - app: the app that the visitor signs in to.
  ///   - problem: the reason for showing the form again; nil the first time.
  static func form(_ state: SignInState, _ app: PageApp, _ entry: Entry = Entry(), problem: Problem? = nil)
    -> HTTPResponse
  {
    let content = """
      \(Page.badge(app.name))
      <h1>Sign in</h1>
      <p class="soft">\(audience(of: state, app))</p>
      \(Page.alert(problem?.sentence))
      <form method="post">
      \(Page.credentialFields(name: entry.name))
      <p class="row"><input id="keep" name="keep" type="checkbox" value="yes"\(entry.isKept ? " checked" : "")><label \
      for="keep">Keep me signed in</label></p>
      <p class="actions"><button id="submit" class="primary" type="submit">Sign in</button><button id="cancel" \
      type="button" hidden>Cancel</button></p>
      </form>
      """
    return page(
      problem, data: [("origin", state.origin ?? ""), ("callback", state.callbackURL ?? "")], content,
      script: formScript, formTarget: state.callbackURL.map(source))
  }

  /// Hands the token to the app: in the callback's address, or in one message to the page that opened this one.
  /// - Parameter cookie: the value of the `Set-Cookie` header; nil: none.
  static func success(_ state: SignInState, token: String, cookie: String?) -> HTTPResponse {
    if let callback = state.callbackURL {
      let mark = callback.contains("?") ? "&" : "?"
      let headers = [
        (name: "Location", value: "\(callback)\(mark)ckWebAuthToken=\(token)&ckSession=\(token)"),
        ("Cache-Control", "no-store"),
      ]
      return HTTPResponse(
        status: 302,
        headers: headers + [("Referrer-Policy", "no-referrer")] + (cookie.map { [("Set-Cookie", $0)] } ?? []))
    }
    let unreachable = "You are signed in, but the page can't tell the app. Go back to the app and sign in from there."
    guard let origin = state.origin else {
      return Page(title: "Sign in", content: "<h1>Signed in</h1>\n<p>\(Page.escaped(unreachable))</p>", cookie: cookie)
        .response
    }
    return Page(
      title: "Sign in", data: [("origin", origin), ("token", token), ("unreachable", unreachable)],
      content:
        "<h1>Signed in</h1>\n<p id=\"message\" role=\"status\">You are signed in. You can close this window.</p>",
      script: successScript, cookie: cookie
    ).response
  }

  /// A page without a form. It tells the app and shows the visitor how to go on.
  static func ended(_ problem: Problem) -> HTTPResponse {
    page(
      problem, data: [("reason", problem.sentence)], "<h1>Sign in</h1>\n\(Page.alert(problem.sentence))",
      script: endScript)
  }

  private static func page(
    _ problem: Problem?, data: [(name: String, value: String)], _ content: String, script: String,
    formTarget: String? = nil
  ) -> HTTPResponse {
    Page(
      title: "Sign in", status: problem?.status ?? 200, retryAfter: problem?.retryAfter, data: data, content: content,
      script: script, formTarget: formTarget
    ).response
  }

  private static func audience(of state: SignInState, _ app: PageApp) -> String {
    let name = "<strong>\(Page.escaped(app.name))</strong>\(state.environment == .development ? " (development)" : "")"
    guard let origin = state.origin else { return "to go on to \(name)." }
    return "to go on to \(name) at <strong>\(Page.escaped(origin))</strong>."
  }

  // MARK: Scripts

  // Constant texts, so that the policy can name them by their hash. Values that vary are in `data-` attributes.

  private static let formScript = """
    const page = document.body.dataset, cancel = document.getElementById('cancel');
    cancel.hidden = !window.opener && !page.callback;
    cancel.addEventListener('click', () => {
      const errorMessage = 'The sign-in was cancelled';
      if (window.opener) { window.opener.postMessage({errorMessage}, page.origin || '*'); window.close(); }
      else { location.assign(page.callback + (page.callback.includes('?') ? '&' : '?') + 'errorMessage=' + \
    encodeURIComponent(errorMessage)); }
    });
    """

  private static let successScript = """
    const page = document.body.dataset, token = page.token;
    if (window.opener) { window.opener.postMessage({ckSession: token, ckWebAuthToken: token}, page.origin); \
    window.close(); }
    else { document.getElementById('message').textContent = page.unreachable; }
    """

  private static let endScript = """
    if (window.opener) window.opener.postMessage({errorMessage: document.body.dataset.reason}, '*');
    """

  /// The source expression of a URL in a content security policy: its origin, or its scheme for an app's own scheme and
  /// for a literal of IPv6, which policies can't spell.
  private static func source(_ url: String) -> String {
    let isSpelled =
      url.hasPrefix("http://") && !url.hasPrefix("http://[") || url.hasPrefix("https://") && !url.hasPrefix("https://[")
    return isSpelled ? PageOrigin.origin(of: url) : String(url.prefix { $0 != ":" }) + ":"
  }
}
