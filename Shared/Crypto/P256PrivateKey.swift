// Private keys that sign tokens for other services, such as those of Apple's developer portal.

import COpenSSL

/// An ECDSA P-256 private key.
public struct P256PrivateKey: Hashable, Sendable {
  /// PKCS #8 or SEC 1, in DER.
  private let der: [UInt8]

  private static let pemByteLimit = 4096

  /// Reads `-----BEGIN PRIVATE KEY-----`, the content of a `.p8` file; nil for another curve, an encrypted key and
  /// other text.
  public init?(pem: String) {
    let bytes = Array(pem.utf8)
    guard (1...Self.pemByteLimit).contains(bytes.count) else { return nil }
    defer { ERR_clear_error() }
    let der = bytes.withUnsafeBytes { bytes -> [UInt8]? in
      guard let input = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
      defer { BIO_free(input) }
      // Asks nobody for the passphrase of an encrypted key.
      guard let key = PEM_read_bio_PrivateKey(input, nil, { _, _, _, _ in -1 }, nil) else { return nil }
      defer { EVP_PKEY_free(key) }
      guard P256PublicKey.isP256(key) else { return nil }
      var encoded: UnsafeMutablePointer<UInt8>?
      let count = i2d_PrivateKey(key, &encoded)
      guard count > 0, let encoded else { return nil }
      defer { CRYPTO_free(encoded, nil, 0) }
      return Array(UnsafeBufferPointer(start: encoded, count: Int(count)))
    }
    guard let der else { return nil }
    self.der = der
  }

  /// - Parameter sec1: DER; nil unless it is a key of P-256.
  init?(sec1: [UInt8]) {
    defer { ERR_clear_error() }
    guard let key = Self.read(sec1) else { return nil }
    defer { EVP_PKEY_free(key) }
    guard P256PublicKey.isP256(key), let context = EVP_PKEY_CTX_new(key, nil) else { return nil }
    defer { EVP_PKEY_CTX_free(context) }
    // Reading alone takes numbers beyond the curve's order.
    guard EVP_PKEY_private_check(context) == 1 else { return nil }
    der = sec1
  }

  /// The key is valid only within `body`.
  func withKey<Result>(_ body: (OpaquePointer) -> Result) -> Result {
    guard let key = Self.read(der) else { preconditionFailure("a key that was read before can't be read again") }
    defer { EVP_PKEY_free(key) }
    return body(key)
  }

  private static func read(_ der: [UInt8]) -> OpaquePointer? {
    der.withUnsafeBufferPointer { bytes in
      var start = bytes.baseAddress
      return d2i_AutoPrivateKey(nil, &start, bytes.count)
    }
  }

  /// A token in JOSE's compact form, signed with ES256.
  /// - Parameters:
  ///   - header: JSON that names the algorithm `ES256`.
  ///   - claims: JSON.
  public func token(header: [UInt8], claims: [UInt8]) -> String {
    let signed = Base64URL.encode(header) + "." + Base64URL.encode(claims)
    return signed + "." + Base64URL.encode(signature(of: Array(signed.utf8)))
  }

  /// The signature over the SHA-256 of `message`: `r` and `s` of 32 bytes each, as JOSE has it.
  public func signature(of message: [UInt8]) -> [UInt8] { withKey { Self.signature(of: message, by: $0) } }

  private static func signature(of message: [UInt8], by key: OpaquePointer) -> [UInt8] {
    defer { ERR_clear_error() }
    guard let context = EVP_MD_CTX_new() else { preconditionFailure("libcrypto has no memory for a signature") }
    defer { EVP_MD_CTX_free(context) }
    var (encoded, count) = ([UInt8](repeating: 0, count: 80), 80)
    guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
      EVP_DigestSign(context, &encoded, &count, message, message.count) == 1,
      let signature = encoded.withUnsafeBufferPointer({ bytes in
        var start = bytes.baseAddress
        return d2i_ECDSA_SIG(nil, &start, count)
      })
    else { preconditionFailure("libcrypto can't sign with a P-256 key") }
    defer { ECDSA_SIG_free(signature) }
    var numbers = [UInt8](repeating: 0, count: 64)
    numbers.withUnsafeMutableBufferPointer { numbers in
      guard let start = numbers.baseAddress else { return }
      BN_bn2binpad(ECDSA_SIG_get0_r(signature), start, 32)
      BN_bn2binpad(ECDSA_SIG_get0_s(signature), start + 32, 32)
    }
    return numbers
  }
}
