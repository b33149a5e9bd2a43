// `/signin/with/…` and `/signin/return/…`: the way of a browser to a provider of identities and back.

import Authentication
import Crypto
import HTTPServer
import JSON
import OpenID
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// Time that a person may take at the provider. Unit: seconds.
  private static let attemptTime: Int64 = 900
  private static let answerByteLimit = 16_384

  /// The providers on the sign-in page; none while the share service is away.
  func providerLinks(_ state: SignInState, _ key: [UInt8]) async -> [SignInPage.ProviderLink] {
    do throws(RecordError) {
      let text = state.text(signedWith: key)
      return try await self.state.providers.entries(of: state.container, from: share).map { entry in
        SignInPage.ProviderLink(displayName: entry.displayName, address: "/signin/with/\(entry.name)?state=\(text)")
      }
    } catch {
      // Dropped because names and passwords still work, and a share service of an earlier release knows no providers.
      return []
    }
  }

  /// Sends the browser to the provider.
  func beginIdentity(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    let key = try await secrets.signingKey()
    guard let text = request.query("state"),
      let signIn = SignInState(text: text, verifiedWith: key, now: wallClock.now)
    else { return SignInPage.ended(.badLink) }
    let form = await signInForm(signIn, key)
    // A foreign page must not lead people past the page that says which app they sign in to.
    guard isFromOwnPage(request) else { return form.page() }
    let entry: IdentityProviderEntry
    do throws(RecordError) {
      guard
        let found = try await state.providers.entries(of: signIn.container, from: share).first(where: {
          $0.name == name
        })
      else { return form.page(problem: .unknownProvider) }
      entry = found
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return form.page(problem: .away)
    }
    let attempt = SignInAttempt(random: random.bytes(96))
    let address: String
    do {
      address = try await state.providers.provider(entry).authorizationAddress(
        attempt, returnAddress: returnAddress(entry, request), now: wallClock.now)
    } catch {
      tell(error, of: entry)
      return form.page(problem: .away)
    }
    let kept = IdentityAttempt(
      provider: entry.name, signIn: text, state: attempt.state, nonce: attempt.nonce, verifier: attempt.verifier,
      isKept: request.query("keep") != nil, expiry: wallClock.now + Self.attemptTime * 1000)
    let cookie = attemptCookie(
      attempt.state, kept.text(signedWith: key), seconds: Self.attemptTime, isSentWithForms: entry.answersByForm,
      request)
    return HTTPResponse(
      status: 302,
      headers: [
        ("Location", address), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
        ("Set-Cookie", cookie),
      ])
  }

  /// Takes the provider's answer.
  func finishIdentity(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    let key = try await secrets.signingKey()
    guard let fields = ProviderAnswer(request, byteLimit: Self.answerByteLimit), let state = fields["state"],
      let cookie = request.cookie(Self.cookieName(state)),
      let attempt = IdentityAttempt(text: cookie, verifiedWith: key, now: wallClock.now),
      attempt.provider == name, ConstantTime.areEqual(Array(attempt.state.utf8), Array(state.utf8)),
      let signIn = SignInState(text: attempt.signIn, verifiedWith: key, now: wallClock.now)
    else { return SignInPage.ended(.foreignAnswer) }
    var response = try await finish(attempt, signIn, fields, key, request)
    let removal = attemptCookie(state, "", seconds: 0, isSentWithForms: request.method == .post, request)
    response.headers.append(("Set-Cookie", removal))
    return response
  }

  private func finish(
    _ attempt: IdentityAttempt, _ signIn: SignInState, _ fields: ProviderAnswer, _ key: [UInt8], _ request: HTTPRequest
  ) async throws(RecordError) -> HTTPResponse {
    let form = await signInForm(signIn, key)
    let source = request.signInSource(.provider, provider: attempt.provider)
    let reply: SignInByIdentity.Reply
    do throws(RecordError) {
      guard let code = fields["code"], fields["error"] == nil else {
        try await note(.provider, of: source, signIn.container, signIn.environment)
        return form.page(problem: .declined)
      }
      let entries = try await state.providers.entries(of: signIn.container, from: share)
      guard let entry = entries.first(where: { $0.name == attempt.provider }) else {
        return form.page(problem: .unknownProvider)
      }
      guard try await isFirstUse(of: attempt.state, until: attempt.expiry) else {
        try await note(.used, of: source, signIn.container, signIn.environment)
        return SignInPage.ended(.badLink)
      }
      let provider = try state.providers.provider(entry)
      var person: Identity
      do throws(IdentityError) {
        person = try await provider.identity(
          forCode: code, issuer: fields["iss"],
          SignInAttempt(state: attempt.state, nonce: attempt.nonce, verifier: attempt.verifier),
          returnAddress: returnAddress(entry, request), now: wallClock.now)
      } catch {
        tell(error, of: entry)
        guard error.kind == .refused else { return form.page(problem: .away) }
        try await note(.provider, of: source, signIn.container, signIn.environment)
        return form.page(problem: .declined)
      }
      if entry.answersByForm { person.takeNames(from: fields["user"]) }
      reply = try await share.call(
        SignInByIdentity(
          container: signIn.container, environment: signIn.environment, provider: entry.name,
          person: SignInByIdentity.Person(person), isKept: attempt.isKept,
          grant: signIn.grant.isEmpty ? nil : signIn.grant, source: source))
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return form.page(problem: .away)
    }
    guard let token = reply.webAuthToken, let userName = reply.userName else {
      guard let refusal = reply.refusal, refusal != .apiToken else { return SignInPage.ended(.revoked) }
      return form.page(problem: .refused(refusal))
    }
    return SignInPage.success(
      signIn, token: token,
      cookie: await cookie(of: signIn, userName: userName, token: token, isKept: attempt.isKept, key, request))
  }

  // MARK: Parts

  /// True the first time; the share service remembers until the time.
  func isFirstUse(of secret: String, until expiry: Int64) async throws(RecordError) -> Bool {
    let claim = ClaimSignature(
      digest: SHA256.hash("aquifer identity " + secret), requestID: random.uuid(), expiry: expiry)
    return try await share.call(claim).isFresh
  }

  /// Notes a failed sign-in for the operator.
  func tell(_ error: any Error, of entry: IdentityProviderEntry) {
    let reason = String(describing: error)
    if (error as? IdentityError)?.kind == .refused {
      log.info("identity refused", ["provider": .text(entry.name), "reason": .text(reason)])
    } else {
      log.warning("provider of identities failed", ["provider": .text(entry.name), "reason": .text(reason)])
    }
  }

  private func throttling(_ request: HTTPRequest) -> SignInPage.Problem? {
    guard let seconds = limiter.take(.address(request.remoteAddress)) else { return nil }
    metrics.countThrottled(by: "address")
    return .throttled(seconds: seconds)
  }

  /// True for a link that was followed on a page of this server.
  private func isFromOwnPage(_ request: HTTPRequest) -> Bool {
    if let site = request.header("sec-fetch-site") { return site == "same-origin" }
    // Browsers before 2023 tell the page's address alone.
    guard let page = request.header("referer") else { return false }
    return PageOrigin.origin(of: page) == PageOrigin.origin(of: options.publicAddress.url(for: request))
  }

  private func returnAddress(_ entry: IdentityProviderEntry, _ request: HTTPRequest) -> String {
    "\(options.publicAddress.url(for: request))/signin/return/\(entry.name)"
  }

  /// Each attempt has a cookie, so that two windows do not disturb each other.
  private static func cookieName(_ state: String) -> String { "aquiferSignIn_\(state.prefix(16))" }

  /// - Parameter isSentWithForms: true for a cookie that the browser also sends with a form of another site.
  private func attemptCookie(
    _ state: String, _ value: String, seconds: Int64, isSentWithForms: Bool, _ request: HTTPRequest
  ) -> String {
    let isSecure = options.publicAddress.url(for: request).hasPrefix("https://")
    let site = isSentWithForms && isSecure ? "None" : "Lax"
    return
      """
      \(Self.cookieName(state))=\(value); Path=/signin/return/; Max-Age=\(seconds); HttpOnly; \
      SameSite=\(site)\(isSecure ? "; Secure" : "")
      """
  }
}

