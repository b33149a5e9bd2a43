// The claims of a provider's token that every kind of token has: issuer, audience and times.

import JSON

/// The expectations of a token.
struct TokenExpectation: Sendable {
  let issuer: String
  /// The client's identifiers; the token is for one of them.
  let audiences: [String]
  /// Of an ID token; nil: it may have any.
  var nonce: String?
  /// Milliseconds since 1970.
  let now: Int64

  /// Clocks may differ by this much. Unit: seconds.
  static let skew: Int64 = 60
}

/// Claims of a token whose signature, issuer, audience and times were verified.
struct VerifiedClaims: Sendable {
  let claims: JSONValue
  /// Milliseconds since 1970; the token is refused from then on.
  let expiry: Int64

  /// - Throws: `refused`, with the claim that is wrong.
  init(_ token: SignedToken, keys: [SigningKey], _ expected: TokenExpectation) throws(IdentityError) {
    let payload = try token.payload(verifiedWith: keys)
    guard let claims = try? JSONValue(parsing: payload), claims.kind == .object else {
      throw .refused("The token's payload is no JSON object")
    }
    guard claims["iss"]?.string == expected.issuer else { throw .refused("The token is of another issuer") }
    try Self.checkAudience(claims, expected)
    self.claims = claims
    expiry = try Self.checkTimes(claims, expected)
  }

  private static func checkAudience(_ claims: JSONValue, _ expected: TokenExpectation) throws(IdentityError) {
    let audiences: [String] =
      switch claims["aud"]?.kind {
      case .string: [claims["aud"]?.string].compactMap(\.self)
      case .array: claims["aud"]?.elements.compactMap(\.string) ?? []
      default: []
      }
    guard let own = audiences.first(where: expected.audiences.contains) else {
      throw .refused("The token is for another client")
    }
    let party = claims["azp"]?.string
    guard audiences.count == 1 || party != nil, party == nil || expected.audiences.contains(party ?? own) else {
      throw .refused("The token was issued to another client")
    }
  }

  private static func checkTimes(_ claims: JSONValue, _ expected: TokenExpectation) throws(IdentityError) -> Int64 {
    func seconds(_ name: String) -> Double? { claims[name]?.double.flatMap { abs($0) < 1e12 ? $0 : nil } }
    let (now, skew) = (Double(expected.now) / 1000, Double(TokenExpectation.skew))
    guard let end = seconds("exp"), now < end + skew else { throw .refused("The token has expired") }
    guard let issued = seconds("iat"), issued <= now + skew else {
      throw .refused("The token does not say when it was issued, or was issued in the future")
    }
    if claims["nbf"] != nil {
      guard let start = seconds("nbf"), start <= now + skew else { throw .refused("The token is not valid yet") }
    }
    return Int64((end + skew) * 1000)
  }
}
