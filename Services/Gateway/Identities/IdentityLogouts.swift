// `POST /signin/logout/…`: a provider tells that a person has signed out there, and the sessions end here.

import Authentication
import HTTPServer
import JSON
import OpenID
import Records
import ServiceBus
import ServiceKit

extension Gateway {
  /// Takes a form with `logout_token`. The provider itself sends it, so no browser and no cookie has a part in it.
  func endIdentitySessions(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    try take(.address(request.clientNetwork))
    guard let text = FormBody(request.body)?["logout_token"] else { return Self.logoutError("logout_token is missing") }
    guard let entry = try await state.providers.entries(of: nil, from: share).first(where: { $0.name == name }) else {
      throw RecordError(.notFound, "There is no provider of identities '\(name)'")
    }
    let provider = try state.providers.provider(entry)
    let logout: Logout
    do throws(IdentityError) {
      logout = try await provider.logout(ofToken: text, now: wallClock.now)
    } catch {
      tell(error, of: entry)
      guard error.kind == .refused else {
        throw RecordError(.tryAgainLater, "The provider '\(name)' can't be asked at the moment", retryAfter: 5)
      }
      return Self.logoutError(error.description)
    }
    let reply = try await share.call(
      EndIdentitySessions(
        issuer: logout.issuer, subject: logout.subject, sessionID: logout.sessionID,
        claim: claim(on: "logout \(logout.issuer) \(logout.tokenID)", until: logout.expiry)))
    guard reply.isFresh else { return Self.logoutError("The token was used before") }
    log.info("signed out at provider", ["provider": .text(entry.name)])
    return HTTPResponse(status: 200, headers: [("Cache-Control", "no-store")], body: .bytes([]))
  }

  private static func logoutError(_ description: String) -> HTTPResponse { oauthError("invalid_request", description) }
}
