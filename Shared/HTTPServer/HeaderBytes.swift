// Checks which bytes headers may contain. Every header passes here, so the checks use bits instead of text search.

internal import Glibc

typealias Bytes = UnsafeBufferPointer<UInt8>

enum HeaderBytes {
  /// RFC 9110 5.6.2: a letter, a digit or one of ``!#$%&'*+-.^_`|~``.
  static func isToken(_ byte: UInt8) -> Bool {
    // One bit for each of the 128 ASCII characters.
    let bits: UInt64 = byte < 64 ? 0x03ff_6cfa_0000_0000 : byte < 128 ? 0x57ff_ffff_c7ff_fffe : 0
    return bits >> UInt64(byte & 63) & 1 == 1
  }

  static func isToken(_ text: String) -> Bool {
    var text = text
    return text.withUTF8 { bytes in !bytes.isEmpty && bytes.allSatisfy(isToken) }
  }

  static func hasControl(_ text: String) -> Bool {
    var text = text
    return text.withUTF8 { hasControl($0) }
  }

  /// True when a byte is below 0x20, or is 0x7f.
  /// - Parameter tabsCount: whether a tab counts.
  static func hasControl(_ bytes: Bytes, tabsCount: Bool = true) -> Bool {
    var position = 0
    if let start = UnsafeRawPointer(bytes.baseAddress) {
      while position + 8 <= bytes.count, !hasControl(start.loadUnaligned(fromByteOffset: position, as: UInt64.self)) {
        position += 8
      }
    }
    return bytes[position...].contains { ($0 < 0x20 && (tabsCount || $0 != 0x09)) || $0 == 0x7f }
  }

  /// True when one of eight bytes is below 0x20, or is 0x7f. A tab counts.
  private static func hasControl(_ word: UInt64) -> Bool {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let deletes = word ^ ones &* 0x7f
    return (((word &- ones &* 0x20) & ~word) | ((deletes &- ones) & ~deletes)) & (ones &* 0x80) != 0
  }
}

extension Bytes {
  /// The position of the first `byte`; nil when there is none.
  func position(of byte: UInt8) -> Int? {
    guard let baseAddress, let found = memchr(baseAddress, Int32(byte), count) else { return nil }
    return UnsafeRawPointer(found) - UnsafeRawPointer(baseAddress)
  }

  func before(_ position: Int) -> Bytes { Bytes(rebasing: self[..<position]) }
  func behind(_ position: Int) -> Bytes { Bytes(rebasing: self[(position + 1)...]) }
}
