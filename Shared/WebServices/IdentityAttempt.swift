// A sign-in that is under way at a provider of identities, as the browser's cookie keeps it.

/// Ties a provider's answer to the browser that asked. Nobody stores it; the installation's key signs it.
public struct IdentityAttempt: Hashable, Sendable {
  /// The provider's name.
  public let provider: String
  /// The text of the `SignInState` with which the sign-in page was opened.
  public let signIn: String
  /// The three secrets of the attempt.
  public let state: String
  public let nonce: String
  public let verifier: String
  /// True for a session of two weeks.
  public let isKept: Bool
  /// Milliseconds since 1970; the attempt is refused from then on.
  public let expiry: Int64

  public init(
    provider: String, signIn: String, state: String, nonce: String, verifier: String, isKept: Bool, expiry: Int64
  ) {
    self.provider = provider
    self.signIn = signIn
    self.state = state
    self.nonce = nonce
    self.verifier = verifier
    self.isKept = isKept
    self.expiry = expiry
  }

  private static let purpose = Array("aquifer identity attempt".utf8)

  /// The cookie's text.
  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [provider, signIn, state, nonce, verifier, isKept ? "1" : "0", String(expiry)], for: Self.purpose,
      signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose, verifiedWith: key), parts.count == 7,
      let expiry = Int64(parts[6]), now < expiry
    else { return nil }
    self.init(
      provider: parts[0], signIn: parts[1], state: parts[2], nonce: parts[3], verifier: parts[4],
      isKept: parts[5] == "1",
      expiry: expiry)
  }
}
