// A JSON Web Token in its compact form (RFC 7515, 7519): its header is read here, its signature verified by libcjose.

import CCJOSE
import Crypto
import JSON

/// A token whose signature was not verified yet.
struct SignedToken: Sendable {
  let algorithm: SignatureAlgorithm
  /// The key that the token says it is signed with.
  let keyID: String?
  private let text: String

  private static let byteLimit = 16_384

  /// - Throws: `refused` for other text, and for another algorithm.
  init(_ text: String) throws(IdentityError) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard text.utf8.count <= Self.byteLimit, parts.count == 3, parts.allSatisfy({ Base64URL.decode($0) != nil }),
      let header = Base64URL.decode(parts[0]).flatMap({ try? JSONValue(parsing: $0) }), header.kind == .object
    else {
      throw .refused("The token is no signed JSON Web Token of at most \(Self.byteLimit) bytes")
    }
    guard let algorithm = header["alg"]?.string.flatMap(SignatureAlgorithm.init) else {
      throw .refused("The token is not signed with RS256 or ES256")
    }
    // Extensions that this reader must understand, and does not.
    guard header["crit"] == nil else { throw .refused("The token has critical extensions") }
    self.algorithm = algorithm
    keyID = header["kid"]?.string
    self.text = text
  }

  /// - Returns: the payload.
  /// - Throws: `refused` when none of the keys made the signature.
  func payload(verifiedWith keys: [SigningKey]) throws(IdentityError) -> [UInt8] {
    for key in keys where key.algorithm == algorithm {
      if let payload = key.withImported({ verified(with: $0) }) ?? nil { return payload }
    }
    throw .refused("No key of the provider made the token's signature")
  }

  private func verified(with key: OpaquePointer) -> [UInt8]? {
    guard let token = cjose_jws_import(text, text.utf8.count, nil) else { return nil }
    defer { cjose_jws_release(token) }
    guard cjose_jws_verify(token, key, nil) else { return nil }
    // The bytes belong to the token.
    var (bytes, count) = (UnsafeMutablePointer<UInt8>?.none, 0)
    guard cjose_jws_get_plaintext(token, &bytes, &count, nil) else { return nil }
    return Array(UnsafeBufferPointer(start: bytes, count: count))
  }
}
