// Parses the `Range` header, for answers from files.

/// The part of a body of known length that a `Range` header asks for.
public enum ByteRange: Hashable, Sendable {
  /// No header, several ranges, another unit or a malformed header: answer 200 with the whole body (RFC 9110 14.2).
  case whole
  /// Answer 206 with `Content-Range: contentRange(of:)`.
  case part(offset: UInt64, byteCount: UInt64)
  /// Answer 416 with `Content-Range: bytes */<length>`.
  case unsatisfiable

  /// - Parameters:
  ///   - header: the `Range` header's value, or nil.
  ///   - byteCount: the length of the whole body.
  public init(_ header: String?, of byteCount: UInt64) {
    guard let header, header.hasPrefix("bytes="), !header.utf8.contains(UInt8(ascii: ",")) else {
      self = .whole
      return
    }
    let bounds = header.dropFirst("bytes=".count).split(separator: "-", omittingEmptySubsequences: false)
    guard bounds.count == 2, let first = Self.bound(bounds[0]), let last = Self.bound(bounds[1]) else {
      self = .whole
      return
    }
    switch (first, last) {
    case (nil, nil): self = .whole
    case (nil, .some(let suffix)):
      let length = min(suffix, byteCount)
      self = length == 0 ? .unsatisfiable : .part(offset: byteCount - length, byteCount: length)
    case (.some(let start), let end):
      if let end, end < start {
        self = .whole
      } else if start >= byteCount {
        self = .unsatisfiable
      } else {
        self = .part(offset: start, byteCount: min(end ?? .max, byteCount - 1) - start + 1)
      }
    }
  }

  /// The inner nil stands for an absent bound, the outer nil for text that is no number.
  private static func bound(_ text: Substring) -> UInt64?? {
    if text.isEmpty { return .some(nil) }
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    // A number too large for 64 bits is beyond the end of every body.
    return .some(UInt64(text) ?? .max)
  }

  /// The value of `Content-Range` for this range.
  public func contentRange(of byteCount: UInt64) -> String {
    guard case .part(let offset, let count) = self else { return "bytes */\(byteCount)" }
    return "bytes \(offset)-\(offset + count - 1)/\(byteCount)"
  }
}
