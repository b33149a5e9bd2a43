// Values as bytes that sort like the values: what indexes hold, and what queries are ordered by.

public import Records

/// Keys from `lower` up to and without `upper`, in the order of their bytes.
public struct IndexRange: Hashable, Sendable {
  public var lower: [UInt8]
  public var upper: [UInt8]

  public init(lower: [UInt8], upper: [UInt8]) {
    self.lower = lower
    self.upper = upper
  }

  /// One key alone.
  public init(key: [UInt8]) { self.init(lower: key, upper: key + [0]) }

  /// All keys that begin with `prefix`, whose last byte must not be 0xff.
  init(prefix: [UInt8]) {
    var upper = prefix
    if let last = upper.indices.last { upper[last] += 1 } else { upper = [UInt8.max] }
    self.init(lower: prefix, upper: upper)
  }

  public var isSingleKey: Bool { upper.count == lower.count + 1 && upper.last == 0 && upper.starts(with: lower) }

  public func contains(_ key: [UInt8]) -> Bool { !key.lexicographicallyPrecedes(lower) && key.lexicographicallyPrecedes(upper) }

  public func intersection(_ other: IndexRange) -> IndexRange {
    IndexRange(
      lower: lower.lexicographicallyPrecedes(other.lower) ? other.lower : lower,
      upper: upper.lexicographicallyPrecedes(other.upper) ? upper : other.upper)
  }
}

/// The keys of values. Shape: a byte that tells kinds apart, then the value most significant byte first.
///
/// The kinds, ascending: a missing value, scalars by the number of their type, lists as a whole (for sorting alone), elements of lists,
/// and "more values than an index holds". Strings and names keep their first `textByteLimit` bytes: longer ones that begin alike are
/// equal to an index and to sorting, and told apart by looking at the record.
public enum IndexKey {
  public static let textByteLimit = 256
  /// Keys one record gives to one index; of a record with more, the index only says so.
  public static let countLimit = 1000

  /// No value.
  static let missing: [UInt8] = [0]
  private static let elementMark: UInt8 = 0x80
  /// A record with more values than `countLimit`: a candidate for everything. Sorts last.
  static let overflow: [UInt8] = [0xfe]

  /// Where a value stands in a sorted list. Values of different types keep the order of their types, so that the order is total
  /// whatever records hold; those without an order (bytes, places, assets, lists) are all alike.
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

  /// Bits that sort like the numbers: both zeros alike, what is no number before all that are.
  static func ordered(_ number: Double) -> UInt64 {
    if number.isNaN { return 0 }
    let bits = (number == 0 ? 0 : number).bitPattern
    return bits >> 63 == 0 ? bits | 1 << 63 : ~bits
  }

  // MARK: Ranges

  /// All records of an index in their order, those without a value first.
  public static let everything = IndexRange(lower: missing, upper: [elementMark])

  /// The records that have more values than an index holds: they may have any.
  public static let overflowRange = IndexRange(key: overflow)

  /// Values that equal `value`; nil where an index does not tell.
  public static func equal(_ value: FieldValue) -> IndexRange? { scalar(value, mark: value.type.rawValue).map { IndexRange(key: $0) } }

  /// Elements that equal `value`; nil where an index does not tell.
  public static func equalElement(_ value: FieldValue) -> IndexRange? { element(value).map { IndexRange(key: $0) } }

  /// Values of the type of `value` up to it, itself included: long texts that begin alike share a key.
  public static func atMost(_ value: FieldValue) -> IndexRange? {
    scalar(value, mark: value.type.rawValue).map { IndexRange(lower: [value.type.rawValue], upper: $0 + [0]) }
  }

  /// Values of the type of `value` from it on.
  public static func atLeast(_ value: FieldValue) -> IndexRange? {
    scalar(value, mark: value.type.rawValue).map { IndexRange(lower: $0, upper: [value.type.rawValue + 1]) }
  }

  /// Strings that begin with `prefix`.
  public static func begins(_ prefix: String, asElement: Bool) -> IndexRange {
    let bytes = Array(prefix.utf8)
    let mark = FieldType.string.rawValue | (asElement ? elementMark : 0)
    return bytes.count > textByteLimit ? IndexRange(key: [mark] + bytes.prefix(textByteLimit)) : IndexRange(prefix: [mark] + bytes)
  }
}
