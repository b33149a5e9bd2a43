// Passwords are stretched by argon2id (libsodium): slow and memory-hungry on purpose, so that a stolen directory gives away few of them.

import CSodium

/// What one computation costs. libsodium draws the salt; the text it makes holds salt and costs, so that they can be raised later.
public struct PasswordHash: Hashable, Sendable {
  /// Passes over the memory.
  let passCount: UInt64
  /// Memory of one computation.
  public let byteCount: Int

  /// libsodium's costs for sign-ins: 2 passes over 64 MiB, about a tenth of a second.
  public static let interactive = PasswordHash(
    passCount: UInt64(crypto_pwhash_argon2id_OPSLIMIT_INTERACTIVE), byteCount: Int(crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE))
  /// The least there is: for tests.
  public static let cheapest = PasswordHash(passCount: UInt64(crypto_pwhash_argon2id_OPSLIMIT_MIN), byteCount: Int(crypto_pwhash_argon2id_MEMLIMIT_MIN))

  /// Process-wide and once; libsodium is ready for all threads afterwards.
  private static let isReady = sodium_init() >= 0

  /// - Returns: `$argon2id$…`, ASCII; nil when there is no memory for it.
  public func make(_ password: [UInt8]) -> String? {
    precondition(Self.isReady, "libsodium can't be used on this machine")
    var text = [CChar](repeating: 0, count: Int(crypto_pwhash_STRBYTES))
    let code = password.withUnsafeBytes { bytes in
      withCharacters(bytes) { crypto_pwhash_str_alg(&text, $0, UInt64(bytes.count), passCount, byteCount, crypto_pwhash_ALG_ARGON2ID13) }
    }
    return code == 0 ? String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
  }

  /// A text that nobody's password makes and that costs as much to verify as one of `make`, at no cost.
  /// - Parameter bytes: 48 unpredictable ones, in place of salt and hash.
  public func decoy(_ bytes: [UInt8]) -> String {
    precondition(bytes.count == 48, "a salt of 16 and a hash of 32 bytes, not \(bytes.count)")
    let (salt, hash) = (Self.unpadded(bytes.prefix(16)), Self.unpadded(bytes.suffix(32)))
    return "$argon2id$v=19$m=\(byteCount / 1024),t=\(passCount),p=1$\(salt)$\(hash)"
  }

  private static func unpadded(_ bytes: ArraySlice<UInt8>) -> String { String(Base64.encode(Array(bytes)).prefix { $0 != "=" }) }

  /// Whether `text` was made of `password`; costs what `text` says, and compares in constant time. False, too, for a text that is none.
  public static func isMatch(_ password: [UInt8], _ text: String) -> Bool {
    precondition(isReady, "libsodium can't be used on this machine")
    return password.withUnsafeBytes { bytes in withCharacters(bytes) { crypto_pwhash_str_verify(text, $0, UInt64(bytes.count)) == 0 } }
  }

  /// Whether `text` was made with other costs than these.
  public func isOutdated(_ text: String) -> Bool { crypto_pwhash_str_needs_rehash(text, passCount, byteCount) != 0 }
}

/// An empty array may have no address, which libsodium does not take.
private func withCharacters<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafePointer<CChar>) -> Result) -> Result {
  guard let address = bytes.bindMemory(to: CChar.self).baseAddress else {
    var nothing: CChar = 0
    return body(&nothing)
  }
  return body(address)
}
