// Keys and encryption of single messages to one receiver (RFC 8188), by libcrypto.

import COpenSSL

/// HKDF (RFC 5869) over SHA-256.
public enum HKDFSHA256 {
  /// - Parameter byteCount: at most 32, one block of the expansion.
  public static func key(from secret: [UInt8], salt: [UInt8], info: [UInt8], byteCount: Int) -> [UInt8] {
    precondition((1...SHA256.byteCount).contains(byteCount), "one block has at most 32 bytes, not \(byteCount)")
    let extracted = HMACSHA256.code(for: secret, key: salt)
    return Array(HMACSHA256.code(for: info + [1], key: extracted).prefix(byteCount))
  }
}

/// AES-128-GCM under a key that encrypts one message only, so that its nonce need not be random.
public enum SingleUseAESGCM {
  public static let keyByteCount = 16
  public static let nonceByteCount = 12
  static let tagByteCount = 16

  /// The encrypted content, followed by its tag of 16 bytes.
  public static func seal(_ content: [UInt8], key: [UInt8], nonce: [UInt8]) -> [UInt8] {
    precondition(key.count == keyByteCount && nonce.count == nonceByteCount, "a key of 16 bytes and a nonce of 12")
    guard let cipher = EVP_CIPHER_CTX_new() else { preconditionFailure("libcrypto has no memory for a message") }
    defer { EVP_CIPHER_CTX_free(cipher) }
    return [UInt8](unsafeUninitializedCapacity: content.count + tagByteCount) { buffer, count in
      var length: Int32 = 0
      let tag = buffer.baseAddress.map { $0 + content.count }
      let done =
        EVP_EncryptInit_ex(cipher, EVP_aes_128_gcm(), nil, key, nonce) == 1
        && EVP_EncryptUpdate(cipher, buffer.baseAddress, &length, content, Int32(content.count)) == 1
        && EVP_EncryptFinal_ex(cipher, tag, &length) == 1
        && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, Int32(tagByteCount), tag) == 1
      precondition(done, "libcrypto refused to encrypt \(content.count) bytes")
      count = content.count + tagByteCount
    }
  }
}
