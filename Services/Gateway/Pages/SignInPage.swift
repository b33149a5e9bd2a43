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

  /// The place that a person signs in to.
  enum Destination: Hashable, Sendable {
    case app
    /// The person's own account. Its session is of half an hour and belongs to the page.
    /// - Parameter deviceCode: of a device that the person is about to sign in from there; nil: of none.
    case account(deviceCode: UserCode? = nil)

    /// The path that takes the form.
    var path: String {
      switch self {
      case .app: "/signin"
      case .account: AccountPage.path
      }
    }

    /// Parameters that go along with the state.
    var parameters: String {
      guard case .account(let code?) = self else { return "" }
      return "&code=\(code.letters)"
    }
  }

  /// A way to sign in without a password of this server.
  struct ProviderLink: Hashable, Sendable {
    let displayName: String
    /// Percent-encoded, on this server.
    let address: String
    /// On this server; nil: the name's first letter stands for the provider.
    let icon: String?
  }

  /// The page with the form, but for the visitor's own entries.
  struct Form: Sendable {
    let state: SignInState
    /// The state's text, with which the form comes back.
    let stateText: String
    /// The app that the visitor signs in to.
    let app: PageApp
    let providers: [ProviderLink]
    let destination: Destination
    /// nil where browsers make no passkeys.
    let passkey: PasskeyData?

    /// - Parameter problem: the reason for showing the form again; nil the first time.
    func page(_ entry: Entry = Entry(), problem: Problem? = nil) -> HTTPResponse {
      SignInPage.form(self, entry, problem: problem)
    }
  }

  private static func form(_ form: Form, _ entry: Entry, problem: Problem?) -> HTTPResponse {
    let (state, app) = (form.state, form.app)
    let callback = form.destination == .app ? state.callbackURL : nil
    let action = Page.escaped("\(form.destination.path)?state=\(form.stateText)\(form.destination.parameters)")
    let content = """
      \(Page.badge(app.name))
      <h1>\(form.destination == .app ? "Sign in" : "Your account")</h1>
      <p class="soft">\(form.destination == .app ? audience(of: state, app) : accountAudience(form.destination))</p>
      \(Page.alert(problem?.sentence))
      \(links(form.providers))
      <form method="post" action="\(action)">
      \(Page.credentialFields(name: entry.name))
      \(form.destination == .app ? keepField(entry) : "")
      <p class="actions"><button id="submit" class="primary" type="submit">Sign in</button><button id="cancel" \
      type="button" hidden>Cancel</button></p>
      </form>
      \(form.passkey == nil ? "" : passkeyForm(action))
      \(form.destination == .app ? accountLink(form) : "")
      """
    return page(
      problem,
      data: (form.passkey?.attributes ?? []) + [("origin", state.origin ?? ""), ("callback", callback ?? "")], content,
      script: formScript + PasskeyData.signInScript, formTarget: callback.map(source),
      showsIcons: form.providers.contains { $0.icon != nil })
  }

  /// - Parameter action: escaped.
  private static func passkeyForm(_ action: String) -> String {
    PasskeyData.form(
      "passkey", action: action, act: "passkey", fields: ["credential", "client", "data", "signature", "user", "keep"],
      button: "Use a passkey")
  }

  private static func accountAudience(_ destination: Destination) -> String {
    if case .account(.some) = destination { return "before you sign a device in." }
    return "to see your sessions and your ways to sign in."
  }

  private static func keepField(_ entry: Entry) -> String {
    """
    <p class="row"><input id="keep" name="keep" type="checkbox" value="yes"\(entry.isKept ? " checked" : "")><label \
    for="keep">Keep me signed in</label></p>
    """
  }

  private static func accountLink(_ form: Form) -> String {
    """
    <footer><a id="account" href="\(AccountPage.path)?state=\(form.stateText)">Sessions and ways to sign \
    in</a></footer>
    """
  }

  /// The other ways to sign in, above the form.
  private static func links(_ providers: [ProviderLink]) -> String {
    guard !providers.isEmpty else { return "" }
    let links = providers.map { provider in
      """
      <a class="provider" href="\(Page.escaped(provider.address))">\(mark(of: provider))Continue with \
      \(Page.escaped(provider.displayName))</a>
      """
    }
    return "<p class=\"providers\">\n\(links.joined(separator: "\n"))\n</p>\n<p class=\"or\">or with a password</p>"
  }

  private static func mark(of provider: ProviderLink) -> String {
    if let icon = provider.icon { return "<img class=\"icon\" alt=\"\" src=\"\(Page.escaped(icon))\">" }
    let letter = provider.displayName.first.map { String($0).uppercased() } ?? ""
    return "<span class=\"mark\" aria-hidden=\"true\">\(Page.escaped(letter))</span>"
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
    formTarget: String? = nil, showsIcons: Bool = false
  ) -> HTTPResponse {
    Page(
      title: "Sign in", status: problem?.status ?? 200, retryAfter: problem?.retryAfter, data: data, content: content,
      script: script, formTarget: formTarget, showsIcons: showsIcons
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
      if (keep) { keep.addEventListener('change', follow); follow(); }
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
