// Checks announced lengths before libmsgpack sees them: it allocates all elements of an array when it reads the header.

import Glibc

/// Finds arrays and maps that announce more elements than bytes follow.
enum MessagePackClaims {
  private static let array32: UInt8 = 0xdd
  private static let map32: UInt8 = 0xdf

  /// True when a header announces more elements than can follow. Ignores headers with 16 bits: each claims at most
  /// 3 MB, and the depth limits how many are open at a time.
  static func exceed(_ bytes: UnsafeRawBufferPointer) -> Bool {
    // The codes of these headers also occur in text and content, so a byte search comes before reading all headers.
    (looksWrong(bytes, array32) || looksWrong(bytes, map32)) && isWrong(bytes)
  }

  private static func looksWrong(_ bytes: UnsafeRawBufferPointer, _ code: UInt8) -> Bool {
    guard let base = bytes.baseAddress else { return false }
    var place = 0
    while place < bytes.count, let found = memchr(base + place, Int32(code), bytes.count - place) {
      place = UnsafeRawPointer(found) - base + 1
      if count(at: place, 4, in: bytes).map({ $0 > bytes.count - place - 4 }) ?? true { return true }
    }
    return false
  }

  /// Reads header after header. Ignores malformed input, which the unpacker refuses.
  private static func isWrong(_ bytes: UnsafeRawBufferPointer) -> Bool {
    var place = 0
    while place < bytes.count {
      let code = bytes[place]
      place += 1
      switch code {
      case array32, map32:
        guard let elements = count(at: place, 4, in: bytes) else { return false }
        place += 4
        if elements > (bytes.count - place) / (code == map32 ? 2 : 1) { return true }
      case 0xa0...0xbf: place += Int(code & 0x1f)
      case 0xc4, 0xd9, 0xc7: place += content(at: place, 1, extra: code == 0xc7 ? 1 : 0, in: bytes)
      case 0xc5, 0xda, 0xc8: place += content(at: place, 2, extra: code == 0xc8 ? 1 : 0, in: bytes)
      case 0xc6, 0xdb, 0xc9: place += content(at: place, 4, extra: code == 0xc9 ? 1 : 0, in: bytes)
      case 0xcc, 0xd0: place += 1
      case 0xcd, 0xd1, 0xd4, 0xdc, 0xde: place += 2
      case 0xd5: place += 3
      case 0xca, 0xce, 0xd2: place += 4
      case 0xd6: place += 5
      case 0xcb, 0xcf, 0xd3: place += 8
      case 0xd7: place += 9
      case 0xd8: place += 17
      default: break
      }
    }
    return false
  }

  /// The size of a length field of `width` bytes and of the content that it announces.
  private static func content(at place: Int, _ width: Int, extra: Int, in bytes: UnsafeRawBufferPointer) -> Int {
    width + extra + (count(at: place, width, in: bytes) ?? 0)
  }

  /// Reads a big-endian number; nil when the bytes end before it does.
  private static func count(at place: Int, _ width: Int, in bytes: UnsafeRawBufferPointer) -> Int? {
    guard place + width <= bytes.count else { return nil }
    return bytes[place..<place + width].reduce(0) { $0 << 8 | Int($1) }
  }
}
