// The fast way to read MessagePack: value by value through an array, within one call, straight from the bytes.

/// Reads the values of an array in order. A cursor exists within `read` only, so that it never outlives its memory.
///
/// A method throws when the next value is of another kind, is malformed, or the array has ended. The position is
/// undefined after that.
public struct MessagePackCursor: ~Copyable {
  private let whole: UnsafeRawBufferPointer
  /// The offset of the next byte.
  private var place: Int
  /// The number of values that the array's header announces.
  private let count: Int
  /// The number of values that are left.
  public private(set) var remainingCount: Int

  private init(_ bytes: UnsafeRawBufferPointer, at place: Int, count: Int) {
    whole = bytes
    self.place = place
    self.count = count
    remainingCount = count
  }

  /// Lends a cursor at the first value of `bytes`, which must be one array.
  /// - Throws: when the bytes are no such array, or when `body` leaves values unread, so that no stored value is
  ///   overlooked.
  public static func read<Result>(
    _ bytes: UnsafeRawBufferPointer, maximumByteCount: Int = MessagePackLimit.byteCount,
    _ body: (inout MessagePackCursor) throws(MessagePackError) -> Result
  ) throws(MessagePackError) -> Result {
    guard bytes.count <= maximumByteCount else {
      throw MessagePackError("\(bytes.count) bytes of MessagePack, the limit is \(maximumByteCount)")
    }
    guard !bytes.isEmpty else { throw MessagePackError("no bytes where MessagePack is expected") }
    var cursor = MessagePackCursor(bytes, at: 0, count: 1)
    let result = try cursor.array(body)
    guard cursor.place == bytes.count else {
      throw MessagePackError("\(bytes.count - cursor.place) bytes follow the MessagePack value")
    }
    return result
  }

  /// Does the same for bytes in an array.
  public static func read<Result>(
    _ bytes: [UInt8], maximumByteCount: Int = MessagePackLimit.byteCount,
    _ body: (inout MessagePackCursor) throws(MessagePackError) -> Result
  ) throws(MessagePackError) -> Result {
    try bytes.withUnsafeBufferPointer { bytes throws(MessagePackError) in
      try read(UnsafeRawBufferPointer(bytes), maximumByteCount: maximumByteCount, body)
    }
  }

  // MARK: Values

  public mutating func integer() throws(MessagePackError) -> Int64 {
    let code = try nextCode()
    switch code {
    case 0...0x7f: return Int64(code)
    case 0xe0...0xff: return Int64(Int8(bitPattern: code))
    case 0xcc: return Int64(try fixed(UInt8.self))
    case 0xcd: return Int64(try fixed(UInt16.self))
    case 0xce: return Int64(try fixed(UInt32.self))
    case 0xcf:
      guard let value = Int64(exactly: try fixed(UInt64.self)) else { throw mismatch("an integer of 64 bits") }
      return value
    case 0xd0: return Int64(try fixed(Int8.self))
    case 0xd1: return Int64(try fixed(Int16.self))
    case 0xd2: return Int64(try fixed(Int32.self))
    case 0xd3: return try fixed(Int64.self)
    default: throw mismatch("an integer of 64 bits")
    }
  }

  /// An integer within `0...limit`.
  public mutating func count(upTo limit: Int = .max) throws(MessagePackError) -> Int {
    let value = try integer()
    guard value >= 0, value <= Int64(limit) else { throw mismatch("a count within its limit") }
    return Int(value)
  }

  public mutating func double() throws(MessagePackError) -> Double {
    guard try nextCode() == 0xcb else { throw mismatch("a double") }
    return Double(bitPattern: try fixed(UInt64.self))
  }

  public mutating func bool() throws(MessagePackError) -> Bool {
    switch try nextCode() {
    case 0xc2: return false
    case 0xc3: return true
    default: throw mismatch("a boolean")
    }
  }

  public mutating func string() throws(MessagePackError) -> String {
    guard let value = String(utf8: try text()) else { throw mismatch("text in UTF-8") }
    return value
  }

  public mutating func optionalString() throws(MessagePackError) -> String? {
    try skipNull() ? nil : string()
  }

  /// A text's bytes, which need not be UTF-8. They are part of the bytes given to `read`, and valid as long.
  public mutating func text() throws(MessagePackError) -> UnsafeBufferPointer<UInt8> {
    let code = try nextCode()
    switch code {
    case 0xa0...0xbf: return try piece(Int(code & 0x1f))
    case 0xd9: return try piece(Int(fixed(UInt8.self)))
    case 0xda: return try piece(Int(fixed(UInt16.self)))
    case 0xdb: return try piece(Int(fixed(UInt32.self)))
    default: throw mismatch("text in UTF-8")
    }
  }

  public mutating func optionalText() throws(MessagePackError) -> UnsafeBufferPointer<UInt8>? {
    try skipNull() ? nil : text()
  }

  public mutating func bytes() throws(MessagePackError) -> [UInt8] { [UInt8](try content()) }

  /// The same bytes without a copy. They are part of the bytes given to `read`, and valid as long.
  public mutating func content() throws(MessagePackError) -> UnsafeBufferPointer<UInt8> {
    switch try nextCode() {
    case 0xc4: return try piece(Int(fixed(UInt8.self)))
    case 0xc5: return try piece(Int(fixed(UInt16.self)))
    case 0xc6: return try piece(Int(fixed(UInt32.self)))
    default: throw mismatch("bytes")
    }
  }

