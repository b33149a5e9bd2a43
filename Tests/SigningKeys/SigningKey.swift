// Private keys of servers for tests. libcrypto makes and uses them directly, so that the tested code does not sign.

import COpenSSL

/// An ECDSA key pair.
public final class SigningKey {
  private let key: OpaquePointer

  /// Makes a new key pair.
  /// - Parameter curve: OpenSSL's name of the curve.
  public init(curve: String = "prime256v1") {
    guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { preconditionFailure("no EC keys here") }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    let isMade =
      EVP_PKEY_keygen_init(context) == 1 && EVP_PKEY_CTX_set_group_name(context, curve) == 1
      && EVP_PKEY_generate(context, &key) == 1
    guard isMade, let key else { preconditionFailure("no key of \(curve)") }
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  /// `-----BEGIN PUBLIC KEY-----`
  public var publicPEM: String {
    guard let output = BIO_new(BIO_s_mem()) else { preconditionFailure("no memory") }
    defer { BIO_free(output) }
    guard PEM_write_bio_PUBKEY(output, key) == 1 else { preconditionFailure("a key that can't be written") }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = BIO_read(output, &bytes, Int32(bytes.count))
    return String(decoding: bytes.prefix(Int(count)), as: UTF8.self)
  }

  /// ECDSA with SHA-256, in DER.
  public func signature(of message: [UInt8]) -> [UInt8] {
    guard let context = EVP_MD_CTX_new() else { preconditionFailure("no memory") }
    defer { EVP_MD_CTX_free(context) }
    var count = 256
    var signature = [UInt8](repeating: 0, count: count)
    let isSigned =
      EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1
      && EVP_DigestSign(context, &signature, &count, message, message.count) == 1
    precondition(isSigned, "a message that can't be signed")
    return Array(signature.prefix(count))
  }

  /// The signature's other form, `(r, n - s)`, which is also valid and can be made without the key.
  public static func negated(_ signature: [UInt8]) -> [UInt8] {
    var position: UnsafePointer<UInt8>?
    return signature.withUnsafeBufferPointer { bytes in
      position = bytes.baseAddress
      guard let parsed = d2i_ECDSA_SIG(nil, &position, bytes.count),
        let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1),
        let order = EC_GROUP_get0_order(group), let s = BN_new(), let r = BN_dup(ECDSA_SIG_get0_r(parsed)),
        BN_sub(s, order, ECDSA_SIG_get0_s(parsed)) == 1,
        ECDSA_SIG_set0(parsed, r, s) == 1
      else { preconditionFailure("no signature") }
      defer {
        EC_GROUP_free(group)
        ECDSA_SIG_free(parsed)
      }
      var encoded: UnsafeMutablePointer<UInt8>?
      let count = i2d_ECDSA_SIG(parsed, &encoded)
      defer { CRYPTO_free(encoded, nil, 0) }
      return Array(UnsafeBufferPointer(start: encoded, count: Int(count)))
    }
  }
}
