// Parses a request target strictly: a target that does not decode is refused.

/// The path and query of a request line.
package struct RequestTarget {
  package let pathSegments: [String]
  package let query: [(name: String, value: String)]

  /// - Throws: `Refusal` (400) for control characters, bad percent-encoding, invalid UTF-8, and an encoded NUL.
  package init(_ target: String) throws(Refusal) {
    var target = target
    // Parsed in place: every request passes here, and copies cost more than parsing.
    let parts = target.withUTF8 { bytes in
      Result { () throws(Refusal) in try Self.parts(bytes) }
    }
    (pathSegments, query) = try parts.get()
  }

  private static func parts(_ target: Bytes) throws(Refusal) -> (
    pathSegments: [String], query: [(name: String, value: String)]
  ) {
    if HeaderBytes.hasControl(target) || target.position(of: UInt8(ascii: " ")) != nil {
      throw Refusal(400, "The request target has a control character or a space.")
    }
    let rest = target.first == UInt8(ascii: "/") ? target : try withoutAuthority(target)
    guard let questionMark = rest.position(of: UInt8(ascii: "?")) else { return (try segments(rest), []) }
    return (try segments(rest.before(questionMark)), try parameters(rest.behind(questionMark)))
  }

  /// The path of an absolute target (`http://host/path`), which RFC 9112 requires servers to accept.
  private static func withoutAuthority(_ target: Bytes) throws(Refusal) -> Bytes {
    for scheme in ["http://", "https://"] where target.starts(with: scheme.utf8) {
      let authority = target.behind(scheme.utf8.count - 1)
      if let slash = authority.position(of: UInt8(ascii: "/")) { return Bytes(rebasing: authority[slash...]) }
    }
    throw Refusal(400, "The request target does not start with '/'.")
  }

  private static func segments(_ path: Bytes) throws(Refusal) -> [String] {
    var rest = path.behind(0)
    if rest.isEmpty { return [] }
    var segments: [String] = []
    while let slash = rest.position(of: UInt8(ascii: "/")) {
      segments.append(try decoded(rest.before(slash), what: "path"))
      rest = rest.behind(slash)
    }
    segments.append(try decoded(rest, what: "path"))
    return segments
  }

  private static func parameters(_ query: Bytes) throws(Refusal) -> [(name: String, value: String)] {
    var parameters: [(name: String, value: String)] = []
    var rest: Bytes? = query
    while let text = rest {
      let end = text.position(of: UInt8(ascii: "&"))
      rest = end.map(text.behind)
      let parameter = end.map(text.before) ?? text
      if parameter.isEmpty { continue }
      let equals = parameter.position(of: UInt8(ascii: "="))
      let name = try decoded(equals.map(parameter.before) ?? parameter, what: "query")
      parameters.append(
        (
          name,
          try equals.map { position throws(Refusal) in try decoded(parameter.behind(position), what: "query") } ?? ""
        ))
    }
    return parameters
  }

  private static func decoded(_ text: Bytes, what: String) throws(Refusal) -> String {
    guard text.position(of: UInt8(ascii: "%")) != nil else {
      // The whole target is valid UTF-8, and so is each part between ASCII delimiters.
      return String(decoding: text, as: UTF8.self)
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var rest = text[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(hexDigit), let low = rest.popFirst().flatMap(hexDigit) else {
        throw Refusal(400, "The \(what) has a '%' without two hexadecimal digits after it.")
      }
      bytes.append(high << 4 | low)
    }
    guard !bytes.contains(0) else { throw Refusal(400, "The \(what) has an encoded NUL.") }
    guard let decoded = String(validating: bytes, as: UTF8.self) else {
      throw Refusal(400, "The \(what) does not decode to UTF-8.")
    }
    return decoded
  }

  private static func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

/// A request that the server refuses before a handler is asked.
package struct Refusal: Error {
  let status: Int
  /// One sentence for the client.
  let reason: String

  init(_ status: Int, _ reason: String) {
    self.status = status
    self.reason = reason
  }
}
