// Composites as Apple's devices write them (docs/protocol/mirroring.md#attribute-types): keyed archives of
// dictionaries, read as the types that the model gives their elements.

import History
import ObjectModel

/// A dictionary in a keyed archive.
struct KeyedArchive {
  private let list: PropertyList
  /// The archive's table: an index of an object for each place.
  private let table: [Int]
  private let root: PropertyList.Object

  /// nil for bytes that are no keyed archive with a root.
  init?(_ bytes: [UInt8]) {
    guard let list = PropertyList(bytes), let top = list.object(list.top),
      case .array(let table)? = Self.member("$objects", of: top, in: list),
      let roots = Self.member("$top", of: top, in: list),
      case .uid(let place)? = Self.member("root", of: roots, in: list), table.indices.contains(place),
      let root = list.object(table[place])
    else { return nil }
    self.list = list
    self.table = table
    self.root = root
  }

  /// The cost of reading so far, in the unit of `PropertyList.costLimit`.
  var cost: Int { list.cost }

  /// The elements that the model knows, ascending by name; nil if a value is of another type, or reading costs too
  /// much.
  func composite(of elements: [Attribute]) -> [AttributeValue.CompositeElement]? { composite(root, elements) }

  private func composite(_ object: PropertyList.Object, _ elements: [Attribute]) -> [AttributeValue.CompositeElement]? {
    guard let members = members(of: object, named: elements) else { return nil }
    var values: [AttributeValue.CompositeElement] = []
    for element in elements.sorted(by: { $0.name < $1.name }) {
      guard let stored = members[element.name] else { continue }
      // Any number of elements may share one text, so each use costs.
      guard list.spend(stored.contentByteCount), let value = value(stored, of: element) else { return nil }
      values.append(AttributeValue.CompositeElement(name: element.name, value: value))
    }
    return values
  }

  // MARK: Values

  /// Recursion ends with the model's composites.
  private func value(_ object: PropertyList.Object, of element: Attribute) -> AttributeValue? {
    if isNull(object) { return .null }
    switch element.type {
    case .integer16, .integer32, .integer64: return integer(object).map(AttributeValue.integer)
    case .float, .double: return number(object).map(AttributeValue.double)
    case .decimal: return decimal(object).map(AttributeValue.decimal)
    case .boolean: return boolean(object).map(AttributeValue.boolean)
    case .string: return string(object).map(AttributeValue.string)
    case .uri: return (string(object) ?? member("NS.relative", of: object).flatMap(string)).map(AttributeValue.uri)
    case .uuid: return uuid(object).map(AttributeValue.uuid)
    case .date: return date(object).map(AttributeValue.date)
    case .binary, .transformable: return data(object).map(AttributeValue.binary)
    case .composite: return composite(object, element.elements).map(AttributeValue.composite)
    case .undefined, .objectID: return nil
    }
  }

  private func isNull(_ object: PropertyList.Object) -> Bool {
    object == .null || object == .string("$null") || className(of: object) == "NSNull"
  }

  private func integer(_ object: PropertyList.Object) -> Int64? {
    switch object {
    case .integer(let number): number
    case .boolean(let flag): flag ? 1 : 0
    case .real(let number): Int64(exactly: number)
    default: nil
    }
  }

  private func number(_ object: PropertyList.Object) -> Double? {
    switch object {
    case .real(let number): number.isFinite ? number : nil
    case .integer(let number): Double(number)
    default: nil
    }
  }

  private func boolean(_ object: PropertyList.Object) -> Bool? {
    switch object {
    case .boolean(let flag): flag
    case .integer(let number): number != 0
    default: nil
    }
  }

  private func string(_ object: PropertyList.Object) -> String? {
    if case .string(let text) = object { return text }
    return member("NS.string", of: object).flatMap { if case .string(let text) = $0 { text } else { nil } }
  }

  private func data(_ object: PropertyList.Object) -> [UInt8]? {
    if case .data(let bytes) = object { return bytes }
    return member("NS.data", of: object).flatMap { if case .data(let bytes) = $0 { bytes } else { nil } }
  }

  private func uuid(_ object: PropertyList.Object) -> String? {
    if case .data(let bytes)? = member("NS.uuidbytes", of: object), bytes.count == 16 { return UUIDText.text(bytes) }
    return string(object).flatMap(UUIDText.canonical)
  }