/// The parameters of a provider's answer, in the query or in a form.
private struct ProviderAnswer {
  private let request: HTTPRequest
  private let form: FormBody?

  /// nil for a form that is too long or malformed.
  init?(_ request: HTTPRequest, byteLimit: Int) {
    self.request = request
    guard request.method == .post else {
      form = nil
      return
    }
    guard request.body.count <= byteLimit, let form = FormBody(request.body) else { return nil }
    self.form = form
  }

  subscript(_ name: String) -> String? { form.map { $0[name] } ?? request.query(name) }
}

extension Identity {
  /// Apple tells names once, beside its token and unsigned; they name the person to others and prove nothing.
  fileprivate mutating func takeNames(from text: String?) {
    guard let text, let name = (try? JSONValue(parsing: Array(text.utf8)))?["name"] else { return }
    func part(_ key: String) -> String? {
      name[key]?.string.flatMap { text in
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f } ? text : nil
      }
    }
    givenName = givenName ?? part("firstName")
    familyName = familyName ?? part("lastName")
  }
}

extension SignInByIdentity.Person {
  init(_ identity: Identity) {
    self.init(
      issuer: identity.issuer, subject: identity.subject, emailAddress: identity.emailAddress,
      givenName: identity.givenName, familyName: identity.familyName)
  }
}
