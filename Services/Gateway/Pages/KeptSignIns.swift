// The cookie that keeps a browser signed in: shares of the same container open without another sign-in.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// A session that is kept lives this long without being used. Unit: seconds.
  private static let keptTime: Int64 = 14 * 86_400

  /// The `Set-Cookie` value for a sign-in: a new cookie when the user wants to be kept, an empty one when the browser
  /// still keeps an earlier sign-in.
  /// - Returns: nil when the browser's cookies stay as they are.
  func cookie(
    of signIn: SignInState, userName: String, token: String, isKept: Bool, _ key: [UInt8], _ request: HTTPRequest
  ) async -> String? {
    guard isKept else { return request.cookie(KeptSignIn.cookieName) == nil ? nil : cookie("", seconds: 0, request) }
    let question = Authenticator.Question(
      container: signIn.container, environment: signIn.environment, apiToken: nil, userToken: token)
    let reply: Authenticate.Reply
    do throws(RecordError) {
      reply = try await state.authenticator.answer(to: question, from: share)
    } catch {
      // Dropped because the sign-in itself succeeded; without the cookie a share asks the user again.
      return nil
    }
    guard let user = reply.userRecordName, let grant = reply.grant else { return nil }
    let kept = KeptSignIn(
      container: signIn.container, environment: signIn.environment, userRecordName: user, userName: userName,
      grant: grant, expiry: wallClock.now + Self.keptTime * 1000)
    return cookie(kept.text(signedWith: key), seconds: Self.keptTime, request)
  }

  /// The browser sends the cookie when a user follows a link, never with a form of another page (SameSite=Lax).
  private func cookie(_ value: String, seconds: Int64, _ request: HTTPRequest) -> String {
    let isSecure = options.publicAddress.url(for: request).hasPrefix("https://")
    return
      """
      \(KeptSignIn.cookieName)=\(value); Path=/share/; Max-Age=\(seconds); HttpOnly; \
      SameSite=Lax\(isSecure ? "; Secure" : "")
      """
  }

  /// The kept sign-in of the visitor's browser; nil when there is none or it counts no more.
  func keptSignIn(_ request: HTTPRequest, _ key: [UInt8]) async -> KeptSignIn? {
    guard let text = request.cookie(KeptSignIn.cookieName),
      let kept = KeptSignIn(text: text, verifiedWith: key, now: wallClock.now)
    else { return nil }
    let grant = VerifyGrant(
      container: kept.container, environment: kept.environment, userRecordName: kept.userRecordName, grant: kept.grant)
    return await state.authenticator.holds(grant, from: share) ? kept : nil
  }
}

extension HTTPRequest {
  /// The value of the first cookie with this name.
  func cookie(_ name: String) -> String? {
    for header in headers where header.name.lowercased() == "cookie" {
      for pair in header.value.split(separator: ";") {
        let parts = pair.drop { $0 == " " }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2, parts[0] == name { return String(parts[1]) }
      }
    }
    return nil
  }
}
