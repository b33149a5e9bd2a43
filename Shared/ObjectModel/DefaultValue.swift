// An attribute's default as a field's value: what an import sets where a record has neither field nor companion (R9).

public import Records

extension Attribute {
  /// The default value; nil if there is none, if the type cannot have one in a model file, or if
  /// `hasUnreadableDefault`.
  public var defaultFieldValue: FieldValue? {
    guard let text = defaultValue else { return nil }
    switch type {
    case .integer16: return Int16(text).map { .int64(Int64($0)) }
    case .integer32: return Int32(text).map { .int64(Int64($0)) }
    case .integer64: return Int64(text).map { .int64($0) }
    case .boolean: return Self.boolean(text).map { .int64($0 ? 1 : 0) }
    case .double, .float, .decimal: return Double(text).flatMap { $0.isFinite ? .double($0) : nil }
    case .date: return Self.date(text)
    case .string, .uri: return .string(text)
    case .uuid: return Self.uuid(text)
    case .binary, .transformable, .composite, .undefined, .objectID: return nil
    }
  }

  /// The model file has a default that cannot be read as a value of the attribute's type.
  public var hasUnreadableDefault: Bool {
    switch type {
    case .binary, .transformable, .composite, .undefined, .objectID: false
    default: defaultValue != nil && defaultFieldValue == nil
    }
  }

  private static func boolean(_ text: String) -> Bool? {
    switch text.lowercased() {
    case "yes", "true", "1": true
    case "no", "false", "0": false
    default: nil
    }
  }

  /// Seconds from 2001-01-01 00:00 UTC to 1970: model files count dates from 2001.
  private static let referenceDateSeconds = 978_307_200.0

  private static func date(_ text: String) -> FieldValue? {
    guard let seconds = Double(text) else { return nil }
    let milliseconds = (seconds + referenceDateSeconds) * 1000
    guard milliseconds.magnitude < 0x1p63 else { return nil }
    // Rounded by hand: this pure module needs libm for nothing but `rounded()`.
    return .timestamp(Int64(milliseconds + (milliseconds < 0 ? -0.5 : 0.5)))
  }

  private static func uuid(_ text: String) -> FieldValue? {
    let upper = text.uppercased()
    let isUUID =
      upper.utf8.count == 36
      && upper.utf8.enumerated().allSatisfy { index, byte in
        [8, 13, 18, 23].contains(index) ? byte == UInt8(ascii: "-") : UnicodeScalar(byte).properties.isASCIIHexDigit
      }
    return isUUID ? .string(upper) : nil
  }
}
