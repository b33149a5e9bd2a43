// Normalises passwords before hashing, because keyboards encode the same letters differently.

// The standard library's own normalisation, also used by Foundation: a separate table would follow another Unicode
// version.
@_spi(_Unicode) import Swift

/// The profile OpaqueString of RFC 8265: NFC, and every space becomes an ordinary one. The profile has no compatibility
/// forms: NFKC would make passwords equal that people mean as different.
enum PasswordText {
  /// - Parameter limit: longer passwords are refused anyway; they are cut so that no text takes longer than others.
  static func bytes(of password: String, limit: Int = PasswordHasher.byteLimit) -> [UInt8] {
    var spaced = String.UnicodeScalarView()
    for scalar in password.unicodeScalars.prefix(limit + 1) {
      spaced.append(scalar.properties.generalCategory == .spaceSeparator ? " " : scalar)
    }
    var bytes: [UInt8] = []
    for scalar in String(spaced)._nfc {
      bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    }
    return Array(bytes.prefix(limit + 1))
  }
}
