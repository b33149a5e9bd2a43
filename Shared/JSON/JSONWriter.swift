// Writes JSON by appending runs of bytes, without intermediate strings.

import CSimdJSON
import Crypto

/// Appends JSON to a byte array. It writes commas and escapes; the caller balances the brackets (checked in debug
/// builds).
public struct JSONWriter: Sendable {
  public private(set) var bytes: [UInt8] = []
  /// True when the current container has a value already.
  private var needsComma = false
  #if DEBUG
    private var open: [UInt8] = []
  #endif

  public init(reservingByteCount count: Int = 256) { bytes.reserveCapacity(count) }

  /// Makes room for further bytes at once.
  public mutating func reserve(_ byteCount: Int) { bytes.reserveCapacity(bytes.count + byteCount) }

  public mutating func beginObject() { begin(UInt8(ascii: "{")) }
  public mutating func endObject() { end(UInt8(ascii: "{"), UInt8(ascii: "}")) }
  public mutating func beginArray() { begin(UInt8(ascii: "[")) }
  public mutating func endArray() { end(UInt8(ascii: "["), UInt8(ascii: "]")) }

  public mutating func key(_ name: String) {
    #if DEBUG
      precondition(open.last == UInt8(ascii: "{"), "the key \(name) stands outside of an object")
    #endif
    quote(name, isKey: true)
  }

  public mutating func string(_ value: String) { quote(value, isKey: false) }

  /// Writes a text of the bytes of a stored value.
  /// - Returns: false if they are no UTF-8; then what was written is unusable.
  public mutating func string(utf8: UnsafeBufferPointer<UInt8>) -> Bool {
    quote(utf8, isKey: false) || csj_is_utf8(utf8.baseAddress, utf8.count)
  }

  /// As `string(utf8:)`, for a key.
  public mutating func key(utf8: UnsafeBufferPointer<UInt8>) -> Bool {
    #if DEBUG
      precondition(open.last == UInt8(ascii: "{"), "a key stands outside of an object")
    #endif
    return quote(utf8, isKey: true) || csj_is_utf8(utf8.baseAddress, utf8.count)
  }

  public mutating func integer(_ value: Int64) {
    separate()
    appendDigits(value)
  }

  /// Writes the shortest text that reads back as the same double. NaN and infinities are a programming error.
  public mutating func double(_ value: Double) {
    precondition(value.isFinite, "JSON has no \(value)")
    separate()
    bytes.append(contentsOf: value.description.utf8)
  }

  public mutating func bool(_ value: Bool) {
    separate()
    if value { append("true") } else { append("false") }
  }

  public mutating func null() {
    separate()
    append("null")
  }

  /// Writes the bytes as a string of base64.
  public mutating func base64(_ value: [UInt8]) { value.withUnsafeBytes { base64($0) } }

  public mutating func base64(_ value: UnsafeRawBufferPointer) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    Base64.append(value, to: &bytes)
    bytes.append(UInt8(ascii: "\""))
  }

  /// Splices JSON that is known to be one valid value.
  public mutating func raw(_ json: [UInt8]) {
    separate()
    bytes.append(contentsOf: json)
  }

  /// Splices constant text between or around values, for parts of objects that always look alike. The text contains its
  /// punctuation, including the comma before it. After a colon or opening bracket at its end, write a value or key, or
  /// close.
  public mutating func constant(_ text: StaticString) {
    #if DEBUG
      track(text)
    #endif
    append(text)
    switch text.utf8Start[text.utf8CodeUnitCount - 1] {
    case UInt8(ascii: ":"), UInt8(ascii: "{"), UInt8(ascii: "["): needsComma = false
    default: needsComma = true
    }
  }

  /// Writes a parsed value without white space.
  public mutating func value(_ value: JSONValue) {
    switch value.kind {
    case .object:
      beginObject()
      value.forEachMember { key, member in
        self.key(key.string ?? "")
        self.value(member)
      }
      endObject()
    case .array:
      beginArray()
      value.forEachElement { self.value($0) }
      endArray()
    case .string: string(value.string ?? "")
    case .integer: integer(value.int64 ?? 0)
    case .double: double(value.double ?? 0)
    case .bool: bool(value.bool ?? false)
    case .null: null()
    }
  }

  // Members of the current object in one call.
  public mutating func member(_ name: String, _ value: String) { key(name); string(value) }
  public mutating func member(_ name: String, _ value: Int64) { key(name); integer(value) }
  public mutating func member(_ name: String, _ value: Int) { key(name); integer(Int64(value)) }
  public mutating func member(_ name: String, _ value: Double) { key(name); double(value) }
  public mutating func member(_ name: String, _ value: Bool) { key(name); bool(value) }

  @inline(__always)
  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  private mutating func begin(_ bracket: UInt8) {
    separate()
    bytes.append(bracket)
    needsComma = false
    #if DEBUG
      open.append(bracket)
    #endif
  }

  private mutating func end(_ opening: UInt8, _ bracket: UInt8) {
    #if DEBUG
      precondition(open.popLast() == opening, "a container is closed that was not opened")
    #endif
    bytes.append(bracket)
    needsComma = true
  }

  #if DEBUG
    /// Applies the brackets of constant text to `open`.
    private mutating func track(_ text: StaticString) {
      var isInString = false
      for byte in UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount) {
        precondition(byte != UInt8(ascii: "\\"), "constant text has nothing to escape")
        if byte == UInt8(ascii: "\"") { isInString.toggle() }
        if isInString { continue }
        switch byte {
        case UInt8(ascii: "{"), UInt8(ascii: "["): open.append(byte)
        // In ASCII, both closing brackets come two after their opening ones.
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
          precondition(open.popLast() == byte - 2, "a container is closed that was not opened")
        default: break
        }
      }
    }
  #endif

  private mutating func append(_ text: StaticString) {
    put(byteCount: text.utf8CodeUnitCount) { $0.initialize(from: text.utf8Start, count: text.utf8CodeUnitCount) }
  }

  /// Makes room for bytes, which `fill` initializes.
  @inline(__always)
  private mutating func put(byteCount: Int, _ fill: (UnsafeMutablePointer<UInt8>) -> Void) {
    bytes.append(addingCapacity: byteCount) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { buffer, count in
        guard let base = buffer.baseAddress else { return }
        fill(base + count)
        count += byteCount
      }
    }
  }

  private mutating func appendDigits(_ value: Int64) {
    if value < 0 { bytes.append(UInt8(ascii: "-")) }
    var rest = value.magnitude
    // 2^64 has 20 digits.
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
      var start = digits.count
      repeat {
        start -= 1
        digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
        rest /= 10
      } while rest > 0
      bytes.append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
    }
  }
}

