// A provider's public keys: a JWK set (RFC 7517), of which only keys that sign ID tokens are kept.

import CCJOSE
import Crypto
import JSON

/// The algorithms of signatures that are accepted. `none` and those with shared secrets are not among them.
enum SignatureAlgorithm: String, Sendable {
  case rs256 = "RS256"
  case es256 = "ES256"
}

/// A public key of one algorithm.
struct SigningKey: Hashable, Sendable {
  let keyID: String?
  let algorithm: SignatureAlgorithm
  /// The key alone, without its other members.
  let jwk: [UInt8]

  private static let leastRSABitCount = 2048

  /// nil for a key of another kind, another use, or fewer bits than are safe.
  init?(_ value: JSONValue) {
    if let use = value["use"]?.string, use != "sig" { return nil }
    let members: [String]
    switch (value["kty"]?.string, value["crv"]?.string) {
    case ("RSA", _): (algorithm, members) = (.rs256, ["kty", "n", "e"])
    case ("EC", "P-256"): (algorithm, members) = (.es256, ["kty", "crv", "x", "y"])
    default: return nil
    }
    if let stated = value["alg"]?.string, stated != algorithm.rawValue { return nil }
    var writer = JSONWriter()
    writer.beginObject()
    for member in members {
      guard let text = value[member]?.string else { return nil }
      writer.member(member, text)
    }
    writer.endObject()
    jwk = writer.bytes
    keyID = value["kid"]?.string
    let isUsable = withImported { key in
      algorithm == .es256 || cjose_jwk_get_keysize(key, nil) >= Self.leastRSABitCount
    }
    guard isUsable == true else { return nil }
  }

  /// Lends libcjose's form of the key; nil when it is no key.
  func withImported<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
    let key = jwk.withUnsafeBufferPointer { bytes in
      bytes.withMemoryRebound(to: CChar.self) { cjose_jwk_import($0.baseAddress, $0.count, nil) }
    }
    guard let key else { return nil }
    defer { cjose_jwk_release(key) }
    return body(key)
  }
}

struct SigningKeySet: Sendable {
  let keys: [SigningKey]

  private static let keyLimit = 100

  /// - Parameter document: the JSON of a JWK set. Keys of other kinds are left out, as RFC 7517 asks.
  init(_ document: [UInt8]) throws(IdentityError) {
    guard let value = try? JSONValue(parsing: document), let list = value["keys"], list.kind == .array else {
      throw .misconfigured("The provider's keys are no JWK set")
    }
    keys = list.elements.prefix(Self.keyLimit).compactMap(SigningKey.init)
  }

  /// The keys that may have made a signature.
  /// - Parameter keyID: nil for a token that names no key.
  func candidates(_ algorithm: SignatureAlgorithm, keyID: String?) -> [SigningKey] {
    keys.filter { key in
      guard key.algorithm == algorithm else { return false }
      guard let keyID, let own = key.keyID else { return true }
      return own == keyID
    }
  }
}
