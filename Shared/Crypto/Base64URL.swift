// RFC 4648 base64 with the alphabet of addresses and file names, without padding.

/// The spelling of JOSE and PKCE. Texts of hot paths have a reader of their own (`SignedText`).
public enum Base64URL {
  public static func encode(_ bytes: [UInt8]) -> String {
    String(decoding: Base64.encode(bytes).utf8.filter { $0 != UInt8(ascii: "=") }.map(urlByte), as: UTF8.self)
  }

  /// - Returns: nil unless the text is the one spelling of its bytes: no padding, white space or stray bits.
  public static func decode(_ text: some StringProtocol) -> [UInt8]? {
    standardBase64(text)?.withUnsafeBufferPointer(Base64.decode)
  }

  private static func urlByte(_ byte: UInt8) -> UInt8 {
    switch byte {
    case UInt8(ascii: "+"): UInt8(ascii: "-")
    case UInt8(ascii: "/"): UInt8(ascii: "_")
    default: byte
    }
  }

  /// Nil if the text has characters of standard base64 only.
  private static func standardBase64(_ text: some StringProtocol) -> [UInt8]? {
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
