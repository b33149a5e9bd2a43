// Client secrets of Sign in with Apple: short-lived tokens that the developer's own key signs.

public import Crypto
import JSON

/// A key of the developer portal, as its `.p8` file has it.
public struct AppleKey: Hashable, Sendable {
  public let teamID: String
  public let keyID: String
  private let key: P256PrivateKey

  /// A secret counts this long; Apple allows six months. Unit: seconds.
  private static let lifetime: Int64 = 300

  public init(teamID: String, keyID: String, key: P256PrivateKey) {
    self.teamID = teamID
    self.keyID = keyID
    self.key = key
  }

  /// - Parameter now: milliseconds since 1970.
  func secret(forClient clientID: String, issuer: String, now: Int64) -> String {
    let seconds = now / 1000
    return key.token(keyID: keyID) { claims in
      claims.member("iss", teamID)
      claims.member("iat", seconds)
      claims.member("exp", seconds + Self.lifetime)
      claims.member("aud", issuer)
      claims.member("sub", clientID)
    }
  }
}

extension P256PrivateKey {
  /// A JSON Web Token that this key signs with ES256.
  func token(keyID: String, _ write: (inout JSONWriter) -> Void) -> String {
    func object(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
      var writer = JSONWriter()
      writer.beginObject()
      write(&writer)
      writer.endObject()
      return writer.bytes
    }
    let header = object { header in
      header.member("alg", SignatureAlgorithm.es256.rawValue)
      header.member("kid", keyID)
      header.member("typ", "JWT")
    }
    return token(header: header, claims: object(write))
  }
}
