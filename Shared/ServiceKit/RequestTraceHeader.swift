// Reads the identifier that a client gives its request, for logs.

public import HTTPServer

extension HTTPRequest {
  /// The client's identifier for its request: `X-Request-ID`, `X-Apple-Request-UUID`, or the trace of a W3C
  /// `traceparent`; nil without a valid one.
  public var clientTraceID: String? {
    for name in ["x-request-id", "x-apple-request-uuid"] {
      if let text = header(name), Self.isTraceID(text) { return text }
    }
    return header("traceparent").flatMap(Self.traceID(ofParent:))
  }

  /// True when the text has 1 to 128 printable ASCII characters without spaces.
  public static func isTraceID(_ text: String) -> Bool {
    (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
  }

  /// The trace in `<version>-<32 hexadecimal digits>-<16>-<2>`; nil for a malformed text, the version `ff` or a trace
  /// of zeros.
  static func traceID(ofParent text: String) -> String? {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count >= 4, parts.prefix(4).map(\.utf8.count) == [2, 32, 16, 2],
      parts.prefix(4).allSatisfy({ $0.utf8.allSatisfy(isHexDigit) }), parts[0] != "ff",
      !parts[1].utf8.allSatisfy({ $0 == UInt8(ascii: "0") })
    else { return nil }
    return String(parts[1])
  }

  private static func isHexDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
  }
}
