// The page of a share as text. Whoever may not know of the share, and whoever has not said who he is, sees one and the same.

import HTTPServer
import JSON
import Records

enum SharePage {
  /// A sentence above the form, and the status that goes with it.
  struct Notice: Hashable, Sendable {
    let sentence: String
    var status = 200
    var retryAfter: Int?

    static let tooLate = Notice(sentence: "This took too long. Sign in again.", status: 400)
    static let foreignForm = Notice(sentence: "This form was not sent by this page. Open the share's address and sign in there.", status: 403)

    init(sentence: String, status: Int = 200, retryAfter: Int? = nil) {
      self.sentence = sentence
      self.status = status
      self.retryAfter = retryAfter
    }

    init(_ problem: SignInPage.Problem) {
      self.init(sentence: problem.sentence, status: problem.status)
      if case .throttled(let seconds) = problem { retryAfter = seconds }
    }
  }

  /// What a visitor can do with a share.
  enum Offer: Hashable, Sendable {
    case own, joined, accept, requestAccess
  }

  /// A share as its visitor is shown it.
  struct Share: Hashable, Sendable {
    let title: String?
    let ownerName: String?
    let offer: Offer

    /// Reads a result of `records/resolve`.
    init(_ result: JSONValue) {
      title = result["share"]?["fields"]?[ReservedName.shareTitle]?["value"]?.string
      let names = result["ownerIdentity"]?["nameComponents"]
      let name = [names?["givenName"]?.string, names?["familyName"]?.string].compactMap(\.self).joined(separator: " ")
      ownerName = name.isEmpty ? nil : name
      offer =
        switch (result["participantType"]?.string, result["participantStatus"]?.string) {
        case ("OWNER", _): .own
        case (_, "ACCEPTED"): .joined
        case (_, "INVITED"), (_, "PENDING"): .accept
        default: result["share"]?["publicPermission"]?.string ?? "NONE" == "NONE" ? .requestAccess : .accept
        }
    }
  }

  /// There is nothing, or nobody has signed in: which of both does not show.
  /// - Parameter name: what was typed, to be shown again; never the password.
  static func nothing(_ notice: Notice? = nil, name: String = "") -> HTTPResponse {
    let name = SignInPage.escaped(name)
    return page(
      notice,
      """
      <h1>Shared with you?</h1>
      <p>There is nothing here for you, or you have to sign in.</p>
      \(line(notice))
      <form method="post">
      <label for="name">Name</label>
      <input id="name" name="name" type="text" value="\(name)" maxlength="255" autocomplete="username" autocapitalize="none" autocorrect="off"
       spellcheck="false" required>
      <label for="password">Password</label>
      <input id="password" name="password" type="password" autocomplete="current-password" required>
      <p class="row"><button id="submit" type="submit">Sign in</button></p>
      </form>
      """)
  }

  /// - Parameter ticket: goes with what the visitor does.
  static func share(_ share: Share, ticket: String, notice: Notice? = nil) -> HTTPResponse {
    let title = SignInPage.escaped(share.title ?? "Shared data")
    let owner = SignInPage.escaped(share.ownerName ?? "Somebody")
    let body =
      switch share.offer {
      case .own: "<p>You share this.</p>"
      case .joined: "<p>\(owner) shares this with you. It is in your app.</p>"
      case .accept: "<p>\(owner) would like to share this with you.</p>\(form("accept", "Accept", ticket))"
      case .requestAccess: "<p>\(owner) has not shared this with you. You can ask for it.</p>\(form("request", "Request access", ticket))"
      }
    return page(notice, "<h1>\(title)</h1>\n\(line(notice))\n\(body)")
  }

  static func requested() -> HTTPResponse {
    page(nil, "<h1>Request access</h1>\n<p id=\"message\" role=\"status\">The owner was asked. You will have access when it is granted.</p>")
  }

  private static func form(_ action: String, _ button: String, _ ticket: String) -> String {
    """

    <form method="post">
    <input type="hidden" name="ticket" value="\(SignInPage.escaped(ticket))">
    <p class="row"><button id="\(action)" name="action" value="\(action)" type="submit">\(button)</button></p>
    </form>
    """
  }

  private static func line(_ notice: Notice?) -> String {
    notice.map { "<p id=\"reason\" role=\"alert\">\(SignInPage.escaped($0.sentence))</p>" } ?? ""
  }

  private static func page(_ notice: Notice?, _ content: String) -> HTTPResponse {
    var response = SignInPage.page(title: "Shared data", status: notice?.status ?? 200, body: "<body>\n<main>\n\(content)\n</main>\n</body>")
    if let seconds = notice?.retryAfter { response.headers.append(("Retry-After", String(seconds))) }
    return response
  }
}
