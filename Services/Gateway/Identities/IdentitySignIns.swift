// `/signin/with/…`: the way of a browser to a provider of identities.

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
  /// Browsers drop cookies whose name and value are longer (RFC 6265).
  private static let cookieByteLimit = 4096

  /// The providers on the sign-in page; none while the share service is away.
  func providerLinks(_ state: SignInState, to destination: SignInPage.Destination, _ key: [UInt8]) async
    -> [SignInPage.ProviderLink]
  {
    let query = "?state=\(state.text(signedWith: key))\(destination == .app ? "" : "&for=account")"
    return await providers(of: state.container).map { entry in
      SignInPage.ProviderLink(
        displayName: entry.displayName, address: "/signin/with/\(entry.name)\(query)\(destination.parameters)",
        icon: entry.icon.map { Self.address(of: $0, provider: entry.name) })
    }
  }

  func providers(of container: ContainerID) async -> [IdentityProviderEntry] {
    do throws(RecordError) {
      return try await state.providers.entries(of: container, from: share)
    } catch {
      // Dropped because names and passwords still work, and a share service of an earlier release knows no providers.
      return []
    }
  }

  /// Sends the browser to the provider, to sign in.
  func beginIdentity(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    let key = try await secrets.signingKey()
    guard let text = request.query("state"),
      let signIn = SignInState(text: text, verifiedWith: key, now: wallClock.now)
    else { return SignInPage.ended(.badLink) }
    let code = request.query("code").flatMap { UserCode($0) }
    let destination: SignInPage.Destination =
      request.query("for") == "account" ? .account(deviceCode: code) : .app
    let form = await signInForm(signIn, to: destination, key, request)
    // A foreign page must not lead people past the page that says which app they sign in to.
    guard isFromOwnPage(request) else { return form.page() }
    let purpose: IdentityAttempt.Purpose =
      switch destination {
      case .app: request.query("keep") == nil ? .app : .keptApp
      case .account(let code): .account(deviceCode: code?.letters)
      }
    do throws(SignInPage.Problem) {
      return try await lead(request, to: name, of: signIn.container, purpose, origin: text, key)
    } catch {
      return form.page(problem: error)
    }
  }

  /// The redirection to a provider, with the cookie of a new attempt.
  /// - Parameter origin: `IdentityAttempt.origin`.
  func lead(
    _ request: HTTPRequest, to name: String, of container: ContainerID, _ purpose: IdentityAttempt.Purpose,
    origin: String, _ key: [UInt8]
  ) async throws(SignInPage.Problem) -> HTTPResponse {
    let entry = try await entry(named: name, of: container)
    let attempt = SignInAttempt(random: random.bytes(96))
    let address: String
    do {
      address = try await state.providers.provider(entry).authorizationAddress(
        attempt, returnAddress: returnAddress(entry, request), now: wallClock.now)
    } catch {
      tell(error, of: entry)
      throw .away
    }
    let kept = IdentityAttempt(
      provider: entry.name, origin: origin, state: attempt.state, nonce: attempt.nonce, verifier: attempt.verifier,
      purpose: purpose, expiry: wallClock.now + Self.attemptTime * 1000)
    let text = kept.text(signedWith: key)
    guard Self.cookieName(attempt.state).utf8.count + text.utf8.count <= Self.cookieByteLimit else {
      throw .longCallback
    }
    let cookie = attemptCookie(
      attempt.state, text, seconds: Self.attemptTime, isSentWithForms: entry.answersByForm, request)
    return HTTPResponse(
      status: 302,
      headers: [
        ("Location", address), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
        ("Set-Cookie", cookie),
      ])
  }

  func entry(named name: String, of container: ContainerID) async throws(SignInPage.Problem)
    -> IdentityProviderEntry
  {
    let entries: [IdentityProviderEntry]
    do throws(RecordError) {
      entries = try await state.providers.entries(of: container, from: share)
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      throw .away
    }
    guard let entry = entries.first(where: { $0.name == name }) else { throw .unknownProvider }
    return entry
  }

  // MARK: Parts

  /// True the first time; the share service remembers until the time.
  func isFirstUse(of secret: String, until expiry: Int64) async throws(RecordError) -> Bool {
    try await share.call(claim(on: secret, until: expiry)).isFresh
  }

  func claim(on secret: String, until expiry: Int64) -> ClaimSignature {
    ClaimSignature(digest: SHA256.hash("aquifer identity " + secret), requestID: random.uuid(), expiry: expiry)
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

  /// True for a link that was followed on a page of this server.
  func isFromOwnPage(_ request: HTTPRequest) -> Bool {
    if let site = request.header("sec-fetch-site") { return site == "same-origin" }
    // Browsers before 2023 tell the page's address alone.
    guard let page = request.header("referer") else { return false }
    return PageOrigin.origin(of: page) == PageOrigin.origin(of: options.publicAddress.url(for: request))
  }

  func returnAddress(_ entry: IdentityProviderEntry, _ request: HTTPRequest) -> String {
    "\(options.publicAddress.url(for: request))/signin/return/\(entry.name)"
  }

  /// Each attempt has a cookie, so that two windows do not disturb each other.
  static func cookieName(_ state: String) -> String { "aquiferSignIn_\(state.prefix(16))" }

  /// - Parameter isSentWithForms: true for a cookie that the browser also sends with a form of another site.
  func attemptCookie(
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
