// A provider's word that a person has signed out there (OpenID Connect Back-Channel Logout 1.0, 2.4 and 2.6).

import JSON

/// The end of a person's session at a provider, or of all of them.
public struct Logout: Hashable, Sendable {
  public let issuer: String
  /// nil: the session alone tells whose it is.
  public let subject: String?
  /// nil: all of the subject's sessions.
  public let sessionID: String?
  /// The provider's name for the token, which counts once.
  public let tokenID: String
  /// Milliseconds since 1970; the token is refused from then on.
  public let expiry: Int64

  private static let event = "http://schemas.openid.net/event/backchannel-logout"
  private static let textByteLimit = 255

  /// - Throws: `refused`, with the claim that is wrong.
  init(_ token: SignedToken, keys: [SigningKey], _ expected: TokenExpectation) throws(IdentityError) {
    let verified = try VerifiedClaims(token, keys: keys, expected)
    let claims = verified.claims
    guard claims["events"]?[Self.event]?.kind == .object else { throw .refused("The token is no logout token") }
    guard claims["nonce"] == nil else { throw .refused("The token has a nonce, as only ID tokens do") }
    func text(_ name: String) throws(IdentityError) -> String? {
      guard let value = claims[name] else { return nil }
      guard let text = value.string, (1...Self.textByteLimit).contains(text.utf8.count) else {
        throw .refused("The token's \(name) is not a text of 1 to \(Self.textByteLimit) bytes")
      }
      return text
    }
    guard let tokenID = try text("jti") else { throw .refused("The token has no jti") }
    (issuer, subject, sessionID) = (expected.issuer, try text("sub"), try text("sid"))
    guard subject != nil || sessionID != nil else { throw .refused("The token has neither sub nor sid") }
    self.tokenID = tokenID
    expiry = verified.expiry
  }
}
