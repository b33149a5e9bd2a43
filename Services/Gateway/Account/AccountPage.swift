// The HTML of the account page.

import HTTPServer
import Records
import ServiceBus
import WebServices

enum AccountPage {
  static let path = "/account"

  /// The act that a form asks for; nil for a form that is not the page's.
  static func act(_ fields: FormBody) -> UseAccount.Act? {
    switch (fields["act"], fields["name"]) {
    case ("end", let name?): .endSession(name)
    case ("end-others", _): .endOtherSessions
    case ("remove", let name?): .removeWay(name)
    default: nil
    }
  }

  /// Leads to the account after the sign-in, or to the device that the person is about to sign in.
  /// - Parameter cookie: the value of the `Set-Cookie` header.
  static func entered(_ deviceCode: UserCode?, cookie: String) -> HTTPResponse {
    HTTPResponse(
      status: 303,
      headers: [
        ("Location", deviceCode.map(DevicePage.address) ?? path), ("Cache-Control", "no-store"), ("Set-Cookie", cookie),
      ])
  }

  /// The page after the sign-in has ended.
  static func left(cookie: String) -> HTTPResponse {
    let sentence = "You are signed out of this page. To see your account again, sign in from an app."
    return Page(
      title: "Your account", content: "<h1>Your account</h1>\n<p id=\"message\" role=\"status\">\(sentence)</p>",
      cookie: cookie
    ).response
  }

  static func page(
    _ account: UseAccount.Account, of visit: KeptSignIn, providers: [IdentityProviderEntry],
    passkey: PasskeyData?, now: Int64, problem: SignInPage.Problem?
  ) -> HTTPResponse {
    let content = """
      <h1>Your account</h1>
      <p class="soft">You are <strong>\(Page.escaped(visit.userName))</strong>.</p>
      \(Page.alert(problem?.sentence))
      <h2>Sessions</h2>
      <ul class="rows">
      \(account.sessions.map { row(of: $0, now: now) }.joined(separator: "\n"))
      </ul>
      \(account.sessions.count > 1 ? form("end-others", nil, "End all others") : "")
      <h2>Ways to sign in</h2>
      <ul class="rows">
      \(account.hasPassword ? "<li><span>Password</span></li>" : "")
      \(account.ways.map { row(of: $0, now: now) }.joined(separator: "\n"))
      </ul>
      \(links(providers))
      \(passkey == nil ? "" : passkeyForm)
      """
    return Page(
      title: "Your account", status: problem?.status ?? 200, retryAfter: problem?.retryAfter,
      data: (passkey?.attributes ?? []) + [("name", visit.userName)], content: content,
      script: PasskeyData.registrationScript
    ).response
  }

  private static func row(of session: UseAccount.Session, now: Int64) -> String {
    let client = Page.escaped(session.client ?? "An unnamed client")
    let place = Page.escaped(session.container.rawValue) + (session.environment == .development ? " (development)" : "")
    let provider = session.provider.map { ", by \(Page.escaped($0))" } ?? ""
    return """
      <li><span><strong>\(session.isOwn ? "This page" : client)</strong><br><span class="soft">\(place)\(provider)<br>\
      began \(Units.age(session.created, now: now)), used \(Units.age(session.lastUsed, now: now))</span></span>\
      \(form("end", session.name, session.isOwn ? "Sign out" : "End", label: "End the session of \(client)"))</li>
      """
  }

  private static func row(of way: UseAccount.Way, now: Int64) -> String {
    let shown = (way.kind == .passkey ? "Passkey of " : "") + Page.escaped(way.displayName)
    return """
      <li><span><strong>\(shown)</strong><br><span class="soft">added \(Units.age(way.added, now: now))</span></span>\
      \(form("remove", way.name, "Remove", label: "Remove \(shown)"))</li>
      """
  }

  private static let passkeyForm = PasskeyData.form(
    "passkey", action: path, act: "passkey", fields: ["client", "data", "key"], button: "Add a passkey")

  /// - Parameter label: escaped.
  private static func form(_ act: String, _ name: String?, _ button: String, label: String? = nil) -> String {
    let field = name.map { "<input type=\"hidden\" name=\"name\" value=\"\(Page.escaped($0))\">" } ?? ""
    return """
      <form method="post" action="\(path)"><input type="hidden" name="act" \
      value="\(act)">\(field)<button type="submit"\(label.map { " aria-label=\"\($0)\"" } ?? "")>\(button)</button>\
      </form>
      """
  }

  private static func links(_ providers: [IdentityProviderEntry]) -> String {
    guard !providers.isEmpty else { return "" }
    let links = providers.map { provider in
      """
      <a class="provider" href="\(path)/link/\(Page.escaped(provider.name))">Add \
      \(Page.escaped(provider.displayName))</a>
      """
    }
    return "<p class=\"providers\">\n\(links.joined(separator: "\n"))\n</p>"
  }
}
