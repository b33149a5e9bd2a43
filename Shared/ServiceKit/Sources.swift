// Time and randomness are passed in, so that tests and simulations can set them.

/// The wall clock. Unit: milliseconds since 1970.
public protocol WallClock: Sendable {
  var now: Int64 { get }
}

/// Where random identifiers come from.
public protocol RandomSource: Sendable {
  /// Cryptographically strong in products, seeded in tests.
  func bytes(_ count: Int) -> [UInt8]
}

extension RandomSource {
  /// A random (version 4) UUID in upper case.
  public func uuid() -> String {
    var bytes = bytes(16)
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    var text = ""
    text.reserveCapacity(36)
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text.append("-") }
      for nibble in [byte >> 4, byte & 15] { text.append(Character(UnicodeScalar(nibble < 10 ? 48 + nibble : 55 + nibble))) }
    }
    return text
  }

  public func hex(byteCount: Int) -> String {
    bytes(byteCount).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
