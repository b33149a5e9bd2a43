// Reads attribute values of the mirror API against the model; an error names entity.attribute.

import History
import JSON
import Mirroring
import ObjectModel
import Records

/// Reads the values of one entity's attributes.
struct AttributeReader {
  let entity: EntityDescription
  /// nil refuses assets.
  let assets: AssetReader?

  /// - Throws: `BAD_REQUEST` that begins with `Entity.attribute`.
  func read(_ name: String, _ json: JSONValue) throws(RecordError) -> AttributeValue {
    guard let attribute = entity.attribute(named: name) else {
      throw RecordError(.badRequest, "\(entity.name).\(name): the model has no such attribute")
    }
    let path = "\(entity.name).\(name)"
    if [.binary, .transformable].contains(attribute.attribute.type), json.kind == .object,
      let dictionary = json["asset"]
    {
      return .asset(try asset(dictionary, path: path))
    }
    return try Self.value(json, of: attribute.attribute, path: path)
  }

  /// Accepts uploaded content only: another device may have replaced the asset that an answer showed.
  private func asset(_ dictionary: JSONValue, path: String) throws(RecordError) -> Asset {
    do throws(RecordError) {
      guard let asset = try assets?.asset(dictionary), !asset.isShown else {
        throw RecordError(.badRequest, AssetReader.noReceipt)
      }
      return asset
    } catch {
      throw error.within(path)
    }
  }

  private static func value(_ json: JSONValue, of attribute: Attribute, path: String) throws(RecordError)
    -> AttributeValue
  {
    if json.isNull { return .null }
    func expected(_ what: String) -> RecordError {
      RecordError(.badRequest, "\(path): the attribute is of type \(attribute.type.rawValue), expected \(what)")
    }
    switch attribute.type {
    case .integer16: return .integer(try integer(json, Int16.self, path, expected))
    case .integer32: return .integer(try integer(json, Int32.self, path, expected))
    case .integer64: return .integer(try integer(json, Int64.self, path, expected))
    case .double: return .double(try number(json, expected))
    case .float:
      let number = try number(json, expected)
      guard Float(number).isFinite else {
        throw RecordError(.badRequest, "\(path): the number is out of range of Float")
      }
      return .double(number)
    case .boolean:
      guard let flag = json.bool else { throw expected("true or false") }
      return .boolean(flag)
    case .binary, .transformable:
      guard let bytes = json.base64 else { throw expected("padded base64") }
      return .binary(bytes)
    case .composite: return .composite(try elements(json, of: attribute, path: path, expected))
    case .undefined, .objectID:
      throw RecordError(.badRequest, "\(path): attributes of type \(attribute.type.rawValue) can't be saved")
    case .string, .uri, .decimal, .date, .uuid:
      guard let text = json.string else { throw expected("a string") }
      if attribute.isExactDecimal, DecimalText.exact(text) == nil {
        throw expected("a decimal number of at most 38 digits as a string")
      }
      return try Self.text(text, of: attribute.type, path, expected)
    }
  }

  private static func text(_ text: String, of type: AttributeType, _ path: String, _ expected: (String) -> RecordError)
    throws(RecordError) -> AttributeValue
  {
    switch type {
    case .uri: return .uri(text)
    case .decimal:
      guard DecimalText.double(text) != nil else { throw expected("a decimal number as a string") }
      return .decimal(text)
    case .date:
      guard let milliseconds = MirrorDate.milliseconds(text) else {
        throw expected("a date like 2026-11-20T07:33:24.123Z")
      }
      return .date(milliseconds)
    case .uuid:
      guard let canonical = UUIDText.canonical(text) else { throw expected("a UUID") }
      return .uuid(canonical)
    default: return .string(text)
    }
  }

  private static func integer<Width: FixedWidthInteger>(
    _ json: JSONValue, _ width: Width.Type, _ path: String, _ expected: (String) -> RecordError
  ) throws(RecordError) -> Int64 {
    guard let value = json.int64 else { throw expected("an integer") }
    guard Width(exactly: value) != nil else {
      throw RecordError(.badRequest, "\(path): the integer is out of range \(Width.min)…\(Width.max)")
    }
    return value
  }

  private static func number(_ json: JSONValue, _ expected: (String) -> RecordError) throws(RecordError) -> Double {
    guard let value = json.double, value.isFinite else { throw expected("a number") }
    return value
  }

  /// Unknown elements are refused like unknown attributes.
  private static func elements(
    _ json: JSONValue, of attribute: Attribute, path: String, _ expected: (String) -> RecordError
  ) throws(RecordError) -> [AttributeValue.CompositeElement] {
    guard json.kind == .object else { throw expected("an object") }
    let known = Dictionary(attribute.elements.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    var elements: [AttributeValue.CompositeElement] = []
    try json.forEachMember { key, value throws(RecordError) in
      let name = key.string ?? ""
      guard let element = known[name] else {
        throw RecordError(.badRequest, "\(path).\(name): the model has no such element")
      }
      elements.append(
        AttributeValue.CompositeElement(name: name, value: try Self.value(value, of: element, path: "\(path).\(name)")))
    }
    return elements.sorted { $0.name < $1.name }
  }
}
