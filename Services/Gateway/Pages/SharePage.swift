// The page of a share. Visitors who have not signed in see the same page for every link, so it reveals nothing.

import HTTPServer
import JSON
import Records

enum SharePage {
  /// A sentence above the form, and the answer's status.
  struct Notice: Hashable, Sendable {
    let sentence: String
    var status = 200
    var retryAfter: Int?

    static let tooLate = Notice(sentence: "This took too long. Sign in again.", status: 400)
    static let ended = Notice(sentence: "Your session has ended. Sign in again.", status: 403)
    static let foreignForm = Notice(
      sentence: "The form did not come from this page. Open the share's address and sign in there.", status: 403)

    init(sentence: String, status: Int = 200, retryAfter: Int? = nil) {
      self.sentence = sentence
      self.status = status
      self.retryAfter = retryAfter
    }

    init(_ problem: SignInPage.Problem) {
      self.init(sentence: problem.sentence, status: problem.status, retryAfter: problem.retryAfter)
    }
  }

  /// The visitor's relation to a share, which decides the buttons.
  enum Offer: Hashable, Sendable {
    case own, joined, accept, requestAccess
  }

  /// The facts of a share that its page shows.
  struct Share: Hashable, Sendable {
    let title: String?
    let ownerName: String?
    let offer: Offer
    let mayWrite: Bool

    /// Reads one result of `records/resolve`.
    init(_ result: JSONValue) {
      title = result["share"]?["fields"]?[ReservedName.shareTitle]?["value"]?.string
      let names = result["ownerIdentity"]?["nameComponents"]
      let name = [names?["givenName"]?.string, names?["familyName"]?.string].compactMap(\.self).joined(separator: " ")
      ownerName = name.isEmpty ? nil : name
      mayWrite = result["participantPermission"]?.string == "READ_WRITE"
      offer =
        switch (result["participantType"]?.string, result["participantStatus"]?.string) {
        case ("OWNER", _): .own
        case (_, "ACCEPTED"): .joined
        case (_, "INVITED"), (_, "PENDING"): .accept
        default: result["share"]?["publicPermission"]?.string ?? "NONE" == "NONE" ? .requestAccess : .accept
        }
    }
  }

  /// A visitor who has signed in.
  struct Visitor: Hashable, Sendable {
    let name: String
    /// A signed token that each form of the page sends back.
    let ticket: String
  }

  // MARK: Before the sign-in

  /// - Parameter name: the name typed before, shown again. The password is never shown again.
  static func signIn(_ notice: Notice? = nil, name: String = "") -> HTTPResponse {
    page(
      notice,
      """
      <h1>Sign in to open the share</h1>
      <p class="soft">Somebody sent you a link to something in their app. Sign in with your own account to open it.</p>
      \(Page.alert(notice?.sentence))
      <form method="post">
      \(Page.credentialFields(name: name))
      <p class="actions"><button id="submit" class="primary" type="submit">Sign in</button></p>
      </form>
      """)
  }

  // MARK: After the sign-in

  /// The page for a link that leads nowhere and for a share that is not for this visitor: both look alike.
  static func nothing(for visitor: Visitor) -> HTTPResponse {
    page(
      nil,
      """
      <h1>Nothing here for this account</h1>
      <p>The link may be for another account of yours, or it no longer works. Ask the person who sent it.</p>
      \(footer(visitor))
      """)
  }

  /// The page for a refusal by the share's shard.
  static func refused(_ notice: Notice, for visitor: Visitor) -> HTTPResponse {
    page(notice, "<h1>That did not work</h1>\n\(Page.alert(notice.sentence))\n\(footer(visitor))")
  }

  static func share(_ share: Share, of app: PageApp, for visitor: Visitor) -> HTTPResponse {
    let owner = Page.escaped(share.ownerName ?? "Somebody")
    let permission = share.mayWrite ? "read and change it" : "read it"
    let body =
      switch share.offer {
      case .own: "<p>You share this with others.</p>\n\(app.opening)"
      case .joined: "<p>\(owner) shares this with you: you may \(permission).</p>\n\(app.opening)"
      case .accept:
        """
        <p>\(owner) would like to share this with you. You may \(permission).</p>
        \(form([("accept", "Accept"), ("decline", "Decline")], visitor))
        """
      case .requestAccess:
        """
        <p>\(owner) has not shared this with you. You can ask for \
        it.</p>\n\(form([("request", "Ask for access")], visitor))
        """
      }
    return page(nil, "\(head(share, app))\n\(body)\n\(footer(visitor))")
  }

  static func accepted(_ share: Share, of app: PageApp, for visitor: Visitor) -> HTTPResponse {
    let owner = Page.escaped(share.ownerName ?? "Somebody")
    return page(
      nil,
      """
      \(head(share, app))
      <p id="message" role="status">You have joined: \(owner) shares this with you, and you may \
      \(share.mayWrite ? "read and change it" : "read it").</p>
      \(app.opening)
      \(footer(visitor))
      """)
  }

  static func declined(of app: PageApp?, for visitor: Visitor) -> HTTPResponse {
    page(
      nil,
      """
      \(app.map { Page.badge($0.name) } ?? "")
      <h1>You have not joined</h1>
      <p id="message" role="status">You have declined the invitation. If you change your mind, ask for another one.</p>
      \(footer(visitor))
      """)
  }

  static func requested(of app: PageApp?, for visitor: Visitor) -> HTTPResponse {
    page(
      nil,
      """
      \(app.map { Page.badge($0.name) } ?? "")
      <h1>You have asked</h1>
      <p id="message" role="status">The owner has your request. You have access as soon as they grant it.</p>
      \(footer(visitor))
      """)
  }

  // MARK: Parts

  private static func head(_ share: Share, _ app: PageApp) -> String {
    """
    \(Page.badge(app.name))\n<p \
    class=\"soft\">\(Page.escaped(app.name))</p>\n<h1>\(Page.escaped(share.title ?? "Shared data"))</h1>
    """
  }

  /// The first button is the default: most visitors came for it.
  private static func form(_ buttons: [(action: String, label: String)], _ visitor: Visitor) -> String {
    let lines = buttons.enumerated().map { index, button in
      """
      <button id=\"\(button.action)\"\(index == 0 ? " class=\"primary\" autofocus" : "") name=\"action\" \
      value=\"\(button.action)\" type=\"submit\">\(button.label)</button>
      """
    }
    return """
      <form method="post">
      <input type="hidden" name="ticket" value="\(Page.escaped(visitor.ticket))">
      <p class="actions">\(lines.joined())</p>
      </form>
      """
  }

  private static func footer(_ visitor: Visitor) -> String {
    """
    <footer>Signed in as <strong>\(Page.escaped(visitor.name))</strong>. <a id=\"another\" \
    href=\"?account=another\">Use another account</a></footer>
    """
  }

  private static func page(_ notice: Notice?, _ content: String) -> HTTPResponse {
    Page(title: "Shared data", status: notice?.status ?? 200, retryAfter: notice?.retryAfter, content: content).response
  }
}