  /// Skips the next value if it is null.
  /// - Returns: whether it was.
  public mutating func skipNull() throws(MessagePackError) -> Bool {
    guard try nextCode() == 0xc0 else {
      place -= 1
      remainingCount += 1
      return false
    }
    return true
  }

  /// Lends a cursor over the next value, which must be an array. Throws when `body` leaves values unread.
  public mutating func array<Result>(_ body: (inout MessagePackCursor) throws(MessagePackError) -> Result)
    throws(MessagePackError) -> Result
  {
    let code = try nextCode()
    let count: Int
    switch code {
    case 0x90...0x9f: count = Int(code & 0xf)
    case 0xdc: count = Int(try fixed(UInt16.self))
    case 0xdd: count = Int(try fixed(UInt32.self))
    default: throw mismatch("an array")
    }
    // Callers make room for as many values as are announced, and each takes a byte at least.
    guard count <= whole.count - place else {
      throw MessagePackError("an array announces \(count) values in \(whole.count - place) bytes")
    }
    var inner = MessagePackCursor(whole, at: place, count: count)
    let result = try body(&inner)
    guard inner.remainingCount == 0 else {
      throw MessagePackError("\(inner.remainingCount) values too many in an array of \(count)")
    }
    place = inner.place
    return result
  }

  /// Skips the next value with all that it contains. An extension type is an error.
  public mutating func skip() throws(MessagePackError) {
    guard remainingCount > 0 else { throw ended }
    remainingCount -= 1
    var left = 1
    while left > 0 { left += try skipHead() - 1 }
  }

  /// Skips a value, or the header of one that contains others.
  /// - Returns: the number of values in it.
  private mutating func skipHead() throws(MessagePackError) -> Int {
    guard place < whole.count else { throw endsEarly }
    let code = whole[place]
    place += 1
    switch code {
    case 0...0x7f, 0xc0, 0xc2, 0xc3, 0xe0...0xff: break
    case 0x80...0x8f: return 2 * Int(code & 0xf)
    case 0x90...0x9f: return Int(code & 0xf)
    case 0xa0...0xbf: _ = try piece(Int(code & 0x1f))
    case 0xc4, 0xd9: _ = try piece(Int(fixed(UInt8.self)))
    case 0xc5, 0xda: _ = try piece(Int(fixed(UInt16.self)))
    case 0xc6, 0xdb: _ = try piece(Int(fixed(UInt32.self)))
    case 0xcc, 0xd0: _ = try piece(1)
    case 0xcd, 0xd1: _ = try piece(2)
    case 0xca, 0xce, 0xd2: _ = try piece(4)
    case 0xcb, 0xcf, 0xd3: _ = try piece(8)
    case 0xdc: return Int(try fixed(UInt16.self))
    case 0xdd: return Int(try fixed(UInt32.self))
    case 0xde: return 2 * Int(try fixed(UInt16.self))
    case 0xdf: return 2 * Int(try fixed(UInt32.self))
    default: throw MessagePackError("the MessagePack has a byte that starts no value")
    }
    return 0
  }

  // MARK: Bytes

  @inline(__always)
  private mutating func nextCode() throws(MessagePackError) -> UInt8 {
    guard remainingCount > 0 else { throw ended }
    guard place < whole.count else { throw endsEarly }
    remainingCount -= 1
    place += 1
    return whole[place - 1]
  }

  @inline(__always)
  private mutating func fixed<Number: FixedWidthInteger>(_ type: Number.Type) throws(MessagePackError) -> Number {
    guard whole.count - place >= MemoryLayout<Number>.size else { throw endsEarly }
    let value = Number(bigEndian: whole.loadUnaligned(fromByteOffset: place, as: Number.self))
    place += MemoryLayout<Number>.size
    return value
  }

  @inline(__always)
  private mutating func piece(_ count: Int) throws(MessagePackError) -> UnsafeBufferPointer<UInt8> {
    guard whole.count - place >= count else { throw endsEarly }
    defer { place += count }
    return UnsafeBufferPointer(
      start: (whole.baseAddress.unsafelyUnwrapped + place).assumingMemoryBound(to: UInt8.self), count: count)
  }

  private var ended: MessagePackError { MessagePackError("an array of \(count) values ends too early") }

  private var endsEarly: MessagePackError {
    MessagePackError("the MessagePack ends after \(whole.count) bytes, in the middle of a value")
  }

  private func mismatch(_ expected: StaticString) -> MessagePackError {
    MessagePackError("value \(count - remainingCount) of an array is not \(expected)")
  }
}

extension String {
  /// Copies a text of the bytes that a cursor reads; nil unless it is valid UTF-8.
  public init?(utf8: UnsafeBufferPointer<UInt8>) {
    // `String(validating:as:)` looks generic metadata up on each call, which took a third of the time to decode a
    // record. Dropped because the error tells only the position of the invalid byte, and callers name the value
    // instead.
    guard let span = try? UTF8Span(validating: utf8.span) else { return nil }
    self.init(copying: span)
  }
}
