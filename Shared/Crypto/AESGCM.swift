// Authenticated encryption, by libcrypto, for data at rest.

import COpenSSL

/// AES-256-GCM (NIST SP 800-38D) with a random nonce for each message.
///
/// Of 2³² messages under one key, two share a 96-bit nonce with a probability of 2⁻³³. Rotate keys (`KeyRing`) long
/// before.
enum AESGCM {
  static let keyByteCount = 32
  static let nonceByteCount = 12
  static let tagByteCount = 16
  /// The bytes of nonce and tag that stand in front of the encrypted content.
  static let overhead = nonceByteCount + tagByteCount

  /// Fetched once: the lookup costs more than a short message.
  nonisolated(unsafe) private static let algorithm: OpaquePointer = {
    guard let algorithm = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil) else {
      fatalError("libcrypto offers no AES-256-GCM")
    }
    return algorithm
  }()

  /// Appends the nonce, the tag and the encrypted `content`.
  /// - Parameters:
  /// - context: bytes that `open` has to repeat. The message does not contain them.
  ///   - key: 32 bytes.
  static func seal(
    _ content: UnsafeRawBufferPointer, in context: [UInt8], key: [UInt8], appendingTo message: inout [UInt8]
  ) {
    precondition(key.count == keyByteCount, "a key of \(key.count) bytes")
    let nonce = SecureRandom.bytes(nonceByteCount)
    let start = message.count
    message.append(contentsOf: nonce)
    message.append(contentsOf: repeatElement(0, count: tagByteCount + content.count))
    let done = message.withUnsafeMutableBytes { message in
      let tag = message.baseAddress.map { $0 + start + nonceByteCount }
      let text = tag.map { ($0 + tagByteCount).assumingMemoryBound(to: UInt8.self) }
      return run(content, to: text, nonce: nonce, context, key, encrypts: true) { cipher in
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, Int32(tagByteCount), tag) == 1
      }
    }
    precondition(done, "libcrypto refused to encrypt \(content.count) bytes")
  }

  /// - Returns: the content; nil unless the message was sealed with this key in this context.
  static func open(_ message: UnsafeRawBufferPointer, in context: [UInt8], key: [UInt8]) -> [UInt8]? {
    precondition(key.count == keyByteCount, "a key of \(key.count) bytes")
    guard message.count >= overhead else { return nil }
    let content = UnsafeRawBufferPointer(rebasing: message[overhead...])
    var tag = Array(message[nonceByteCount..<overhead])
    var isAuthentic = false
    let result = [UInt8](unsafeUninitializedCapacity: content.count) { buffer, count in
      isAuthentic = run(
        content, to: buffer.baseAddress, nonce: Array(message[..<nonceByteCount]), context, key, encrypts: false
      ) { cipher in
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, Int32(tagByteCount), &tag) == 1
      }
      count = isAuthentic ? content.count : 0
    }
    return isAuthentic ? result : nil
  }

  /// - Parameter tag: reads the tag from the cipher when encrypting, and sets it when decrypting.
  private static func run(
    _ content: UnsafeRawBufferPointer, to output: UnsafeMutablePointer<UInt8>?, nonce: [UInt8], _ context: [UInt8],
    _ key: [UInt8], encrypts: Bool,
    tag: (OpaquePointer) -> Bool
  ) -> Bool {
    // The result alone reports the failure. The error queue belongs to the thread and must not leak into other calls.
    defer { ERR_clear_error() }
    guard let cipher = EVP_CIPHER_CTX_new() else { return false }
    defer { EVP_CIPHER_CTX_free(cipher) }
    var length: Int32 = 0
    // libcrypto demands an output address even for empty content; nil marks the input as context.
    var nowhere: [UInt8] = [0]
    return nowhere.withUnsafeMutableBufferPointer { nowhere in
      let output = output ?? nowhere.baseAddress
      let text = content.baseAddress?.assumingMemoryBound(to: UInt8.self)
      guard EVP_CipherInit_ex2(cipher, algorithm, key, nonce, encrypts ? 1 : 0, nil) == 1,
        context.isEmpty || EVP_CipherUpdate(cipher, nil, &length, context, Int32(context.count)) == 1,
        content.isEmpty || EVP_CipherUpdate(cipher, output, &length, text, Int32(content.count)) == 1,
        encrypts || tag(cipher)
      else { return false }
      let end = output.map { $0 + Int(content.isEmpty ? 0 : length) }
      return EVP_CipherFinal_ex(cipher, end, &length) == 1 && (!encrypts || tag(cipher))
    }
  }
}
