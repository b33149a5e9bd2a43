// The fast way to read MessagePack: value by value through an array, within one call, without copying the unpacked
// tree.

import CMessagePack

/// Reads the values of an array in order. A cursor exists within `read` only, so that it never outlives its memory.
///
/// A method throws when the next value is of another kind or the array has ended. The position is undefined after that.
public struct MessagePackCursor: ~Copyable {
  private let objects: UnsafeBufferPointer<msgpack_object>
  private var position = 0

  private init(_ array: msgpack_object_array) {
    objects = UnsafeBufferPointer(start: array.ptr, count: Int(array.size))
  }

  /// Unpacks `bytes`, which must be one array, and lends a cursor at its first value.
  /// - Throws: when the bytes are no such array, or when `body` leaves values unread, so that no stored value is
  ///   overlooked.
  public static func read<Result>(
    _ bytes: UnsafeRawBufferPointer, maximumByteCount: Int = MessagePackLimit.byteCount,
    _ body: (inout MessagePackCursor) throws(MessagePackError) -> Result
  ) throws(MessagePackError) -> Result {
    var unpacked = msgpack_unpacked()
    msgpack_unpacked_init(&unpacked)
    defer { msgpack_unpacked_destroy(&unpacked) }
    try MessagePackError.unpack(bytes, into: &unpacked, maximumByteCount: maximumByteCount)
    guard unpacked.data.type == MSGPACK_OBJECT_ARRAY else { throw MessagePackError("the MessagePack is not an array") }
    return try readAll(of: unpacked.data.via.array, body)
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

  private static func readAll<Result>(
    of array: msgpack_object_array, _ body: (inout MessagePackCursor) throws(MessagePackError) -> Result
  ) throws(MessagePackError) -> Result {
    var cursor = MessagePackCursor(array)
    let result = try body(&cursor)
    guard cursor.remainingCount == 0 else {
      throw MessagePackError("\(cursor.remainingCount) values too many in an array of \(cursor.objects.count)")
    }
    return result
  }

  /// The number of values that are left.
  public var remainingCount: Int { objects.count - position }

  @inline(__always)
  private mutating func next() throws(MessagePackError) -> msgpack_object {
    guard position < objects.count else { throw MessagePackError("an array of \(objects.count) values ends too early") }
    position += 1
    return objects[position - 1]
  }

  private func mismatch(_ expected: StaticString) -> MessagePackError {
    MessagePackError("value \(position) of an array is not \(expected)")
  }

  public mutating func integer() throws(MessagePackError) -> Int64 {
    let object = try next()
    guard let value = object.integer else { throw mismatch("an integer of 64 bits") }
    return value
  }

  /// An integer within `0...limit`.
  public mutating func count(upTo limit: Int = .max) throws(MessagePackError) -> Int {
    let value = try integer()
    guard value >= 0, value <= Int64(limit) else { throw mismatch("a count within its limit") }
    return Int(value)
  }

  public mutating func double() throws(MessagePackError) -> Double {
    let object = try next()
    guard object.type == MSGPACK_OBJECT_FLOAT64 else { throw mismatch("a double") }
    return object.via.f64
  }

  public mutating func bool() throws(MessagePackError) -> Bool {
    let object = try next()
    guard object.type == MSGPACK_OBJECT_BOOLEAN else { throw mismatch("a boolean") }
    return object.via.boolean
  }

  public mutating func string() throws(MessagePackError) -> String {
    let object = try next()
    guard let value = object.string else { throw mismatch("text in UTF-8") }
    return value
  }

  public mutating func optionalString() throws(MessagePackError) -> String? {
    try skipNull() ? nil : string()
  }

  public mutating func bytes() throws(MessagePackError) -> [UInt8] {
    let object = try next()
    guard let value = object.bytes else { throw mismatch("bytes") }
    return [UInt8](value)
  }

  /// Skips the next value if it is null.
  /// - Returns: whether it was.
  public mutating func skipNull() throws(MessagePackError) -> Bool {
    let object = try next()
    if object.type == MSGPACK_OBJECT_NIL { return true }
    position -= 1
    return false
  }

  /// Lends a cursor over the next value, which must be an array. Throws when `body` leaves values unread.
  public mutating func array<Result>(_ body: (inout MessagePackCursor) throws(MessagePackError) -> Result)
    throws(MessagePackError) -> Result
  {
    let object = try next()
    guard object.type == MSGPACK_OBJECT_ARRAY else { throw mismatch("an array") }
    return try Self.readAll(of: object.via.array, body)
  }
}

extension msgpack_object {
  /// The value of an integer of either sign; nil when it exceeds Int64, and for other kinds.
  var integer: Int64? {
    switch type {
    case MSGPACK_OBJECT_POSITIVE_INTEGER: Int64(exactly: via.u64)
    case MSGPACK_OBJECT_NEGATIVE_INTEGER: via.i64
    default: nil
    }
  }

  /// The value of a text in valid UTF-8; nil for other kinds.
  var string: String? {
    guard let utf8 else { return nil }
    // `String(validating:as:)` looks generic metadata up on each call, which took a third of the time to decode a
    // record. Dropped because the error tells only the position of the invalid byte, and callers name the value
    // instead.
    guard let span = try? UTF8Span(validating: utf8.span) else { return nil }
    return String(copying: span)
  }

  var utf8: UnsafeBufferPointer<UInt8>? {
    guard type == MSGPACK_OBJECT_STR else { return nil }
    let text = via.str
    return UnsafeBufferPointer(
      start: UnsafeRawPointer(text.ptr)?.assumingMemoryBound(to: UInt8.self), count: Int(text.size))
  }

  var bytes: UnsafeBufferPointer<UInt8>? {
    guard type == MSGPACK_OBJECT_BIN else { return nil }
    let bytes = via.bin
    return UnsafeBufferPointer(
      start: UnsafeRawPointer(bytes.ptr)?.assumingMemoryBound(to: UInt8.self), count: Int(bytes.size))
  }
}
