// `/signin` (docs/protocol/record-plane.md#sign-in): the page that `redirectURL` leads to, and the form that it posts.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// A longer body can't be a name and a password.
  private static let bodyByteLimit = 16_384

  /// `GET` shows the form; `POST` handles the submitted form.
  func signIn(_ request: HTTPRequest, to destination: SignInPage.Destination) async throws(RecordError) -> HTTPResponse
  {
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    let key = try await secrets.signingKey()
    guard var state = request.query("state").flatMap({ SignInState(text: $0, verifiedWith: key, now: wallClock.now) })
    else {
      return SignInPage.ended(.badLink)
    }
    if let asked = request.query("callbackURL") {
      guard let registered = state.callbackURL, LoopbackCallback.allows(asked, registered: registered) else {
        return SignInPage.ended(.foreignCallback)
      }
      state.callbackURL = asked
    }
    let form = await signInForm(state, to: destination, key, request)
    guard request.method == .post else { return form.page() }
    guard isOwn(request) else { return SignInPage.ended(.foreignForm) }
    if request.body.count <= Self.bodyByteLimit, let fields = FormBody(request.body),
      let assertion = assertion(in: fields, request)
    {
      return await signIn(by: assertion, form, isKept: fields["keep"] == "yes", key, request)
    }
    guard request.body.count <= Self.bodyByteLimit, let fields = FormBody(request.body), let name = fields["name"],
      let password = fields["password"]
    else {
      return form.page(problem: .incomplete)
    }
    let entry = SignInPage.Entry(name: name, isKept: fields["keep"] != nil)
    let userName = name.trimmingSpaces()
    guard !userName.isEmpty, !password.isEmpty else { return form.page(entry, problem: .incomplete) }
    let message = SignIn(
      container: state.container, environment: state.environment, userName: userName, password: password,
      isKept: entry.isKept, clientAddress: request.remoteAddress, grant: state.grant.isEmpty ? nil : state.grant,
      client: ClientName.name(ofUserAgent: request.header("user-agent")))
    let reply: SignIn.Reply
    do throws(RecordError) {
      reply = try await share.call(message)
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return form.page(entry, problem: .away)
    }
    if reply.isOver == true { return SignInPage.ended(.revoked) }
    if let token = reply.webAuthToken {
      return await arrive(form, userName: userName, token: token, isKept: entry.isKept, key, request)
    }
    return form.page(entry, problem: reply.retryAfter.map { .throttled(seconds: $0) } ?? .wrong)
  }

  /// The sign-in page with all that it shows.
  func signInForm(
    _ state: SignInState, to destination: SignInPage.Destination, _ key: [UInt8], _ request: HTTPRequest
  ) async -> SignInPage.Form {
    SignInPage.Form(
      state: state, stateText: state.text(signedWith: key), app: await pageApp(of: state.container),
      providers: await providerLinks(state, to: destination, key), destination: destination,
      passkey: passkeyData(key, request))
  }

  /// Leads a person who has signed in to the app or to the account page.
  /// - Parameter token: of the session that has begun.
  func arrive(
    _ form: SignInPage.Form, userName: String, token: String, isKept: Bool, _ key: [UInt8], _ request: HTTPRequest
  ) async -> HTTPResponse {
    switch form.destination {
    case .app:
      return SignInPage.success(
        form.state, token: token,
        cookie: await cookie(of: form.state, userName: userName, token: token, isKept: isKept, key, request))
    case .account(let deviceCode):
      let seconds = UseAccount.sessionTime / 1000
      guard
        let kept = await keptSignIn(for: .account, form.state, userName: userName, token: token, seconds: seconds)
      else { return form.page(problem: .away) }
      return AccountPage.entered(
        deviceCode, cookie: cookie(kept.text(signedWith: key), for: .account, seconds: seconds, request))
    }
  }

  /// The problem of an address that asks too often; counts the request.
  func throttling(_ request: HTTPRequest) -> SignInPage.Problem? {
    guard let seconds = limiter.take(.address(request.clientNetwork)) else { return nil }
    metrics.countThrottled(by: "address")
    return .throttled(seconds: seconds)
  }

  /// True when the page itself sent the form. A request that no browser sent is accepted: it carries no browser's
  /// authority.
  func isOwn(_ request: HTTPRequest) -> Bool {
    if let site = request.header("sec-fetch-site"), site != "same-origin" { return false }
    guard let origin = request.header("origin")?.lowercased() else { return true }
    // The host name that the request used, or the public address.
    let hosts = request.header("host").map { ["http://\($0.lowercased())", "https://\($0.lowercased())"] } ?? []
    return origin == PageOrigin.origin(of: options.publicAddress.url(for: request)) || hosts.contains(origin)
  }
}

extension String {
  /// Without the spaces around the text: keyboards of phones put one behind a completed word.
  func trimmingSpaces() -> String { String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
}
