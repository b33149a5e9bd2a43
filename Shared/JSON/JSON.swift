// JSON in by simdjson, JSON out by a small UTF-8 writer: the only JSON of the hot paths.

/// Why a body was refused; `reason` says what is wrong, `offset` where (bytes from the start) when it is known.
public struct JSONError: Error, Hashable, Sendable {
  public let reason: String
  public let offset: Int?

  public init(_ reason: String, offset: Int? = nil) {
    self.reason = reason
    self.offset = offset
  }
}

/// A value inside a parsed document, which it keeps alive. Reading never fails: an accessor of another kind answers nil.
public struct JSONValue: Sendable {
  public enum Kind: Hashable, Sendable {
    case object, array, string, integer, double, bool, null
  }

  /// Parses a whole document, strictly: UTF-8, no duplicate keys in one object, no trailing bytes, depth ≤ `maximumDepth`,
  /// integers exact within Int64 (larger ones are refused).
  public init(parsing bytes: [UInt8], maximumDepth: Int = 64) throws(JSONError) { preconditionFailure("to be written") }

  public var kind: Kind { preconditionFailure("to be written") }
  public var string: String? { preconditionFailure("to be written") }
  /// An integer literal; never a double.
  public var int64: Int64? { preconditionFailure("to be written") }
  /// A number of either kind.
  public var double: Double? { preconditionFailure("to be written") }
  public var bool: Bool? { preconditionFailure("to be written") }
  public var isNull: Bool { kind == .null }
  /// The member of an object; nil when absent or not an object.
  public subscript(key: String) -> JSONValue? { preconditionFailure("to be written") }
  /// An object's members in the order they were sent; empty for other kinds.
  public var members: [(key: String, value: JSONValue)] { preconditionFailure("to be written") }
  /// An array's elements; empty for other kinds.
  public var elements: [JSONValue] { preconditionFailure("to be written") }
}

/// Appends JSON to a byte array; commas and escapes are its business, balance is the caller's (checked in debug builds).
public struct JSONWriter {
  public private(set) var bytes: [UInt8] = []

  public init(reservingByteCount count: Int = 256) { bytes.reserveCapacity(count) }

  public mutating func beginObject() { preconditionFailure("to be written") }
  public mutating func endObject() { preconditionFailure("to be written") }
  public mutating func beginArray() { preconditionFailure("to be written") }
  public mutating func endArray() { preconditionFailure("to be written") }
  public mutating func key(_ name: String) { preconditionFailure("to be written") }
  public mutating func string(_ value: String) { preconditionFailure("to be written") }
  public mutating func integer(_ value: Int64) { preconditionFailure("to be written") }
  /// Shortest text that reads back as the same double; not-a-number and infinities are a programmer error.
  public mutating func double(_ value: Double) { preconditionFailure("to be written") }
  public mutating func bool(_ value: Bool) { preconditionFailure("to be written") }
  public mutating func null() { preconditionFailure("to be written") }
  public mutating func base64(_ value: [UInt8]) { preconditionFailure("to be written") }
  /// Splices JSON that is known to be one valid value.
  public mutating func raw(_ json: [UInt8]) { preconditionFailure("to be written") }

  // Members of the current object in one call.
  public mutating func member(_ name: String, _ value: String) { key(name); string(value) }
  public mutating func member(_ name: String, _ value: Int64) { key(name); integer(value) }
  public mutating func member(_ name: String, _ value: Int) { key(name); integer(Int64(value)) }
  public mutating func member(_ name: String, _ value: Bool) { key(name); bool(value) }
}
