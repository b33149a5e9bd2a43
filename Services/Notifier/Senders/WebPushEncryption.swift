// Encryption of a push for one browser (RFC 8291): its push service carries bytes that it can't read.

import Crypto

enum WebPushEncryption {
  /// The most bytes of content: a record of 4096 less its header, the tag and the mark of the end.
  static let byteLimit = 4096 - headerByteCount - 16 - 1
  static let secretByteCount = 16
  private static let saltByteCount = 16
  private static let headerByteCount = saltByteCount + 4 + 1 + P256PrivateKey.pointByteCount
  private static let recordByteCount: UInt32 = 4096

  /// The body of a request with `Content-Encoding: aes128gcm`.
  /// - Parameters:
  ///   - content: at most `byteLimit` bytes.
  ///   - receiverKey: the browser's `p256dh`, 65 bytes.
  ///   - secret: the browser's `auth`, 16 bytes.
  ///   - sender: a key for this message only.
  ///   - salt: 16 bytes for this message only.
  /// - Returns: nil for a receiver's key that is no point of the curve.
  static func encrypt(
    _ content: [UInt8], for receiverKey: [UInt8], secret: [UInt8], sender: P256PrivateKey = .make(),
    salt: [UInt8] = SecureRandom.bytes(saltByteCount)
  ) -> [UInt8]? {
    precondition(content.count <= byteLimit, "\(content.count) bytes need a second record")
    guard let shared = sender.sharedSecret(with: receiverKey) else { return nil }
    let point = sender.publicPoint
    let material = HKDFSHA256.key(
      from: shared, salt: secret, info: Array("WebPush: info\0".utf8) + receiverKey + point, byteCount: 32)
    let key = HKDFSHA256.key(
      from: material, salt: salt, info: Array("Content-Encoding: aes128gcm\0".utf8),
      byteCount: SingleUseAESGCM.keyByteCount)
    let nonce = HKDFSHA256.key(
      from: material, salt: salt, info: Array("Content-Encoding: nonce\0".utf8),
      byteCount: SingleUseAESGCM.nonceByteCount)
    let size = withUnsafeBytes(of: recordByteCount.bigEndian) { Array($0) }
    // 2 marks the last record.
    return salt + size + [UInt8(point.count)] + point + SingleUseAESGCM.seal(content + [2], key: key, nonce: nonce)
  }
}
