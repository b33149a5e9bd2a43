// A sign-in that is under way at a provider of identities, as the browser's cookie keeps it.

/// Ties a provider's answer to the browser that asked. Nobody stores it; the installation's key signs it.
public struct IdentityAttempt: Hashable, Sendable {
  /// The use of the provider's answer.
  public enum Purpose: Hashable, Sendable {
    /// A session of an app: of half an hour, or of two weeks.
    case app, keptApp
    /// A sign-in to the account page, for a device that waits with a code, or for none.
    case account(deviceCode: String?)
    /// One more way to sign in, for a user who is on the account page.
    case link

    fileprivate var text: String {
      switch self {
      case .app: "0"
      case .keptApp: "1"
      case .account(let code): "account \(code ?? "")"
      case .link: "link"
      }
    }

    fileprivate init?(text: String) {
      switch text {
      case "0": self = .app
      case "1": self = .keptApp
      case "link": self = .link
      default:
        guard text.hasPrefix("account ") else { return nil }
        let code = text.dropFirst("account ".count)
        self = .account(deviceCode: code.isEmpty ? nil : String(code))
      }
    }
  }

  /// The provider's name.
  public let provider: String
  /// The text of the `SignInState` with which the sign-in page was opened; for a link, that of the account's
  /// `KeptSignIn`.
  public let origin: String
  /// The three secrets of the attempt.
  public let state: String
  public let nonce: String
  public let verifier: String
  public let purpose: Purpose
  /// Milliseconds since 1970; the attempt is refused from then on.
  public let expiry: Int64

  public init(
    provider: String, origin: String, state: String, nonce: String, verifier: String, purpose: Purpose, expiry: Int64
  ) {
    self.provider = provider
    self.origin = origin
    self.state = state
    self.nonce = nonce
    self.verifier = verifier
    self.purpose = purpose
    self.expiry = expiry
  }

  private static let signedPurpose = Array("aquifer identity attempt".utf8)

  /// The cookie's text.
  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [provider, origin, state, nonce, verifier, purpose.text, String(expiry)], for: Self.signedPurpose,
      signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.signedPurpose, verifiedWith: key), parts.count == 7,
      let purpose = Purpose(text: parts[5]), let expiry = Int64(parts[6]), now < expiry
    else { return nil }
    self.init(
      provider: parts[0], origin: parts[1], state: parts[2], nonce: parts[3], verifier: parts[4], purpose: purpose,
      expiry: expiry)
  }
}
