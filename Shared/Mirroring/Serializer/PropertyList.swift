// Reads binary property lists, as far as keyed archives need them: object by object, trusting nothing.

public import Records

/// A property list that begins with `bplist00`. A class, because it caches objects: any number of places may refer to
/// one.
final class PropertyList {
  enum Object: Hashable {
    case null
    case boolean(Bool)
    case integer(Int64)
    case real(Double)
    /// Seconds since 2001.
    case date(Double)
    case data([UInt8])
    case string(String)
    /// A place in a keyed archive's table.
    case uid(Int)
    /// Indexes of the elements' objects.
    case array([Int])
    case dictionary(keys: [Int], values: [Int])
  }

  private let bytes: [UInt8]
  /// Objects by the offset at which they begin: several indexes may lead to one.
  private var known: [Int: Object] = [:]
  /// The cost of reading. An honest list's objects do not overlap and are read a few times each, so it stays within the
  /// limit; a list with overlapping or endlessly repeated objects does not.
  private var budget: CostBudget
  private let offsetByteCount: Int
  private let referenceByteCount: Int
  private let tableOffset: Int
  let objectCount: Int
  let top: Int

  private static let mark = Array("bplist00".utf8)
  private static let trailerByteCount = 32

  /// The limit for a list of that length; a step is one byte of content or one look at an object.
  static func costLimit(_ byteCount: Int) -> Int { 4 * byteCount + 10_000 }

  static func isOne(_ bytes: [UInt8]) -> Bool { bytes.starts(with: mark) }

  /// nil for bytes that are no binary property list.
  init?(_ bytes: [UInt8]) {
    guard Self.isOne(bytes), bytes.count >= Self.mark.count + Self.trailerByteCount else { return nil }
    let trailer = bytes.count - Self.trailerByteCount
    let (offsets, references) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
    guard (1...8).contains(offsets), (1...8).contains(references), let count = Self.number(bytes, trailer + 8, 8),
      let top = Self.number(bytes, trailer + 16, 8),
      let table = Self.number(bytes, trailer + 24, 8)
    else { return nil }
    guard count <= bytes.count, top < count, table <= trailer, count * offsets <= trailer - table else { return nil }
    self.bytes = bytes
    budget = CostBudget(limit: Self.costLimit(bytes.count))
    offsetByteCount = offsets
    referenceByteCount = references
    objectCount = count
    self.top = top
    tableOffset = table
  }

  /// Reads a big-endian number without sign; nil if it ends beyond the bytes or is 2⁴⁸ or more.
  private static func number(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int? {
    guard start >= 0, count >= 0, count <= bytes.count, start <= bytes.count - count else { return nil }
    let value = bytes[start..<start + count].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    return value < 1 << 48 ? Int(value) : nil
  }

  /// The cost of reading so far.
  var cost: Int { budget.spent }

  /// Pays for using an object's content; called for each use.
  /// - Returns: false if the list exceeds its limit.
  func spend(_ steps: Int) -> Bool {
    // Dropped because callers treat a list that costs too much like bytes that are no list.
    (try? budget.spend(steps)) != nil
  }

  /// The object at an index; nil if there is none, if it does not parse, or if the list exceeds its limit.
  func object(_ index: Int) -> Object? {
    guard (0..<objectCount).contains(index),
      let start = Self.number(bytes, tableOffset + index * offsetByteCount, offsetByteCount), start < tableOffset,
      spend(1)
    else { return nil }
    if let object = known[start] { return object }
    let object = read(at: start)
    known[start] = object
    return object
  }

  private func read(at start: Int) -> Object? {
    let (kind, detail) = (bytes[start] >> 4, Int(bytes[start] & 0x0f))
    switch (kind, detail) {
    case (0x0, 0x0): return .null
    case (0x0, 0x8): return .boolean(false)
    case (0x0, 0x9): return .boolean(true)
    case (0x1, 0...3):
      return word(start + 1, 1 << detail).map { .integer(detail == 3 ? Int64(bitPattern: $0) : Int64($0)) }
    case (0x2, 2): return word(start + 1, 4).map { .real(Double(Float(bitPattern: UInt32($0)))) }
    case (0x2, 3): return word(start + 1, 8).map { .real(Double(bitPattern: $0)) }
    case (0x3, 3): return word(start + 1, 8).map { .date(Double(bitPattern: $0)) }
    case (0x4, _): return body(start, detail, unit: 1).map { .data(Array($0)) }
    case (0x5, _):
      return body(start, detail, unit: 1).flatMap { String(validating: $0, as: UTF8.self) }.map(Object.string)
    case (0x6, _): return body(start, detail, unit: 2).flatMap(Self.text).map(Object.string)
    case (0x8, 0...7): return Self.number(bytes, start + 1, detail + 1).map(Object.uid)
    case (0xa, _), (0xc, _): return references(start, detail, lists: 1).map { .array($0) }
    case (0xd, _):
      return references(start, detail, lists: 2).map {
        .dictionary(keys: Array($0.prefix($0.count / 2)), values: Array($0.suffix($0.count / 2)))
      }
    default: return nil
    }
  }

  private func word(_ start: Int, _ count: Int) -> UInt64? {
    guard start <= bytes.count - count else { return nil }
    return bytes[start..<start + count].reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// The start of an object's content and its number of units, which is in the object's mark or in an integer after it.
  private func extent(_ start: Int, _ detail: Int) -> (start: Int, count: Int)? {
    guard detail == 0x0f else { return (start + 1, detail) }
    guard start + 1 < bytes.count, bytes[start + 1] >> 4 == 0x1 else { return nil }
    let width = 1 << Int(bytes[start + 1] & 0x0f)
    guard width <= 8, let count = Self.number(bytes, start + 2, width) else { return nil }
    return (start + 2 + width, count)
  }

  private func body(_ start: Int, _ detail: Int, unit: Int) -> ArraySlice<UInt8>? {
    guard let (start, count) = extent(start, detail), count <= bytes.count, start <= bytes.count - count * unit,
      spend(count * unit)
    else { return nil }
    return bytes[start..<start + count * unit]
  }

  private func references(_ start: Int, _ detail: Int, lists: Int) -> [Int]? {
    guard let content = body(start, detail, unit: lists * referenceByteCount) else { return nil }
    return stride(from: content.startIndex, to: content.endIndex, by: referenceByteCount).compactMap {
      Self.number(bytes, $0, referenceByteCount)
    }
  }

  /// Decodes big-endian UTF-16.
  private static func text(_ bytes: ArraySlice<UInt8>) -> String? {
    let units = stride(from: bytes.startIndex, to: bytes.endIndex, by: 2).map {
      UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1])
    }
    return String(validating: units, as: UTF16.self)
  }
}

extension Record {
  /// Bytes of the binary property lists among the values, which take longer to read than other values of their size.
  public var propertyListByteCount: Int {
    fields.reduce(0) { count, element in
      guard case .bytes(let bytes) = element.field.value, PropertyList.isOne(bytes) else { return count }
      return count + bytes.count
    }
  }
}
