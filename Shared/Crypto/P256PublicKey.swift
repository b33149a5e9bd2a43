// Public keys of servers and their signatures (docs/protocol/record-plane.md#server-keys). A key is checked when it is
// added, not when it is first used.

import COpenSSL

/// An ECDSA P-256 public key.
public struct P256PublicKey: Hashable, Sendable {
  /// SubjectPublicKeyInfo in DER.
  public let der: [UInt8]

  private static let pemByteLimit = 4096

  /// Reads `-----BEGIN PUBLIC KEY-----`; nil for a private key, another curve, a point off the curve or other text.
  public init?(pem: String) {
    let bytes = Array(pem.utf8)
    guard (1...Self.pemByteLimit).contains(bytes.count) else { return nil }
    // The nil alone reports the failure. The error queue belongs to the thread and must not leak into other calls.
    defer { ERR_clear_error() }
    guard let der = bytes.withUnsafeBytes({ Self.readP256($0) }) else { return nil }
    self.der = der
  }

  /// Reads SubjectPublicKeyInfo in DER, as browsers give it out; nil for another curve, a point off the curve, or bytes
  /// behind it.
  public init?(spki: [UInt8]) {
    guard (1...Self.pemByteLimit).contains(spki.count) else { return nil }
    defer { ERR_clear_error() }
    let isWhole = spki.withUnsafeBufferPointer { bytes in
      var position = bytes.baseAddress
      guard let key = d2i_PUBKEY(nil, &position, bytes.count) else { return false }
      defer { EVP_PKEY_free(key) }
      return Self.isP256(key) && position == bytes.baseAddress.map { $0 + bytes.count }
    }
    guard isWhole else { return nil }
    der = spki
  }

  /// Takes a key that was read before.
  /// - Parameter der: the bytes of `der`. With any other bytes, no signature is valid.
  public init(der: [UInt8]) { self.der = der }

  /// True when this key made `signature` over the SHA-256 of `message`.
  public func isValid(_ signature: P256Signature, for message: [UInt8]) -> Bool {
    defer { ERR_clear_error() }
    let key = der.withUnsafeBufferPointer { bytes in
      var start = bytes.baseAddress
      return d2i_PUBKEY(nil, &start, bytes.count)
    }
    guard let key else { return false }
    defer { EVP_PKEY_free(key) }
    guard Self.isP256(key), let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { return false }
    return EVP_DigestVerify(context, signature.der, signature.der.count, message, message.count) == 1
  }

  private static func readP256(_ pem: UnsafeRawBufferPointer) -> [UInt8]? {
    guard let input = BIO_new_mem_buf(pem.baseAddress, Int32(pem.count)) else { return nil }
    defer { BIO_free(input) }
    guard let key = PEM_read_bio_PUBKEY(input, nil, nil, nil) else { return nil }
    defer { EVP_PKEY_free(key) }
    guard isP256(key) else { return nil }
    var encoded: UnsafeMutablePointer<UInt8>?
    let count = i2d_PUBKEY(key, &encoded)
    guard count > 0, let encoded else { return nil }
    defer { CRYPTO_free(encoded, nil, 0) }
    return Array(UnsafeBufferPointer(start: encoded, count: Int(count)))
  }

  static func isP256(_ key: OpaquePointer) -> Bool {
    var name = [CChar](repeating: 0, count: 80)
    var count = 0
    guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return false }
    return String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self) == "prime256v1"
  }
}

/// An ECDSA signature in DER, parsed to recognize other spellings of the same signature.
public struct P256Signature: Hashable, Sendable {
  public let der: [UInt8]
  /// 32 bytes that stay the same in every variant of the signature that needs no private key: `s` can be negated, `r`
  /// cannot. Two signatures with one `r` sign one message, unless the signer has given away their key.
  public let r: [UInt8]

  private static let byteLimit = 80
  private static let numberByteCount: Int32 = 32

  /// Fails unless the bytes are one signature with nothing behind it.
  public init?(der: [UInt8]) {
    guard (1...Self.byteLimit).contains(der.count) else { return nil }
    defer { ERR_clear_error() }
    let r = der.withUnsafeBufferPointer { bytes -> [UInt8]? in
      var position = bytes.baseAddress
      guard let signature = d2i_ECDSA_SIG(nil, &position, bytes.count) else { return nil }
      defer { ECDSA_SIG_free(signature) }
      guard position == bytes.baseAddress.map({ $0 + bytes.count }), let r = ECDSA_SIG_get0_r(signature) else {
        return nil
      }
      var number = [UInt8](repeating: 0, count: Int(Self.numberByteCount))
      return BN_bn2binpad(r, &number, Self.numberByteCount) == Self.numberByteCount ? number : nil
    }
    guard let r else { return nil }
    self.der = der
    self.r = r
  }
}
