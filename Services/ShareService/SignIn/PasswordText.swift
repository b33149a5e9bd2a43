// Passwords as they are hashed: what two keyboards write differently for the same letters is the same password.

// The standard library's own normalisation, which Foundation is built on, too: a table of ours would be of another Unicode version than its `==`.
@_spi(_Unicode) import Swift

/// The profile OpaqueString of RFC 8265: NFC, and every space an ordinary one. No compatibility forms, as that profile has it: NFKC would make one
/// password of several that people mean as different.
enum PasswordText {
  /// - Parameter limit: characters beyond it are nobody's; they are cut, so that no text takes longer than others.
  static func bytes(of password: String, limit: Int = PasswordHasher.byteLimit) -> [UInt8] {
    var spaced = String.UnicodeScalarView()
    for scalar in password.unicodeScalars.prefix(limit + 1) { spaced.append(scalar.properties.generalCategory == .spaceSeparator ? " " : scalar) }
    var bytes: [UInt8] = []
    for scalar in String(spaced)._nfc { bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter) }
    return Array(bytes.prefix(limit + 1))
  }
}
