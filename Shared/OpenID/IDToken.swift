// The claims of an ID token, and the checks that make an identity of them (OpenID Connect Core, 3.1.3.7).

import Crypto
import JSON

/// A person as a provider knows them.
public struct Identity: Hashable, Sendable {
  public let issuer: String
  /// The provider's name for the person; it never changes and is never used again.
  public let subject: String
  /// Only an address that the provider has verified.
  public var emailAddress: String?
  /// Only a number that the provider has verified, as the provider writes it.
  public var phoneNumber: String?
  public var givenName: String?
  public var familyName: String?
  /// The provider's name for the session there; nil for a provider that names none.
  public var sessionID: String?
}

/// An ID token whose signature and claims were verified.
struct IDToken: Sendable {
  let claims: JSONValue
  let identity: Identity
  /// Milliseconds since 1970; the token is refused from then on.
  let expiry: Int64

  private static let subjectByteLimit = 255

  /// - Throws: `refused`, with the claim that is wrong.
  init(_ token: SignedToken, keys: [SigningKey], _ expected: TokenExpectation) throws(IdentityError) {
    let verified = try VerifiedClaims(token, keys: keys, expected)
    claims = verified.claims
    expiry = verified.expiry
    try Self.checkNonce(claims, expected)
    guard let subject = claims["sub"]?.string, (1...Self.subjectByteLimit).contains(subject.utf8.count) else {
      throw .refused("The token has no subject of 1 to \(Self.subjectByteLimit) bytes")
    }
    identity = Identity(claims, issuer: expected.issuer, subject: subject)
  }

  private static func checkNonce(_ claims: JSONValue, _ expected: TokenExpectation) throws(IdentityError) {
    guard let nonce = expected.nonce else { return }
    let stated = Array((claims["nonce"]?.string ?? "").utf8)
    // Apps of Apple's platforms hand the provider the SHA-256 of their nonce, in hex digits.
    let spellings = [Array(nonce.utf8), Array(Hex.encode(SHA256.hash(nonce)).utf8)]
    guard !nonce.isEmpty, spellings.contains(where: { ConstantTime.areEqual($0, stated) }) else {
      throw .refused("The token has another nonce")
    }
  }
}

extension Identity {
  private static let textByteLimit = 255

  /// An address becomes a user's name: other text must not look like the name of somebody else.
  private static func isAddress(_ text: String) -> Bool {
    text.split(separator: "@", omittingEmptySubsequences: false).map(\.isEmpty) == [false, false]
      && !text.contains(" ")
  }

  /// - Parameter claims: of an ID token or of userinfo.
  init(_ claims: JSONValue, issuer: String, subject: String) {
    func text(_ name: String) -> String? {
      claims[name]?.string.flatMap { text in
        (1...Self.textByteLimit).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
          ? text : nil
      }
    }
    self.issuer = issuer
    self.subject = subject
    // Some providers write the flags as texts.
    func isVerified(_ flag: String) -> Bool { claims[flag]?.bool ?? (claims[flag]?.string == "true") }
    emailAddress = isVerified("email_verified") ? text("email").flatMap { Self.isAddress($0) ? $0 : nil } : nil
    phoneNumber = isVerified("phone_number_verified") ? text("phone_number") : nil
    givenName = text("given_name")
    familyName = text("family_name")
    sessionID = text("sid")
  }
}
