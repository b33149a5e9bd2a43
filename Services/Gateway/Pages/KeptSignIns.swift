// The cookies that keep a browser signed in to pages of the server.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// A session that is kept lives this long without being used. Unit: seconds.
  private static let keptTime: Int64 = 14 * 86_400

  /// The `Set-Cookie` value for a sign-in to an app: a new cookie for the pages of shares when the user wants to be
  /// kept, an empty one when the browser still keeps an earlier sign-in.
  /// - Returns: nil when the browser's cookies stay as they are.
  func cookie(
    of signIn: SignInState, userName: String, token: String, isKept: Bool, _ key: [UInt8], _ request: HTTPRequest
  ) async -> String? {
    guard isKept else {
      return request.cookie(KeptSignIn.Pages.shares.cookieName) == nil
        ? nil : cookie("", for: .shares, seconds: 0, request)
    }
    // Dropped because the sign-in itself succeeded; without the cookie a share asks the user again.
    return await keptSignIn(for: .shares, signIn, userName: userName, token: token, seconds: Self.keptTime).map {
      cookie($0.text(signedWith: key), for: .shares, seconds: Self.keptTime, request)
    }
  }

  /// - Returns: nil when the session of the token has ended, or the directory does not answer.
  func keptSignIn(
    for pages: KeptSignIn.Pages, _ signIn: SignInState, userName: String, token: String, seconds: Int64
  ) async -> KeptSignIn? {
    let question = Authenticator.Question(
      container: signIn.container, environment: signIn.environment, apiToken: nil, userToken: token)
    let reply: Authenticate.Reply
    do throws(RecordError) {
      reply = try await state.authenticator.answer(to: question, from: share)
    } catch {
      // Dropped because callers have the same answer for a session that ended.
      return nil
    }
    guard let user = reply.userRecordName, let grant = reply.grant else { return nil }
    return KeptSignIn(
      for: pages, container: signIn.container, environment: signIn.environment, userRecordName: user,
      userName: userName, grant: grant, expiry: wallClock.now + seconds * 1000)
  }

  /// The browser sends the cookie when a user follows a link, never with a form of another page (SameSite=Lax).
  func cookie(_ value: String, for pages: KeptSignIn.Pages, seconds: Int64, _ request: HTTPRequest) -> String {
    let isSecure = options.publicAddress.url(for: request).hasPrefix("https://")
    return
      """
      \(pages.cookieName)=\(value); Path=\(pages.path); Max-Age=\(seconds); HttpOnly; \
      SameSite=Lax\(isSecure ? "; Secure" : "")
      """
  }

  /// The sign-in that the browser's cookie states; its session may have ended.
  func signedCookie(for pages: KeptSignIn.Pages, _ request: HTTPRequest, _ key: [UInt8]) -> KeptSignIn? {
    request.cookie(pages.cookieName).flatMap {
      KeptSignIn(text: $0, for: pages, verifiedWith: key, now: wallClock.now)
    }
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
