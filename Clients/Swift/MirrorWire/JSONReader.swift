// Reads large answers value by value: a page decodes ten times faster than by `JSONDecoder`.

/// A position in the bytes of a JSON text. Bad text is an error, never a trap.
struct JSONReader {
  private let bytes: UnsafeBufferPointer<UInt8>
  private var place = 0
  private var depth = 0

  /// Nesting that no answer of the server has.
  private static let depthLimit = 128

  /// - Parameter body: reads the one value of the text.
  static func read<Value>(
    _ bytes: [UInt8], _ body: (inout JSONReader) throws(WireError) -> Value
  ) throws(WireError) -> Value {
    let result: Result<Value, WireError> = bytes.withUnsafeBufferPointer { buffer in
      var reader = JSONReader(bytes: buffer)
      do throws(WireError) {
        let value = try body(&reader)
        reader.skipSpace()
        guard reader.place == buffer.count else { throw reader.problem("text after the value") }
        return .success(value)
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  private init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  // MARK: Structure

  /// - Parameter member: reads exactly the member's value.
  mutating func object(
    _ member: (_ key: String, inout JSONReader) throws(WireError) -> Void
  ) throws(WireError) {
    try enter("{")
    if !take("}") {
      repeat {
        let key = try string()
        guard take(":") else { throw problem("a colon is missing") }
        try member(key, &self)
      } while take(",")
      guard take("}") else { throw problem("an object does not end") }
    }
    depth -= 1
  }

  mutating func array(_ element: (inout JSONReader) throws(WireError) -> Void) throws(WireError) {
    try enter("[")
    if !take("]") {
      repeat { try element(&self) } while take(",")
      guard take("]") else { throw problem("an array does not end") }
    }
    depth -= 1
  }

  private mutating func enter(_ bracket: Unicode.Scalar) throws(WireError) {
    guard take(bracket) else { throw problem("\(bracket) is expected") }
    depth += 1
    if depth > Self.depthLimit { throw problem("values are nested too deeply") }
  }

  // MARK: Values

  mutating func value() throws(WireError) -> AttributeValue {
    switch peek() {
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "{"): return try composite()
    case UInt8(ascii: "n"):
      try word("null")
      return .null
    case UInt8(ascii: "t"), UInt8(ascii: "f"): return .boolean(try bool())
    default: return try number()
    }
  }

  private mutating func composite() throws(WireError) -> AttributeValue {
    var elements: [String: AttributeValue] = [:]
    try object { key, reader throws(WireError) in elements[key] = try reader.value() }
    if elements.count == 1, case .composite(let asset)? = elements["asset"],
      case .string(let checksum)? = asset["fileChecksum"], case .integer(let size)? = asset["size"]
    {
      func text(_ name: String) -> String? { if case .string(let text)? = asset[name] { text } else { nil } }
      return .asset(
        AssetReference(
          fileChecksum: checksum, size: size, downloadURL: text("downloadURL"), receipt: text("receipt")))
    }
    return .composite(elements)
  }

  mutating func optionalString() throws(WireError) -> String? {
    guard peek() == UInt8(ascii: "n") else { return try string() }
    try word("null")
    return nil
  }

  mutating func bool() throws(WireError) -> Bool {
    let isTrue = peek() == UInt8(ascii: "t")
    try word(isTrue ? "true" : "false")
    return isTrue
  }

  mutating func integer() throws(WireError) -> Int64 {
    guard case .integer(let number) = try number() else { throw problem("an integer is expected") }
    return number
  }

  mutating func skip() throws(WireError) {
    switch peek() {
    case UInt8(ascii: "{"): try object { _, reader throws(WireError) in try reader.skip() }
    case UInt8(ascii: "["): try array { reader throws(WireError) in try reader.skip() }
    default: _ = try value()
    }
  }

  /// The bytes of a value that `body` reads.
  mutating func source(of body: (inout JSONReader) throws(WireError) -> Void) throws(WireError) -> [UInt8] {
    skipSpace()
    let start = place
    try body(&self)
    return Array(bytes[start..<place])
  }

  private mutating func number() throws(WireError) -> AttributeValue {
    skipSpace()
    let start = place
    while place < bytes.count, Self.isOfNumbers(bytes[place]) { place += 1 }
    let text = String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<place]), as: UTF8.self)
    if let number = Int64(text) { return .integer(number) }
    guard let number = Double(text), number.isFinite else { throw problem("a value is expected") }
    return .double(number)
  }

  private static func isOfNumbers(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."),
      UInt8(ascii: "e"), UInt8(ascii: "E"):
      true
    default: false
    }
  }

  mutating func string() throws(WireError) -> String {
    guard take("\"") else { throw problem("a string is expected") }
    let start = place
    var seen: UInt8 = 0
    while place < bytes.count {
      let byte = bytes[place]
      if byte == UInt8(ascii: "\"") {
        defer { place += 1 }
        return try text(UnsafeBufferPointer(rebasing: bytes[start..<place]), isASCII: seen < 0x80)
      }
      if byte == UInt8(ascii: "\\") { return try escapedString(from: start) }
      seen |= byte
      place += 1
    }
    throw problem("a string does not end")
  }

  /// ASCII needs no validation, which is slow.
  private func text(_ part: UnsafeBufferPointer<UInt8>, isASCII: Bool) throws(WireError) -> String {
    if isASCII { return String(decoding: part, as: UTF8.self) }
    guard let text = String(validating: part, as: UTF8.self) else { throw problem("a string is not UTF-8") }
    return text
  }

  private mutating func escapedString(from start: Int) throws(WireError) -> String {
    var unescaped = Array(bytes[start..<place])
    while place < bytes.count {
      let byte = bytes[place]
      place += 1
      switch byte {
      case UInt8(ascii: "\""):
        guard let text = String(validating: unescaped, as: UTF8.self) else { throw problem("a string is not UTF-8") }
        return text
      case UInt8(ascii: "\\"): unescaped.append(contentsOf: String(try escape()).utf8)
      default: unescaped.append(byte)
      }
    }
    throw problem("a string does not end")
  }

  private mutating func escape() throws(WireError) -> Character {
    guard place < bytes.count else { throw problem("a string does not end") }
    let byte = bytes[place]
    place += 1
    switch byte {
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Character(Unicode.Scalar(byte))
    case UInt8(ascii: "u"): return Character(try scalar())
    default: throw problem("an escape is unknown")
    }
  }

  private mutating func scalar() throws(WireError) -> Unicode.Scalar {
    let first = try codeUnit()
    if let scalar = Unicode.Scalar(first) { return scalar }
    guard UTF16.isLeadSurrogate(first), take("\\"), take("u") else { throw problem("half a character") }
    let second = try codeUnit()
    guard UTF16.isTrailSurrogate(second) else { throw problem("half a character") }
    return UTF16.decode(UTF16.EncodedScalar([first, second]))
  }

  private mutating func codeUnit() throws(WireError) -> UInt16 {
    guard place + 4 <= bytes.count,
      let unit = UInt16(String(decoding: bytes[place..<place + 4], as: UTF8.self), radix: 16)
    else { throw problem("an escape is not hexadecimal") }
    place += 4
    return unit
  }

  // MARK: Bytes

  private mutating func word(_ word: StaticString) throws(WireError) {
    skipSpace()
    for offset in 0..<word.utf8CodeUnitCount {
      guard place < bytes.count, bytes[place] == word.utf8Start[offset] else { throw problem("\(word) is expected") }
      place += 1
    }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard peek() == UInt8(ascii: character) else { return false }
    place += 1
    return true
  }

  private mutating func peek() -> UInt8 {
    skipSpace()
    return place < bytes.count ? bytes[place] : 0
  }

  private mutating func skipSpace() {
    while place < bytes.count {
      switch bytes[place] {
      case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): place += 1
      default: return
      }
    }
  }

  func problem(_ reason: String) -> WireError { WireError("\(reason) at byte \(place)") }
}
