// The body that a browser sends for a form: `application/x-www-form-urlencoded`.

/// The fields of a form by name. The first of several values with one name counts.
struct FormBody: Sendable {
  private let fields: [String: String]

  /// nil for text that no browser sends: bad percent-encoding, or bytes that are not UTF-8.
  init?(_ body: [UInt8]) {
    var fields: [String: String] = [:]
    for field in body.split(separator: UInt8(ascii: "&")) {
      let equals = field.firstIndex(of: UInt8(ascii: "=")) ?? field.endIndex
      guard let name = Self.decoded(field[..<equals]), let value = Self.decoded(field[equals...].dropFirst()) else {
        return nil
      }
      if fields[name] == nil { fields[name] = value }
    }
    self.fields = fields
  }

  subscript(_ name: String) -> String? { fields[name] }

  private static func decoded(_ text: ArraySlice<UInt8>) -> String? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var rest = text
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
        bytes.append(high << 4 | low)
      default: bytes.append(byte)
      }
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? { Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) } }
}
