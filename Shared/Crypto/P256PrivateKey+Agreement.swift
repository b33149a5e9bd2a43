// Fresh P-256 keys and secrets that two keys share (ECDH), for messages to one receiver (RFC 8291).

import COpenSSL

extension P256PrivateKey {
  static let scalarByteCount = 32
  /// An uncompressed point: a leading 4, then two coordinates.
  public static let pointByteCount = 65

  /// SEC 1 around a scalar on P-256 without its public point.
  private static let head: [UInt8] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20]
  private static let tail: [UInt8] = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]

  /// Draws a key.
  public static func make() -> P256PrivateKey {
    // All but one of 2³² scalars are keys.
    while true {
      if let key = P256PrivateKey(scalar: SecureRandom.bytes(scalarByteCount)) { return key }
    }
  }

  /// - Parameter scalar: 32 bytes, big-endian; nil for another length, zero, and numbers from the curve's order on.
  public init?(scalar: [UInt8]) {
    guard scalar.count == Self.scalarByteCount else { return nil }
    self.init(sec1: Self.head + scalar + Self.tail)
  }

  /// The private number, 32 bytes, big-endian.
  public var scalar: [UInt8] {
    withKey { key in
      var number: OpaquePointer?
      guard EVP_PKEY_get_bn_param(key, "priv", &number) == 1, let number else {
        preconditionFailure("a private key has no number")
      }
      defer { BN_clear_free(number) }
      var bytes = [UInt8](repeating: 0, count: Self.scalarByteCount)
      BN_bn2binpad(number, &bytes, Int32(Self.scalarByteCount))
      return bytes
    }
  }

  /// 65 bytes.
  public var publicPoint: [UInt8] { withKey { Self.point(of: $0) } }

  /// The secret that this key and the other side's point share.
  /// - Parameter point: 65 bytes.
  /// - Returns: 32 bytes; nil for bytes that are no point of the curve.
  public func sharedSecret(with point: [UInt8]) -> [UInt8]? {
    guard point.count == Self.pointByteCount, point.first == 4 else { return nil }
    defer { ERR_clear_error() }
    return withKey { key in
      guard let peer = EVP_PKEY_new() else { return nil }
      defer { EVP_PKEY_free(peer) }
      guard EVP_PKEY_copy_parameters(peer, key) == 1,
        EVP_PKEY_set1_encoded_public_key(peer, point, point.count) == 1, let context = EVP_PKEY_CTX_new(key, nil)
      else { return nil }
      defer { EVP_PKEY_CTX_free(context) }
      var (secret, count) = ([UInt8](repeating: 0, count: Self.scalarByteCount), Self.scalarByteCount)
      guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer(context, peer) == 1,
        EVP_PKEY_derive(context, &secret, &count) == 1, count == Self.scalarByteCount
      else { return nil }
      return secret
    }
  }

  private static func point(of key: OpaquePointer) -> [UInt8] {
    var encoded: UnsafeMutablePointer<UInt8>?
    let count = EVP_PKEY_get1_encoded_public_key(key, &encoded)
    guard count == pointByteCount, let encoded else { preconditionFailure("a P-256 key has no public point") }
    defer { CRYPTO_free(encoded, nil, 0) }
    return Array(UnsafeBufferPointer(start: encoded, count: count))
  }
}
