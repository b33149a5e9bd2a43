// Public keys of server-to-server callers (wire-protocol 2.4), checked when they are added rather than when they are first used.

import COpenSSL

/// An ECDSA P-256 public key.
public struct P256PublicKey: Hashable, Sendable {
  /// SubjectPublicKeyInfo in DER.
  public let der: [UInt8]

  private static let pemByteLimit = 4096

  /// Reads `-----BEGIN PUBLIC KEY-----`; nil for anything else: a private key, another curve, a point off the curve.
  public init?(pem: String) {
    let bytes = Array(pem.utf8)
    guard (1...Self.pemByteLimit).contains(bytes.count) else { return nil }
    // Whatever went wrong is said by nil alone; the queue of errors is the thread's and must not leak into others' calls.
    defer { ERR_clear_error() }
    guard let der = bytes.withUnsafeBytes({ Self.readP256($0) }) else { return nil }
    self.der = der
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

  private static func isP256(_ key: OpaquePointer) -> Bool {
    var name = [CChar](repeating: 0, count: 80)
    var count = 0
    guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return false }
    return String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self) == "prime256v1"
  }
}
