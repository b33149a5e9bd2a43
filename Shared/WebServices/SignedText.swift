// Values that carry their own authority: clients hold them, holders of the installation's key verify them, nobody
// stores them.

import Crypto

/// Texts and a signature over them, in one text that fits into a path without escapes.
enum SignedText {
  private static let version: UInt8 = 1

  /// Base64url (no padding) of `version, n × (length, bytes), HMAC-SHA256`.
  /// - Parameter purpose: keeps texts that the same key signed for other purposes from being valid for this one.
  /// - Precondition: each part has at most 65 535 bytes.
  static func make(of parts: [String], for purpose: [UInt8], signedWith key: [UInt8]) -> String {
    var bytes = bytes(of: parts)
    bytes += HMACSHA256.code(for: purpose + bytes, key: key)
    return String(decoding: Base64.encode(bytes).utf8.filter { $0 != UInt8(ascii: "=") }.map(urlByte), as: UTF8.self)
  }

  /// The signed parts; nil unless the text was made for that purpose with this key and has at most 4096 bytes.
  static func parts(of text: String, for purpose: [UInt8], verifiedWith key: [UInt8]) -> [String]? {
    guard text.utf8.count <= 4096, let standard = standardBase64(text) else { return nil }
    guard let bytes = standard.withUnsafeBufferPointer(Base64.decode), bytes.count > SHA256.byteCount else {
      return nil
    }
    let body = Array(bytes.dropLast(SHA256.byteCount))
    guard HMACSHA256.isValid(Array(bytes.suffix(SHA256.byteCount)), for: purpose + body, key: key) else { return nil }
    return parts(body)
  }

  /// The bytes `version, n × (length, bytes)`, for callers that sign them differently.
  static func bytes(of parts: [String]) -> [UInt8] {
    var bytes = [version]
    for part in parts { append(part, to: &bytes) }
    return bytes
  }

  static func append(_ part: String, to bytes: inout [UInt8]) {
    let utf8 = Array(part.utf8)
    bytes += [UInt8(utf8.count >> 8), UInt8(utf8.count & 0xff)] + utf8
  }

  /// Reads the bytes that `bytes(of:)` makes; nil for any others.
  static func parts(_ body: [UInt8]) -> [String]? {
    guard body.first == version else { return nil }
    var parts: [String] = []
    var rest = body.dropFirst()
    while !rest.isEmpty {
      guard let high = rest.popFirst(), let low = rest.popFirst() else { return nil }
      let count = Int(high) << 8 | Int(low)
      guard rest.count >= count, let part = String(validating: rest.prefix(count), as: UTF8.self) else { return nil }
      parts.append(part)
      rest = rest.dropFirst(count)
    }
    return parts
  }

  private static func urlByte(_ byte: UInt8) -> UInt8 {
    switch byte {
    case UInt8(ascii: "+"): UInt8(ascii: "-")
    case UInt8(ascii: "/"): UInt8(ascii: "_")
    default: byte
    }
  }

  /// Converts base64url without padding to standard base64; nil if the text has characters of standard base64 only.
  private static func standardBase64(_ text: String) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count + 3)
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
      case UInt8(ascii: "-"): bytes.append(UInt8(ascii: "+"))
      case UInt8(ascii: "_"): bytes.append(UInt8(ascii: "/"))
      default: bytes.append(byte)
      }
    }
    while !bytes.count.isMultiple(of: 4) { bytes.append(UInt8(ascii: "=")) }
    return bytes
  }
}
