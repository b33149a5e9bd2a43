// `/account` (docs/protocol/record-plane.md#account): the page on which people see and end their sessions, and add and
// remove ways to sign in.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// A longer body can't be a form of the page.
  private static let bodyByteLimit = 16_384

  /// `GET` shows the account, or the form to sign in to it; `POST` handles a form of either.
  func account(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    let key = try await secrets.signingKey()
    guard let visit = signedCookie(for: .account, request, key) else {
      let code = request.query("code").flatMap { UserCode($0) }
      return try await signIn(request, to: .account(deviceCode: code))
    }
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    guard request.method == .post else { return await use(.look, visit, request) }
    guard isOwn(request) else { return SignInPage.ended(.foreignForm) }
    guard request.body.count <= Self.bodyByteLimit, let fields = FormBody(request.body),
      let act = registration(in: fields, request).map({ UseAccount.Act.addPasskey($0) }) ?? AccountPage.act(fields)
    else { return await use(.look, visit, request, problem: .incomplete) }
    return await use(act, visit, request)
  }

  /// Sends the browser from the account page to a provider, for one more way to sign in.
  func beginLink(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    let key = try await secrets.signingKey()
    guard let visit = signedCookie(for: .account, request, key) else { return SignInPage.ended(.badLink) }
    // A foreign page must not make people add a way to sign in.
    guard isFromOwnPage(request) else { return await use(.look, visit, request) }
    do throws(SignInPage.Problem) {
      return try await lead(request, to: name, of: visit.container, .link, origin: visit.text(signedWith: key), key)
    } catch {
      return await use(.look, visit, request, problem: error)
    }
  }

  /// Carries out an act and shows the account as it is then.
  /// - Parameter problem: the reason why nothing else was done before.
  func use(
    _ act: UseAccount.Act, _ visit: KeptSignIn, _ request: HTTPRequest, problem: SignInPage.Problem? = nil
  ) async -> HTTPResponse {
    let reply: UseAccount.Reply
    do throws(RecordError) {
      reply = try await answer(to: act, of: visit, request)
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return SignInPage.ended(.away)
    }
    guard let account = reply.account else {
      return AccountPage.left(cookie: cookie("", for: .account, seconds: 0, request))
    }
    return AccountPage.page(
      account, of: visit, providers: await providers(of: visit.container),
      passkey: secrets.knownSigningKey.flatMap { passkeyData(for: visit.userRecordName, $0, request) },
      now: wallClock.now,
      problem: reply.refusal.map { .unchanged($0) } ?? problem)
  }

  func answer(to act: UseAccount.Act, of visit: KeptSignIn, _ request: HTTPRequest) async throws(RecordError)
    -> UseAccount.Reply
  {
    try await share.call(
      UseAccount(
        container: visit.container, environment: visit.environment, userRecordName: visit.userRecordName,
        grant: visit.grant, act: act, clientAddress: request.remoteAddress))
  }
}
