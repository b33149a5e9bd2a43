// Enforces header rules that libmicrohttpd 0.9.75 does not, because its parser predates RFC 9112. Two parsers that
// frame a request differently enable request smuggling, so every doubt is a 400 and a closed connection.

/// Checks each header of a request, and then tells how its body is framed.
struct HeaderPolicy {
  enum Framing: Equatable {
    case none
    /// `Content-Length`, of at most `maximumContentLengthDigitCount` digits.
    case length(UInt64)
    case chunked
  }

  /// More digits could overflow. No accepted body is that long.
  static let maximumContentLengthDigitCount = 15

  private var problem: String?
  private var contentLength: UInt64?
  private var isChunked = false
  private var seen: Singles = []

  /// Headers that must not be repeated.
  private struct Singles: OptionSet {
    let rawValue: UInt8

    static let contentLength = Singles(rawValue: 1)
    static let transferEncoding = Singles(rawValue: 2)
    static let host = Singles(rawValue: 4)

    /// - Returns: nil for a header that may be repeated.
    init?(name: String) {
      switch name {
      case "content-length": self = .contentLength
      case "transfer-encoding": self = .transferEncoding
      case "host": self = .host
      default: return nil
      }
    }

    init(rawValue: UInt8) { self.rawValue = rawValue }
  }

  /// Checks one header.
  /// - Parameter name: in lower case.
  mutating func take(name: String, value: UnsafeBufferPointer<UInt8>) {
    if !HeaderBytes.isToken(name) { problem = "A header's name is not a token." }
    if HeaderBytes.hasControl(value, tabsCount: false) { problem = "The header '\(name)' has a control character." }
    guard let single = Singles(name: name) else { return }
    if !seen.insert(single).inserted { problem = "The header '\(name)' is repeated." }
    switch single {
    case .contentLength: takeContentLength(value)
    case .transferEncoding:
      isChunked = value.elementsEqual("chunked".utf8) { $0 | 0x20 == $1 }
      if !isChunked { problem = "The only transfer encoding accepted is 'chunked'." }
    default: break
    }
  }

  private mutating func takeContentLength(_ value: UnsafeBufferPointer<UInt8>) {
    guard (1...Self.maximumContentLengthDigitCount).contains(value.count),
      value.allSatisfy({ (0x30...0x39).contains($0) })
    else {
      problem = "Content-Length is not a number of at most \(Self.maximumContentLengthDigitCount) digits."
      return
    }
    contentLength = value.reduce(0) { $0 * 10 + UInt64($1 & 0x0f) }
  }

  /// The framing, after all headers were taken.
  /// - Throws: `Refusal` (400) when a rule is broken.
  func framing(isHTTP10: Bool) throws(Refusal) -> Framing {
    if let problem { throw Refusal(400, problem) }
    if !isHTTP10, !seen.contains(.host) { throw Refusal(400, "An HTTP/1.1 request needs a Host header.") }
    if seen.contains(.transferEncoding) {
      if contentLength != nil {
        throw Refusal(400, "A request has either Content-Length or Transfer-Encoding, not both.")
      }
      if isHTTP10 { throw Refusal(400, "HTTP/1.0 has no Transfer-Encoding.") }
      return .chunked
    }
    guard let contentLength, contentLength > 0 else { return .none }
    return .length(contentLength)
  }
}