  /// Milliseconds since 1970.
  private func date(_ object: PropertyList.Object) -> Int64? {
    let seconds: Double
    switch (object, member("NS.time", of: object)) {
    case (.date(let since2001), _): seconds = since2001
    case (_, let time?):
      guard let since2001 = number(time) else { return nil }
      seconds = since2001
    default: return nil
    }
    let milliseconds = (seconds + Self.referenceDate) * 1000
    return milliseconds.magnitude < 0x1p63 ? Int64(milliseconds + (milliseconds < 0 ? -0.5 : 0.5)) : nil
  }

  /// Seconds from 1970 to 2001.
  private static let referenceDate: Double = 978_307_200

  /// An NSDecimalNumber: a mantissa of up to eight 16-bit digits, the lowest first, and a power of ten.
  private func decimal(_ object: PropertyList.Object) -> String? {
    switch object {
    case .integer(let number): return String(number)
    case .real(let number): return number.isFinite ? DecimalText.text(number) : nil
    default: break
    }
    guard case .data(let mantissa)? = member("NS.mantissa", of: object), mantissa.count <= 16, mantissa.count % 2 == 0,
      let exponent = member("NS.exponent", of: object).flatMap(integer), (-128...127).contains(exponent)
    else { return nil }
    // 1: the lower byte of a digit comes first, as on all current machines.
    let isLittle = member("NS.mantissa.bo", of: object).flatMap(integer) != 2
    let length = member("NS.length", of: object).flatMap(integer).map { Int(clamping: $0) } ?? mantissa.count / 2
    guard (0...mantissa.count / 2).contains(length) else { return nil }
    var value: UInt128 = 0
    for digit in stride(from: 2 * length - 2, through: 0, by: -2) {
      let (low, high) = isLittle ? (mantissa[digit], mantissa[digit + 1]) : (mantissa[digit + 1], mantissa[digit])
      value = value << 16 | UInt128(UInt16(high) << 8 | UInt16(low))
    }
    let isNegative = member("NS.negative", of: object).flatMap(boolean) ?? false
    return DecimalText.exact((isNegative ? "-" : "") + value.description + "e" + exponent.description)
  }

  // MARK: The archive

  /// The values of an archived dictionary by the names of elements; nil if the object is no dictionary with string
  /// keys.
  private func members(of object: PropertyList.Object, named elements: [Attribute]) -> [String: PropertyList.Object]? {
    guard case .array(let keys)? = member("NS.keys", of: object),
      case .array(let values)? = member("NS.objects", of: object), keys.count == values.count
    else {
      return nil
    }
    let names = Set(elements.map(\.name))
    let longest = 3 * (names.map(\.utf8.count).max() ?? 0)
    var members: [String: PropertyList.Object] = [:]
    for (key, value) in zip(keys, values) {
      guard let name = list.object(key).flatMap(followed).flatMap(string),
        let value = list.object(value).flatMap(followed)
      else { return nil }
      // Checks the length before hashing: an overlong text may be the key a hundred thousand times.
      if name.utf8.count <= longest, names.contains(name) { members[name] = value }
    }
    return members
  }

  private func className(of object: PropertyList.Object) -> String? {
    member("$class", of: object).flatMap { member("$classname", of: $0) }.flatMap {
      if case .string(let name) = $0 { name } else { nil }
    }
  }

  private func member(_ name: String, of object: PropertyList.Object) -> PropertyList.Object? {
    Self.member(name, of: object, in: list).flatMap(followed)
  }

  /// The object that a place in the table leads to; other objects are returned unchanged.
  private func followed(_ object: PropertyList.Object) -> PropertyList.Object? {
    guard case .uid(let place) = object else { return object }
    return table.indices.contains(place) ? list.object(table[place]) : nil
  }

  private static func member(_ name: String, of object: PropertyList.Object, in list: PropertyList) -> PropertyList
    .Object?
  {
    guard case .dictionary(let keys, let values) = object else { return nil }
    return zip(keys, values).first { list.object($0.0) == .string(name) }.flatMap { list.object($0.1) }
  }
}

extension PropertyList.Object {
  /// The cost of using the object as a value.
  fileprivate var contentByteCount: Int {
    switch self {
    case .string(let text): text.utf8.count
    case .data(let bytes): bytes.count
    default: 1
    }
  }
}
