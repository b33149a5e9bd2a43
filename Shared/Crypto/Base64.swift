// RFC 4648 base64, strict: no two texts decode to the same bytes, so that a token or receipt has one spelling.

import COpenSSL

/// The standard alphabet with padding.
public enum Base64 {
  /// The number of characters that encode `byteCount` bytes.
  public static func encodedByteCount(_ byteCount: Int) -> Int { (byteCount + 2) / 3 * 4 }

  public static func encode(_ bytes: [UInt8]) -> String {
    String(unsafeUninitializedCapacity: encodedByteCount(bytes.count) + 1) { buffer in
      bytes.withUnsafeBytes { encode($0, into: buffer) }
    }
  }

  /// Appends the text to `buffer`, as ASCII.
  public static func append(_ bytes: UnsafeRawBufferPointer, to buffer: inout [UInt8]) {
    buffer.append(addingCapacity: encodedByteCount(bytes.count) + 1) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { text, initialized in
        initialized += encode(bytes, into: UnsafeMutableBufferPointer(rebasing: text[initialized...]))
      }
    }
  }

  /// - Returns: nil unless the text is canonical base64: no white space, misplaced padding or stray bits.
  public static func decode(_ text: String) -> [UInt8]? {
    var text = text
    return text.withUTF8 { decode($0) }
  }

  /// - Returns: nil unless the text is canonical base64 in ASCII.
  public static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
    guard let base = text.baseAddress, !text.isEmpty else { return [] }
    guard text.count % 4 == 0, text.count <= Int(Int32.max) else { return nil }
    // libcrypto reads `=` as zero bits anywhere in the text.
    let padding = text.suffix(2).count { $0 == UInt8(ascii: "=") }
    if let first = memchr(base, Int32(UInt8(ascii: "=")), text.count) {
      guard UnsafeRawPointer(first) - UnsafeRawPointer(base) == text.count - padding else { return nil }
    }
    let wholeCount = text.count / 4 * 3
    var isWhole = false
    let bytes = [UInt8](unsafeUninitializedCapacity: wholeCount) { buffer, initialized in
      // libcrypto skips white space at both ends, and then decodes fewer bytes than the length promises.
      isWhole = Int(EVP_DecodeBlock(buffer.baseAddress, base, Int32(text.count))) == wholeCount
      initialized = isWhole ? wholeCount - padding : 0
    }
    guard isWhole, padding == 0 || isCanonical(text.suffix(4), bytes.suffix(3 - padding)) else { return nil }
    return bytes
  }

  /// True when the last, padded group is the canonical spelling of its bytes.
  private static func isCanonical(_ group: Slice<UnsafeBufferPointer<UInt8>>, _ bytes: ArraySlice<UInt8>) -> Bool {
    let spelling = [UInt8](unsafeUninitializedCapacity: 5) { buffer, initialized in
      initialized = bytes.withUnsafeBytes { encode($0, into: buffer) }
    }
    return spelling.elementsEqual(group)
  }

  /// - Parameter text: room for the text and for the zero byte that libcrypto appends.
  /// - Returns: the text's length in bytes.
  @discardableResult
  private static func encode(_ bytes: UnsafeRawBufferPointer, into text: UnsafeMutableBufferPointer<UInt8>) -> Int {
    guard !bytes.isEmpty else { return 0 }
    precondition(bytes.count <= Int(Int32.max) / 4 * 3 - 3, "\(bytes.count) bytes are too many for base64")
    return Int(EVP_EncodeBlock(text.baseAddress, bytes.bindMemory(to: UInt8.self).baseAddress, Int32(bytes.count)))
  }
}
