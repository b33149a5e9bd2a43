// One attribute's value as a field's value and back (docs/protocol/mirroring.md#attribute-types).

import History
import ObjectModel
import Records

extension AttributeDescription {
  /// `entity.attribute`, for error messages.
  func path(in entity: String) -> String { "\(entity).\(name)" }

  /// The value for the attribute's field; nil for null. `AssetContents` handles values that are kept as assets.
  /// - Throws: `ValueMismatch` if the value does not fit the attribute's type.
  func encode(_ value: AttributeValue, entity: String) throws(ValueMismatch) -> FieldValue? {
    switch (type, value) {
    case (_, .null): return nil
    case (.integer16, .integer(let number)), (.integer32, .integer(let number)), (.integer64, .integer(let number)):
      return .int64(number)
    case (.boolean, .boolean(let flag)): return .int64(flag ? 1 : 0)
    case (.float, .double(let number)), (.double, .double(let number)): return .double(number)
    case (.decimal, .decimal(let text)):
      guard let number = DecimalText.double(text) else { break }
      return .double(number)
    case (.date, .date(let milliseconds)): return .timestamp(milliseconds)
    case (.uuid, .uuid(let text)), (.string, .string(let text)), (.uri, .uri(let text)): return .string(text)
    case (.binary, .binary(let bytes)), (.transformable, .binary(let bytes)): return .bytes(bytes)
    case (.composite, .composite(let elements)): return .bytes(CompositeCoding.encode(elements))
    default: break
    }
    throw ValueMismatch(reason: "\(path(in: entity)) is of type \(type.rawValue), but the value is not")
  }

  /// The attribute's value of a field that is present.
  /// - Throws: when the field's type, or what it holds, does not fit the attribute (R10).
  func decode(_ value: FieldValue, entity: String) throws(ValueMismatch) -> AttributeValue {
    switch (type, value) {
    case (.integer16, .int64(let number)) where Int16(exactly: number) != nil: return .integer(number)
    case (.integer32, .int64(let number)) where Int32(exactly: number) != nil: return .integer(number)
    case (.integer64, .int64(let number)): return .integer(number)
    case (.boolean, .int64(let number)): return .boolean(number != 0)
    case (.float, .double(let number)), (.double, .double(let number)): return .double(number)
    case (.decimal, .double(let number)) where number.isFinite: return .decimal(DecimalText.text(number))
    case (.date, .timestamp(let milliseconds)): return .date(milliseconds)
    case (.uuid, .string(let text)):
      guard let canonical = UUIDText.canonical(text) else { break }
      return .uuid(canonical)
    case (.string, .string(let text)): return .string(text)
    case (.uri, .string(let text)): return .uri(text)
    case (.binary, .bytes(let bytes)), (.transformable, .bytes(let bytes)): return .binary(bytes)
    case (.composite, .bytes(let bytes)):
      guard let elements = CompositeCoding.decode(bytes, elements: attribute.elements) else { break }
      return .composite(elements)
    default: break
    }
    throw ValueMismatch(
      reason:
        "\(path(in: entity)) is of type \(type.rawValue), but the field is \(value.type.wireName) and does not fit it")
  }

  /// A former field's value as the attribute's field has it, converted as devices convert theirs when they migrate; nil
  /// if it does not fit.
  func converted(_ value: FieldValue) -> FieldValue? {
    switch (fieldType, value) {
    case (.double, .int64(let number)): .double(Double(number))
    case (.string, .int64(let number)): .string(String(number))
    // A number that is not finite comes with imported lines alone, and no device has text for it.
    case (.string, .double(let number)) where number.isFinite: .string(DecimalText.text(number))
    default: value.type == fieldType ? value : nil
    }
  }

  /// The field value whose content an asset file holds (T-M10).
  func fieldValue(fromContent content: [UInt8], entity: String) throws(ValueMismatch) -> FieldValue {
    guard fieldType == .string else { return .bytes(content) }
    guard let text = String(validating: content, as: UTF8.self) else {
      throw ValueMismatch(reason: "\(path(in: entity)) is text, but its asset is not UTF-8")
    }
    return .string(text)
  }

  /// The meaning of a missing field (R9): the attribute's default, or null without one that can be read. The model's
  /// entities outside of a pushed configuration are not validated, so a default may be any text.
  var defaultAttributeValue: AttributeValue {
    switch (type, attribute.defaultFieldValue) {
    case (.boolean, .int64(let number)): .boolean(number != 0)
    case (_, .int64(let number)): .integer(number)
    case (.decimal, .double(let number)): .decimal(DecimalText.text(number))
    case (_, .double(let number)): .double(number)
    case (_, .timestamp(let milliseconds)): .date(milliseconds)
    case (.uuid, .string(let text)): .uuid(text)
    case (.uri, .string(let text)): .uri(text)
    case (_, .string(let text)): .string(text)
    default: .null
    }
  }
}
