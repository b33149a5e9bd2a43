// Identifies the caller of a request: asks the directory, lets `Access` decide, and verifies signatures.

import Authentication
import Crypto
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// Time from the 421 answer to the typed password; cloudkit.js asks again after 14 minutes. Unit: milliseconds.
  private static let signInTime: Int64 = 900_000

  /// Identifies the caller and counts the request towards the caller's rate limit.
  func authenticate(
    _ question: Authenticator.Question?, _ credentials: Credentials, _ need: Need, _ exchange: inout IncomingRequest
  ) async throws(RecordError) -> Caller {
    guard let question else { return Caller(userRecordName: nil) }
    // Unknown credentials count towards the sender's address, because each guess is a new credential.
    if limiter.isActive, state.authenticator.known(question) == nil {
      try take(.address(exchange.request.clientNetwork))
    }
    let caller = try await check(question, credentials, need, &exchange)
    if let signature = credentials.signature {
      try await verify(signature, exchange)
      try take(.serverKey(signature.keyID))
    } else if !caller.isOperator {
      try take(.tokens(api: question.apiToken, user: question.userToken))
    }
    return caller
  }

  /// Checks that the credentials hold at this moment. Verifying a signature is left to the caller.
  /// - Returns: the caller as they are now, whose role may have changed since the request began.
  @discardableResult
  func check(
    _ question: Authenticator.Question, _ credentials: Credentials, _ need: Need, _ exchange: inout IncomingRequest
  ) async throws(RecordError) -> Caller {
    let reply = try await state.authenticator.answer(to: question, from: share)
    exchange.allowedOrigins = reply.allowedOrigins
    do throws(RecordError) {
      let caller = try Access.caller(
        reply, need: need, credentials: credentials, origin: exchange.request.header("origin"))
      exchange.authentication = (question, reply)
      return caller
    } catch {
      guard error.code == .authenticationRequired else { throw error }
      var refusal = error
      refusal.redirectURL = try await signInURL(question, reply, exchange.request)
      throw refusal
    }
  }

  /// Counts one request for the key.
  /// - Throws: `throttled`, with the seconds to wait.
  func take(_ key: RateLimiter.Key) throws(RecordError) {
    guard let seconds = limiter.take(key) else { return }
    metrics.countThrottled(by: key.kind)
    throw RecordError(.throttled, "Too many requests", retryAfter: seconds)
  }

  // MARK: Signatures

  /// - Throws: `authenticationFailed` for every kind of bad signature; `tryAgainLater` while the share service can't
  ///   say whether the signature was used before.
  private func verify(_ signature: RequestSignature, _ exchange: IncomingRequest) async throws(RecordError) {
    guard let key = exchange.authentication?.reply.publicKey,
      let proof = signature.proof(for: exchange.request, by: P256PublicKey(der: key), now: wallClock.now)
    else {
      try take(.address(exchange.request.clientNetwork))
      throw Access.signatureRefusal
    }
    let claim = ClaimSignature(digest: proof.digest, requestID: exchange.uuid, expiry: proof.expiry)
    guard try await share.call(claim).isFresh else { throw Access.signatureRefusal }
  }

  // MARK: Sessions

  /// The next token of a session, which successful answers carry; nil when the token stays. It stays when a page opens
  /// an event stream, because a browser shows a page no headers of one: the token would end, and the page would have no
  /// other.
  func successor(_ exchange: IncomingRequest, _ response: HTTPResponse) async -> String? {
    guard (200..<300).contains(response.status), let (question, reply) = exchange.authentication,
      !response.isEventStream || exchange.credentials.isBearer
    else { return nil }
    return await state.authenticator.successor(of: question, reply, from: share)
  }

  /// The address of the sign-in page for the app and page that asked.
  /// - Returns: nil for a request without an API token, because the page could not name the app.
  private func signInURL(_ question: Authenticator.Question, _ reply: Authenticate.Reply, _ request: HTTPRequest)
    async throws(RecordError) -> String?
  {
    guard question.apiToken != nil, let container = question.container, let environment = question.environment else {
      return nil
    }
    let signIn = SignInState(
      container: container, environment: environment, origin: requestingOrigin(request, allowed: reply.allowedOrigins),
      callbackURL: reply.callbackURL,
      expiry: wallClock.now + Self.signInTime, grant: reply.grant ?? "")
    return
      """
      \(options.publicAddress.url(for: request))/signin?state=\(signIn.text(signedWith: try await secrets.signingKey()))
      """
  }

  /// The origin of the page that may receive the token; nil when there is none that a message can be addressed to.
  private func requestingOrigin(_ request: HTTPRequest, allowed: [String]) -> String? {
    if let origin = request.header("origin") { return PageOrigin.isOrigin(origin) ? origin : nil }
    // A browser sends no Origin header for a GET from a page of the gateway's own address.
    guard request.header("sec-fetch-site") == "same-origin" else { return nil }
    let own = PageOrigin.origin(of: options.publicAddress.url(for: request))
    return CORS.allows(own, allowed: allowed) ? own : nil
  }

  // MARK: Preflights

  static func preflight(_ request: HTTPRequest) -> HTTPResponse {
    let isMirror = request.pathSegments.first == "mirror" || request.pathSegments.first == "admin"
    // Both planes accept a bearer token and an idempotency key.
    let headers = "content-type, authorization, X-Request-ID, X-Apple-Request-UUID, traceparent"
    return CORS.preflight(
      methods: isMirror ? "GET, POST, PUT, DELETE, OPTIONS" : "GET, POST, OPTIONS",
      headers: isMirror ? headers : "\(headers), \(signatureHeaders)")
  }

  private static let signatureHeaders =
    "X-Apple-CloudKit-Request-KeyID, X-Apple-CloudKit-Request-ISO8601Date, X-Apple-CloudKit-Request-SignatureV1"
}

/// Origins of pages as browsers write them: scheme, host and port.
enum PageOrigin {
  private static let byteLimit = 512

  /// True for scheme, host and port; false for `null`, which every sandboxed page sends.
  static func isOrigin(_ text: String) -> Bool {
    guard text.utf8.count <= byteLimit, let mark = text.firstRange(of: "://"), mark.lowerBound > text.startIndex else {
      return false
    }
    let host = text[mark.upperBound...]
    return !host.isEmpty && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
      && !host.utf8.contains { "/?#@\\\"'<>;,".utf8.contains($0) }
      && text[..<mark.lowerBound].utf8.allSatisfy {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0 | 0x20) || "0123456789+-.".utf8.contains($0)
      }
  }

  /// The origin of an absolute URL, spelled as in an Origin header.
  static func origin(of url: String) -> String {
    guard let mark = url.firstRange(of: "://") else { return url }
    let host = url[mark.upperBound...].prefix { !"/?#".contains($0) }
    return url[..<mark.upperBound].lowercased() + host.lowercased()
  }
}
