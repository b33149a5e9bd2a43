// The HTML of the sign-in page.

import HTTPServer
import Records
import ServiceBus
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
    /// The provider's answer belongs to no sign-in of this browser; ends the sign-in.
    case foreignAnswer
    case unknownProvider, declined
    case refused(SignInByIdentity.Refusal)

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
      case .foreignAnswer:
        "This sign-in began in another browser, or took too long. Go back to the app and sign in from there."
      case .unknownProvider: "This server does not offer that way to sign in."
      case .declined: "You were not signed in there. Try again, or choose another way."
      case .refused(.closed): "New people can't sign up here. Ask the person who runs this server for an account."
      case .refused(.uninvited): "Only invited people can sign up here, and nobody has invited your e-mail address."
      case .refused(.addressTaken):
        "Somebody has an account with your e-mail address. Sign in with its name and its password."
      case .refused(.disabled): "This account is closed."
      case .refused(.provider): "This server no longer offers that way to sign in."
      case .refused(.apiToken): "This server no longer knows the app."
      case .foreignForm: "The form did not come from the sign-in page. Go back to the app and sign in from there."
      }
    }

    var status: Int {
      switch self {
      case .wrong, .foreignForm, .revoked, .declined, .refused: 403
      case .incomplete, .badLink, .foreignCallback, .foreignAnswer: 400
      case .unknownProvider: 404
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

  /// A way to sign in without a password of this server.
  struct ProviderLink: Hashable, Sendable {
    let displayName: String
    /// Percent-encoded, on this server.
    let address: String
  }

  /// The page with the form, but for the visitor's own entries.
  struct Form: Sendable {
    let state: SignInState
    /// The state's text, with which the form comes back.
    let stateText: String
    /// The app that the visitor signs in to.
    let app: PageApp
    let providers: [ProviderLink]

    /// - Parameter problem: the reason for showing the form again; nil the first time.
    func page(_ entry: Entry = Entry(), problem: Problem? = nil) -> HTTPResponse {
      SignInPage.form(self, entry, problem: problem)
    }
  }

  private static func form(_ form: Form, _ entry: Entry, problem: Problem?) -> HTTPResponse {
    let (state, app) = (form.state, form.app)
    let content = """
      \(Page.badge(app.name))
      <h1>Sign in</h1>
      <p class="soft">\(audience(of: state, app))</p>
      \(Page.alert(problem?.sentence))
      \(links(form.providers))
      <form method="post" action="/signin?state=\(form.stateText)">
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

  /// The other ways to sign in, above the form.
  private static func links(_ providers: [ProviderLink]) -> String {
    guard !providers.isEmpty else { return "" }
    let links = providers.map { provider in
      """
      <a class="provider" href="\(Page.escaped(provider.address))"><span class="mark" aria-hidden="true">\
      \(Page.escaped(provider.displayName.first.map { String($0).uppercased() } ?? ""))</span>Continue with \
      \(Page.escaped(provider.displayName))</a>
      """
    }
    return "<p class=\"providers\">\n\(links.joined(separator: "\n"))\n</p>\n<p class=\"or\">or with a password</p>"
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
    const keep = document.getElementById('keep');
    for (const link of document.querySelectorAll('a.provider')) {
      const address = link.href, follow = () => { link.href = address + (keep.checked ? '&keep=yes' : ''); };
      keep.addEventListener('change', follow);
      follow();
    }
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
