// Makes keys and signed tokens for tests with libcjose alone, so that the tested code does not sign.

import CCJOSE

/// A key pair that signs tokens.
public final class ForgedKey: @unchecked Sendable {
  public enum Kind: Sendable { case rsa(bitCount: Int), p256, secret([UInt8]) }

  private let key: OpaquePointer

  public init(_ kind: Kind, keyID: String) {
    let made: OpaquePointer? =
      switch kind {
      case .rsa(let bitCount): cjose_jwk_create_RSA_random(bitCount, [1, 0, 1], 3, nil)
      case .p256: cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_256, nil)
      case .secret(let bytes): cjose_jwk_create_oct_spec(bytes, bytes.count, nil)
      }
    guard let made, cjose_jwk_set_kid(made, keyID, keyID.utf8.count, nil) else { preconditionFailure("no key") }
    key = made
  }

  deinit { cjose_jwk_release(key) }

  /// The public key's JSON.
  public var publicJWK: String {
    guard let text = cjose_jwk_to_json(key, false, nil) else { preconditionFailure("a key without JSON") }
    return String(cString: text)
  }

  /// A compact token.
  /// - Parameters:
  ///   - header: the texts of its protected header, besides `alg`.
  public func token(_ payload: String, algorithm: String, header: [String: String] = [:]) -> String {
    guard let head = cjose_header_new(nil), cjose_header_set(head, "alg", algorithm, nil) else {
      preconditionFailure("no header")
    }
    defer { cjose_header_release(head) }
    for (name, value) in header { _ = cjose_header_set(head, name, value, nil) }
    let bytes = Array(payload.utf8)
    guard let token = cjose_jws_sign(key, head, bytes, bytes.count, nil) else { preconditionFailure("not signed") }
    defer { cjose_jws_release(token) }
    var text: UnsafePointer<CChar>?
    guard cjose_jws_export(token, &text, nil), let text else { preconditionFailure("not exported") }
    return String(cString: text)
  }
}
