// Encodes values as bytes that sort like the values, for the entries of indexes and the order of query results.

public import Records

/// The keys from `lower` up to but excluding `upper`, in the order of their bytes.
public struct IndexRange: Hashable, Sendable {
  public var lower: [UInt8]
  public var upper: [UInt8]

  public init(lower: [UInt8], upper: [UInt8]) {
    self.lower = lower
    self.upper = upper
  }

  /// One key alone.
  public init(key: [UInt8]) { self.init(lower: key, upper: key + [0]) }

  /// All keys that begin with `prefix`. Its last byte must not be 0xff.
  init(prefix: [UInt8]) {
    var upper = prefix
    if let last = upper.indices.last { upper[last] += 1 } else { upper = [UInt8.max] }
    self.init(lower: prefix, upper: upper)
  }

  public var isSingleKey: Bool { upper.count == lower.count + 1 && upper.last == 0 && upper.starts(with: lower) }

  public func contains(_ key: [UInt8]) -> Bool {
    !key.lexicographicallyPrecedes(lower) && key.lexicographicallyPrecedes(upper)
  }

  public func intersection(_ other: IndexRange) -> IndexRange {
    IndexRange(
      lower: lower.lexicographicallyPrecedes(other.lower) ? other.lower : lower,
      upper: upper.lexicographicallyPrecedes(other.upper) ? upper : other.upper)
  }
}

/// Encodes values as keys: one byte for the kind, then the value, most significant byte first.
///
/// The kinds in ascending order: missing value, scalars by the number of their type, whole lists (for sorting only),
/// elements of lists, and "more values than an index holds". Strings and names keep their first `textByteLimit` bytes.
/// Indexes and sorting treat longer texts that begin alike as equal; the query compares the records themselves.
public enum IndexKey {
  public static let textByteLimit = 256
  /// The most keys that one record adds to one index. A record with more gets the `overflow` key instead.
  public static let countLimit = 1000

  static let missing: [UInt8] = [0]
  private static let elementMark: UInt8 = 0x80
  /// The key of a record with more values than `countLimit`: a candidate for every query. Sorts last.
  static let overflow: [UInt8] = [0xfe]

  /// The position of a value in a sorted list. Values of different types keep the order of their types, so the order is
  /// total. Values of a type without an order (bytes, places, assets, lists) are equal to each other.
  public static func order(_ value: FieldValue?) -> [UInt8] {
    guard let value else { return missing }
    return scalar(value, mark: value.type.rawValue) ?? [value.type.rawValue]
  }

  /// The key of an element of a list; nil for elements that are not indexed.
  static func element(_ value: FieldValue) -> [UInt8]? { scalar(value, mark: elementMark | value.type.rawValue) }

  private static func scalar(_ value: FieldValue, mark: UInt8) -> [UInt8]? {
    switch value {
    case .int64(let number), .timestamp(let number): number64(UInt64(bitPattern: number) ^ 1 << 63, mark)
    case .double(let number): number64(ordered(number), mark)
    case .string(let text): [mark] + text.utf8.prefix(textByteLimit)
    case .reference(let reference): [mark] + reference.recordName.utf8.prefix(textByteLimit)
    default: nil
    }
  }

  static func number64(_ number: UInt64, _ mark: UInt8) -> [UInt8] {
    [mark] + withUnsafeBytes(of: number.bigEndian) { Array($0) }
  }

  /// Bits that sort like the numbers. Both zeros are equal, and NaN sorts before every number.
  static func ordered(_ number: Double) -> UInt64 {
    if number.isNaN { return 0 }
    let bits = (number == 0 ? 0 : number).bitPattern
    return bits >> 63 == 0 ? bits | 1 << 63 : ~bits
  }

  // MARK: Ranges

  /// All records of an index in order, records without a value first.
  public static let everything = IndexRange(lower: missing, upper: [elementMark])

  /// Records with more values than an index holds. They can match any query.
  public static let overflowRange = IndexRange(key: overflow)

  /// The key range of values equal to `value`; nil for a type without an order.
  public static func equal(_ value: FieldValue) -> IndexRange? {
    scalar(value, mark: value.type.rawValue).map { IndexRange(key: $0) }
  }

  /// The key range of list elements equal to `value`; nil for a type without an order.
  public static func equalElement(_ value: FieldValue) -> IndexRange? { element(value).map { IndexRange(key: $0) } }

  /// The key range of values at most `value`. It includes `value` itself, because long texts that begin alike share a
  /// key.
  public static func atMost(_ value: FieldValue) -> IndexRange? {
    scalar(value, mark: value.type.rawValue).map { IndexRange(lower: [value.type.rawValue], upper: $0 + [0]) }
  }

  /// The key range of values at least `value`; nil for a type without an order.
  public static func atLeast(_ value: FieldValue) -> IndexRange? {
    scalar(value, mark: value.type.rawValue).map { IndexRange(lower: $0, upper: [value.type.rawValue + 1]) }
  }

  /// Strings that begin with `prefix`.
  public static func begins(_ prefix: String, asElement: Bool) -> IndexRange {
    let bytes = Array(prefix.utf8)
    let mark = FieldType.string.rawValue | (asElement ? elementMark : 0)
    return bytes.count > textByteLimit
      ? IndexRange(key: [mark] + bytes.prefix(textByteLimit)) : IndexRange(prefix: [mark] + bytes)
  }
}
