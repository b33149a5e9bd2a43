// The challenge of a passkey's ceremony: it carries its own purpose and end, so nobody stores it.

/// A text that the installation's key signs, and that an authenticator signs in turn.
public struct PasskeyChallenge: Hashable, Sendable {
  public enum Purpose: Hashable, Sendable {
    case signIn
    /// A new passkey of this user.
    case registration(userRecordName: String)
  }

  public let purpose: Purpose
  /// Unpredictable; two challenges are never the same.
  public let nonce: String
  /// Milliseconds since 1970; the challenge is refused from then on.
  public let expiry: Int64

  public init(_ purpose: Purpose, nonce: String, expiry: Int64) {
    self.purpose = purpose
    self.nonce = nonce
    self.expiry = expiry
  }

  private static let signedPurpose = Array("aquifer passkey".utf8)

  /// - Parameter key: the installation's signing key.
  public func text(signedWith key: [UInt8]) -> String {
    var user = ""
    if case .registration(let name) = purpose { user = name }
    return SignedText.make(of: [user, nonce, String(expiry)], for: Self.signedPurpose, signedWith: key)
  }

  /// nil unless `text(signedWith:)` made the text with this key, and it has not expired.
  public init?(text: String, verifiedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.signedPurpose, verifiedWith: key), parts.count == 3,
      let expiry = Int64(parts[2]), now < expiry
    else { return nil }
    self.init(parts[0].isEmpty ? .signIn : .registration(userRecordName: parts[0]), nonce: parts[1], expiry: expiry)
  }
}
