// Digests and keyed digests by libcrypto. Tokens, credentials and assets are named or checked by SHA-256.

import COpenSSL

public enum SHA256 {
  public static let byteCount = 32

  /// Fetched once: the one-call `SHA256()` of OpenSSL 3 looks its provider up again for every digest.
  nonisolated(unsafe) fileprivate static let algorithm: OpaquePointer = {
    guard let algorithm = EVP_MD_fetch(nil, "SHA256", nil) else { fatalError("libcrypto offers no SHA-256") }
    return algorithm
  }()

  /// 32 bytes.
  public static func hash(_ bytes: [UInt8]) -> [UInt8] {
    bytes.withUnsafeBytes { hash($0) }
  }

  /// 32 bytes.
  public static func hash(_ text: String) -> [UInt8] {
    var text = text
    return text.withUTF8 { hash(UnsafeRawBufferPointer($0)) }
  }

  /// 32 bytes.
  public static func hash(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, count in
      let done = EVP_Digest(bytes.baseAddress, bytes.count, buffer.baseAddress, nil, algorithm, nil)
      precondition(done == 1, "libcrypto refused to hash \(bytes.count) bytes")
      count = byteCount
    }
  }

  /// A digest over bytes that arrive in pieces, such as an upload. One thread at a time may use it.
  public final class Stream {
    private let context: OpaquePointer

    public init() {
      guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex(context, SHA256.algorithm, nil) == 1 else {
        fatalError("libcrypto has no memory for a digest")
      }
      self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    public func update(_ bytes: [UInt8]) {
      bytes.withUnsafeBytes { update($0) }
    }

    public func update(_ bytes: UnsafeRawBufferPointer) {
      let done = EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
      precondition(done == 1, "the digest was finished already")
    }

    /// Returns 32 bytes and ends the stream. A later call is a programming error.
    public func finish() -> [UInt8] {
      [UInt8](unsafeUninitializedCapacity: SHA256.byteCount) { buffer, count in
        let done = EVP_DigestFinal_ex(context, buffer.baseAddress, nil)
        precondition(done == 1, "the digest was finished already")
        count = SHA256.byteCount
      }
    }
  }
}

/// HMAC (RFC 2104) over SHA-256.
public enum HMACSHA256 {
  /// The message's 32-byte code under `key`, which may have any length.
  public static func code(for message: [UInt8], key: [UInt8]) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: SHA256.byteCount) { buffer, count in
      // An empty array may have no address, and libcrypto reads a null key as "the previous key".
      let done =
        key.isEmpty
        ? [0].withUnsafeBytes { authenticate(message, key: UnsafeRawBufferPointer(rebasing: $0[..<0]), into: buffer) }
        : key.withUnsafeBytes { authenticate(message, key: $0, into: buffer) }
      precondition(done, "libcrypto refused to authenticate \(message.count) bytes")
      count = SHA256.byteCount
    }
  }

  /// True when `code` belongs to the message. The time does not depend on where a wrong code differs.
  public static func isValid(_ code: [UInt8], for message: [UInt8], key: [UInt8]) -> Bool {
    ConstantTime.areEqual(code, Self.code(for: message, key: key))
  }

  private static func authenticate(
    _ message: [UInt8], key: UnsafeRawBufferPointer, into buffer: UnsafeMutableBufferPointer<UInt8>
  ) -> Bool {
    HMAC(SHA256.algorithm, key.baseAddress, Int32(key.count), message, message.count, buffer.baseAddress, nil) != nil
  }
}

public enum ConstantTime {
  /// True when both hold the same bytes. The time depends on the lengths only.
  public static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
  }
}
