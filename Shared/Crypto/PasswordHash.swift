// Stretches passwords with argon2id (libsodium), slow and memory-hungry on purpose: a stolen directory reveals few of
// them.

import CSodium

/// The cost of one computation. The text that `make` returns holds salt and costs, so that costs can be raised later.
public struct PasswordHash: Hashable, Sendable {
  /// Passes over the memory.
  let passCount: UInt64
  /// Bytes of memory that one computation takes.
  public let byteCount: Int

  /// libsodium's costs for sign-ins: 2 passes over 64 MiB, about a tenth of a second.
  public static let interactive = PasswordHash(
    passCount: UInt64(crypto_pwhash_argon2id_OPSLIMIT_INTERACTIVE),
    byteCount: Int(crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE))
  /// The lowest costs that libsodium allows, for tests.
  public static let cheapest = PasswordHash(
    passCount: UInt64(crypto_pwhash_argon2id_OPSLIMIT_MIN), byteCount: Int(crypto_pwhash_argon2id_MEMLIMIT_MIN))

  /// Initializes libsodium for the process, once.
  private static let isReady = sodium_init() >= 0

  /// Hashes a password with a random salt.
  /// - Returns: `$argon2id$…`, ASCII; nil when memory is short.
  public func make(_ password: [UInt8]) -> String? {
    precondition(Self.isReady, "libsodium can't be used on this machine")
    var text = [CChar](repeating: 0, count: Int(crypto_pwhash_STRBYTES))
    let code = password.withUnsafeBytes { bytes in
      withCharacters(bytes) {
        crypto_pwhash_str_alg(&text, $0, UInt64(bytes.count), passCount, byteCount, crypto_pwhash_ALG_ARGON2ID13)
      }
    }
    return code == 0 ? String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
  }

  /// A text that no password matches and that costs as much to verify as one from `make`. Computing it costs nothing.
  /// - Parameter bytes: 48 unpredictable ones, in place of salt and hash.
  public func decoy(_ bytes: [UInt8]) -> String {
    precondition(bytes.count == 48, "a salt of 16 and a hash of 32 bytes, not \(bytes.count)")
    let (salt, hash) = (Self.unpadded(bytes.prefix(16)), Self.unpadded(bytes.suffix(32)))
    return "$argon2id$v=19$m=\(byteCount / 1024),t=\(passCount),p=1$\(salt)$\(hash)"
  }

  private static func unpadded(_ bytes: ArraySlice<UInt8>) -> String {
    String(Base64.encode(Array(bytes)).prefix { $0 != "=" })
  }

  /// True when `text` was made of `password`. The text sets the costs, and the comparison takes constant time.
  /// - Returns: false, too, for a malformed text.
  public static func isMatch(_ password: [UInt8], _ text: String) -> Bool {
    precondition(isReady, "libsodium can't be used on this machine")
    return password.withUnsafeBytes { bytes in
      withCharacters(bytes) { crypto_pwhash_str_verify(text, $0, UInt64(bytes.count)) == 0 }
    }
  }

  /// True when `text` was made with other costs than these.
  public func isOutdated(_ text: String) -> Bool { crypto_pwhash_str_needs_rehash(text, passCount, byteCount) != 0 }
}

/// Passes an address to libsodium even for an empty array, which may have none.
private func withCharacters<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafePointer<CChar>) -> Result) -> Result
{
  guard let address = bytes.bindMemory(to: CChar.self).baseAddress else {
    var nothing: CChar = 0
    return body(&nothing)
  }
  return body(address)
}
