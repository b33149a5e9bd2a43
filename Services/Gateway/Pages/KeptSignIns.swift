// The cookie of a browser whose user asked to be kept signed in: a share of the same container does not ask them again.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// As long as a session that is kept lives without being used. Unit: seconds.
  private static let keptTime: Int64 = 14 * 86_400

  /// The cookie that goes with a token of the sign-in page, as its header has it: kept, or taken away where another user was kept before.
  /// - Returns: nil: the browser's cookies stay as they are.
  func cookie(of signIn: SignInState, userName: String, token: String, isKept: Bool, _ key: [UInt8], _ request: HTTPRequest) async -> String? {
    guard isKept else { return request.cookie(KeptSignIn.cookieName) == nil ? nil : cookie("", seconds: 0, request) }
    let question = Authenticator.Question(container: signIn.container, environment: signIn.environment, apiToken: nil, userToken: token)
    let reply: Authenticate.Reply
    do throws(RecordError) {
      reply = try await state.authenticator.answer(to: question, from: share)
    } catch {
      // Dropped because the user has signed in all the same; a share asks them again.
      return nil
    }
    guard let user = reply.userRecordName, let grant = reply.grant else { return nil }
    let kept = KeptSignIn(
      container: signIn.container, environment: signIn.environment, userRecordName: user, userName: userName, grant: grant, expiry: wallClock.now + Self.keptTime * 1000)
    return cookie(kept.text(signedWith: key), seconds: Self.keptTime, request)
  }

  /// Sent with a link that somebody follows, never with another page's form.
  private func cookie(_ value: String, seconds: Int64, _ request: HTTPRequest) -> String {
    let isSecure = options.publicAddress.url(for: request).hasPrefix("https://")
    return "\(KeptSignIn.cookieName)=\(value); Path=/share/; Max-Age=\(seconds); HttpOnly; SameSite=Lax\(isSecure ? "; Secure" : "")"
  }

  /// What the visitor's browser kept; nil when there is nothing, or it does not count any more.
  func keptSignIn(_ request: HTTPRequest, _ key: [UInt8]) async -> KeptSignIn? {
    guard let text = request.cookie(KeptSignIn.cookieName), let kept = KeptSignIn(text: text, verifiedWith: key, now: wallClock.now) else { return nil }
    let grant = VerifyGrant(container: kept.container, environment: kept.environment, userRecordName: kept.userRecordName, grant: kept.grant)
    return await state.authenticator.holds(grant, from: share) ? kept : nil
  }
}

extension HTTPRequest {
  /// The value of the first cookie of a name.
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
