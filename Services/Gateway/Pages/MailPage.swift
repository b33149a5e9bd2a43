// `/mail/stop/TEXT`: the receiver of a mail asks for no more. Links in mails are opened by programs, too, so only a
// click on the page counts, or the POST of a mail program (RFC 8058).

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  func stopMail(_ request: HTTPRequest, _ text: String) async throws(RecordError) -> HTTPResponse {
    guard let stop = MailStop(text: text, verifiedWith: try await secrets.signingKey()) else {
      return MailPage.page("<p id=\"message\">This link is damaged. Take it from the mail again.</p>", status: 400)
    }
    guard request.method == .post else { return MailPage.question(stop, text) }
    do throws(RecordError) {
      _ = try await share.call(StopMail(emailAddress: stop.emailAddress))
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return MailPage.page("<p id=\"message\">That did not work. Please try again later.</p>", status: 503)
    }
    return MailPage.page("<p id=\"message\" role=\"status\">This address gets no more invitations from here.</p>")
  }
}

enum MailPage {
  fileprivate static func question(_ stop: MailStop, _ text: String) -> HTTPResponse {
    page(
      """
      <p>Shall <strong>\(Page.escaped(stop.emailAddress))</strong> get no more invitations from here?</p>
      <form method="post" action="\(MailStop.path)/\(Page.escaped(text))">
      <p class="actions"><button id="stop" class="primary" type="submit">No more invitations</button></p>
      </form>
      """)
  }

  fileprivate static func page(_ content: String, status: Int = 200) -> HTTPResponse {
    Page(
      title: "Invitations by mail", status: status, retryAfter: status == 503 ? 5 : nil,
      content: "<h1>Invitations by mail</h1>\n\(content)"
    ).response
  }
}