// MARK: Strings

extension JSONWriter {
  private mutating func quote(_ text: String, isKey: Bool) {
    var text = text
    _ = text.withUTF8 { quote($0, isKey: isKey) }
  }

  /// Writes a string with its quotes, the comma before it and, for a key, the colon after it. Text without escapes,
  /// which is most text, is looked through and copied at once.
  /// - Returns: whether the text is known to be ASCII.
  private mutating func quote(_ text: UnsafeBufferPointer<UInt8>, isKey: Bool) -> Bool {
    let needsComma = needsComma
    self.needsComma = !isKey
    var copied = csj_copied(length: 0, is_ascii: true)
    // Room for a comma, two quotes and a colon.
    bytes.append(addingCapacity: text.count + 4) { (span: inout OutputSpan<UInt8>) in
      span.withUnsafeMutableBufferPointer { buffer, count in
        guard let base = buffer.baseAddress else { return }
        func put(_ byte: UInt8) {
          (base + count).initialize(to: byte)
          count += 1
        }
        if needsComma { put(UInt8(ascii: ",")) }
        put(UInt8(ascii: "\""))
        if let start = text.baseAddress { copied = csj_copy_plain(base + count, start, text.count) }
        count += copied.length
        guard copied.length == text.count else { return }
        put(UInt8(ascii: "\""))
        if isKey { put(UInt8(ascii: ":")) }
      }
    }
    if copied.length == text.count { return copied.is_ascii }
    let isRestASCII = appendEscaped(UnsafeBufferPointer(rebasing: text[copied.length...]))
    bytes.append(UInt8(ascii: "\""))
    if isKey { bytes.append(UInt8(ascii: ":")) }
    return copied.is_ascii && isRestASCII
  }

  /// Appends text that begins with a byte to escape.
  /// - Returns: whether the text is known to be ASCII.
  private mutating func appendEscaped(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
    var (place, isASCII) = (0, true)
    while place < text.count {
      escape(text[place])
      place += 1
      let rest = UnsafeBufferPointer(rebasing: text[place...])
      guard let start = rest.baseAddress, !rest.isEmpty else { break }
      bytes.append(addingCapacity: rest.count) { (span: inout OutputSpan<UInt8>) in
        span.withUnsafeMutableBufferPointer { buffer, count in
          guard let base = buffer.baseAddress else { return }
          let copied = csj_copy_plain(base + count, start, rest.count)
          count += copied.length
          place += copied.length
          isASCII = isASCII && copied.is_ascii
        }
      }
    }
    return isASCII
  }

  private mutating func escape(_ byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""): append(#"\""#)
    case UInt8(ascii: "\\"): append(#"\\"#)
    case UInt8(ascii: "\n"): append(#"\n"#)
    case UInt8(ascii: "\r"): append(#"\r"#)
    case UInt8(ascii: "\t"): append(#"\t"#)
    default:
      append(#"\u00"#)
      bytes.append(byte < 0x10 ? UInt8(ascii: "0") : UInt8(ascii: "1"))
      bytes.append(UInt8(truncatingIfNeeded: UInt32(byte & 0x0f) + (byte & 0x0f < 10 ? 0x30 : 0x57)))
    }
  }
}
