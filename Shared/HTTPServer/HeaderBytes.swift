// Which bytes headers may have. Every header of every request and answer passes here, so they are not looked up in text.

internal import Glibc

typealias Bytes = UnsafeBufferPointer<UInt8>

enum HeaderBytes {
  /// RFC 9110 5.6.2: a letter, a digit or one of ``!#$%&'*+-.^_`|~``.
  static func isToken(_ byte: UInt8) -> Bool {
    // A bit for each of the 128 ASCII characters.
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

  /// Whether there is a byte below 0x20, or 0x7f.
  /// - Parameter tabsCount: whether a tab is one of them.
  static func hasControl(_ bytes: Bytes, tabsCount: Bool = true) -> Bool {
    var position = 0
    if let start = UnsafeRawPointer(bytes.baseAddress) {
      while position + 8 <= bytes.count, !hasControl(start.loadUnaligned(fromByteOffset: position, as: UInt64.self)) { position += 8 }
    }
    return bytes[position...].contains { ($0 < 0x20 && (tabsCount || $0 != 0x09)) || $0 == 0x7f }
  }

  /// Of eight bytes; also true for some that have none, where a byte from 0x80 on is behind one that is a control character.
  private static func hasControl(_ word: UInt64) -> Bool {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let deletes = word ^ ones &* 0x7f
    return (((word &- ones &* 0x20) & ~word) | ((deletes &- ones) & ~deletes)) & (ones &* 0x80) != 0
  }
}

extension Bytes {
  /// Where the first `byte` is.
  func position(of byte: UInt8) -> Int? {
    guard let baseAddress, let found = memchr(baseAddress, Int32(byte), count) else { return nil }
    return UnsafeRawPointer(found) - UnsafeRawPointer(baseAddress)
  }

  func before(_ position: Int) -> Bytes { Bytes(rebasing: self[..<position]) }
  func behind(_ position: Int) -> Bytes { Bytes(rebasing: self[(position + 1)...]) }
}
