// Talks to one provider: reads its description and keys, fetches tokens, and makes identities of them.

import Crypto
public import HTTPClient
import JSON

/// A provider and the caches of its documents.
public actor IdentityProvider {
  private let configuration: ProviderConfiguration
  private let client: HTTPClient
  private let metadata = ProviderDocument<ProviderMetadata>()
  private let keys = ProviderDocument<SigningKeySet>()
  /// The time of the latest question for keys, answered or not. Milliseconds since 1970.
  private var keysAsked: Int64?

  /// Documents are read again after this time, so that a key that was withdrawn stops counting. Unit: milliseconds.
  private static let documentAge: Int64 = 3_600_000
  /// A token may name a key that is newer than the set; the set is not read again sooner than this.
  private static let leastKeyAge: Int64 = 60_000
  private static let timeout: Duration = .seconds(10)

  /// - Parameter client: its limit of bytes bounds the provider's answers.
  public init(_ configuration: ProviderConfiguration, client: HTTPClient) {
    self.configuration = configuration
    self.client = client
  }

  /// The address that the browser goes to.
  /// - Parameters:
  ///   - returnAddress: the address registered with the provider, to which it sends its answer.
  ///   - now: milliseconds since 1970, here and in the other calls.
  public func authorizationAddress(_ attempt: SignInAttempt, returnAddress: String, now: Int64)
    async throws(IdentityError)
    -> String
  {
    let endpoint = try await metadata(now).authorizationEndpoint
    var fields = [
      (name: "response_type", value: "code"), ("client_id", configuration.clientID), ("redirect_uri", returnAddress),
      ("scope", configuration.scopes.joined(separator: " ")), ("state", attempt.state), ("nonce", attempt.nonce),
      ("code_challenge", attempt.challenge), ("code_challenge_method", "S256"),
    ]
    if configuration.answersByForm { fields.append(("response_mode", "form_post")) }
    return endpoint + (endpoint.contains("?") ? "&" : "?") + FormText.joined(fields)
  }

  /// The person whom a code stands for.
  /// - Parameters:
  ///   - code: of the provider's answer to this attempt.
  ///   - issuer: the answer's `iss`; nil when it has none.
  public func identity(
    forCode code: String, issuer: String?, _ attempt: SignInAttempt, returnAddress: String, now: Int64
  ) async throws(IdentityError) -> Identity {
    let metadata = try await metadata(now)
    guard issuer == configuration.issuer || issuer == nil && !metadata.namesItself else {
      throw .refused("The answer is of another provider")
    }
    let tokens = try await fetchTokens(code, attempt, metadata, returnAddress, now)
    guard let text = tokens["id_token"]?.string else { throw .refused("The provider's answer has no ID token") }
    let token = try await verified(
      text,
      TokenExpectation(
        issuer: configuration.issuer, audiences: [configuration.clientID], nonce: attempt.nonce, now: now))
    var identity = token.identity
    let lacksNumber = identity.phoneNumber == nil && configuration.scopes.contains("phone")
    if identity.emailAddress == nil || lacksNumber, let endpoint = metadata.userInfoEndpoint,
      let accessToken = tokens["access_token"]?.string
    {
      identity = try await completed(identity, from: endpoint, accessToken: accessToken)
    }
    return identity
  }

  /// The person of an ID token that a native app got from the provider itself.
  /// - Parameter nonce: the app's nonce; the token has it, or its SHA-256 in hex digits.
  /// - Returns: the person, and the time from which the token counts no more, in milliseconds since 1970.
  public func identity(ofIDToken text: String, nonce: String, now: Int64) async throws(IdentityError) -> (
    identity: Identity, expiry: Int64
  ) {
    guard !nonce.isEmpty else { throw .refused("The nonce is missing") }
    let token = try await verified(
      text,
      TokenExpectation(
        issuer: configuration.issuer, audiences: configuration.nativeClientIDs, nonce: nonce, now: now))
    return (token.identity, token.expiry)
  }

  /// The sessions that end by a logout token, which the provider sent itself.
  public func logout(ofToken text: String, now: Int64) async throws(IdentityError) -> Logout {
    let expected = TokenExpectation(
      issuer: configuration.issuer, audiences: [configuration.clientID] + configuration.nativeClientIDs, now: now)
    let token = try SignedToken(text)
    return try Logout(token, keys: try await candidates(for: token, now), expected)
  }

  // MARK: Tokens

  private func verified(_ text: String, _ expected: TokenExpectation) async throws(IdentityError) -> IDToken {
    let token = try SignedToken(text)
    return try IDToken(token, keys: try await candidates(for: token, expected.now), expected)
  }

  /// The keys that may have made the token's signature.
  private func candidates(for token: SignedToken, _ now: Int64) async throws(IdentityError) -> [SigningKey] {
    // A token that names no key may have a new one, too.
    let age = token.keyID == nil ? Self.leastKeyAge : Self.documentAge
    let candidates = try await keys(now, noOlderThan: age).candidates(token.algorithm, keyID: token.keyID)
    guard candidates.isEmpty else { return candidates }
    return try await keys(now, noOlderThan: Self.leastKeyAge).candidates(token.algorithm, keyID: token.keyID)
  }

  private func fetchTokens(
    _ code: String, _ attempt: SignInAttempt, _ metadata: ProviderMetadata, _ returnAddress: String, _ now: Int64
  ) async throws(IdentityError) -> JSONValue {
    var fields = [
      (name: "grant_type", value: "authorization_code"), ("code", code), ("redirect_uri", returnAddress),
      ("code_verifier", attempt.verifier),
    ]
    var headers = [HTTPClient.Header("Content-Type", "application/x-www-form-urlencoded")]
    switch (configuration.secret, metadata.clientAuthentication) {
    case (.none, _): fields.append(("client_id", configuration.clientID))
    case (.text(let secret), .basic):
      let pair = FormText.encoded(configuration.clientID) + ":" + FormText.encoded(secret)
      headers.append(HTTPClient.Header("Authorization", "Basic " + Base64.encode(Array(pair.utf8))))
    case (.text(let secret), .post):
      fields += [("client_id", configuration.clientID), ("client_secret", secret)]
    case (.apple(let key), _):
      let secret = key.secret(forClient: configuration.clientID, issuer: configuration.issuer, now: now)
      fields += [("client_id", configuration.clientID), ("client_secret", secret)]
    }
    let answer = try await send("POST", metadata.tokenEndpoint, headers, Array(FormText.joined(fields).utf8))
    guard let value = try? JSONValue(parsing: answer.body), value.kind == .object else {
      throw IdentityError(
        .unavailable, "The token endpoint of \(configuration.issuer) answered \(answer.status) without JSON")
    }
    guard answer.status == 200 else { throw Self.refusal(of: value["error"]?.string, configuration.issuer) }
    return value
  }

  /// - Parameter code: of RFC 6749, 5.2.
  private static func refusal(of code: String?, _ issuer: String) -> IdentityError {
    switch code {
    case "invalid_grant": .refused("\(issuer) does not know the code, or has seen it before")
    case "invalid_client", "unauthorized_client":
      .misconfigured("\(issuer) refuses this client: check its client ID and its secret")
    default: .misconfigured("\(issuer) refuses the request for tokens: \(printable(code ?? "it gives no reason"))")
    }
  }

  /// A text from outside, fit for one line of a log.
  private static func printable(_ text: String) -> String {
    String(text.unicodeScalars.filter { (0x20...0x7e).contains($0.value) }.prefix(100).map(Character.init))
  }

  /// Adds what only userinfo tells. The subject has to be the same (OpenID Connect Core, 5.3.2).
  private func completed(_ identity: Identity, from endpoint: String, accessToken: String) async throws(IdentityError)
    -> Identity
  {
    let isToken = accessToken.utf8.count <= 8192 && accessToken.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    guard isToken else { throw .refused("The provider's access token is not printable") }
    let answer = try await send("GET", endpoint, [HTTPClient.Header("Authorization", "Bearer \(accessToken)")], nil)
    guard answer.status == 200, let claims = try? JSONValue(parsing: answer.body), claims.kind == .object else {
      throw IdentityError(.unavailable, "Userinfo of \(configuration.issuer) answered \(answer.status)")
    }
    guard claims["sub"]?.string == identity.subject else { throw .refused("Userinfo is of another person") }
    let told = Identity(claims, issuer: identity.issuer, subject: identity.subject)
    var identity = identity
    identity.emailAddress = identity.emailAddress ?? told.emailAddress
    identity.phoneNumber = identity.phoneNumber ?? told.phoneNumber
    identity.givenName = identity.givenName ?? told.givenName
    identity.familyName = identity.familyName ?? told.familyName
    return identity
  }

  // MARK: Documents

  private func metadata(_ now: Int64) async throws(IdentityError) -> ProviderMetadata {
    let issuer = configuration.issuer
    return try await metadata.content(now) {
      $0 < Self.documentAge
    } read: { () async throws(IdentityError) in
      let address = (issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer) + "/.well-known/openid-configuration"
      return try ProviderMetadata(try await document(address), issuer: issuer)
    }
  }

  private func keys(_ now: Int64, noOlderThan age: Int64) async throws(IdentityError) -> SigningKeySet {
    // However many tokens name unknown keys at once, and whether or not the provider answers.
    let isAsked = keysAsked.map { now - $0 < Self.leastKeyAge } ?? false
    return try await keys.content(now) {
      $0 < (isAsked ? Self.documentAge : age)
    } read: { () async throws(IdentityError) in
      keysAsked = now
      return try SigningKeySet(try await document(try await metadata(now).keysAddress))
    }
  }

  private func document(_ address: String) async throws(IdentityError) -> [UInt8] {
    let answer = try await send("GET", address, [], nil)
    guard answer.status == 200 else { throw IdentityError(.unavailable, "\(address) answered \(answer.status)") }
    return answer.body
  }

  private func send(_ method: String, _ address: String, _ headers: [HTTPClient.Header], _ body: [UInt8]?)
    async throws(IdentityError) -> HTTPClient.Response
  {
    let answer: HTTPClient.Response
    do throws(HTTPClientError) {
      answer = try await client.send(
        method, address, headers: headers + [HTTPClient.Header("Accept", "application/json")], body: body,
        timeout: Self.timeout)
    } catch {
      throw IdentityError(
        error.kind == .badURL ? .misconfigured : .unavailable, "\(address) can't be reached: \(error.reason)")
    }
    guard answer.status < 500, answer.status != 429 else {
      throw IdentityError(.unavailable, "\(address) answered \(answer.status)")
    }
    return answer
  }
}
