// Turns values of pages into values of the file.

import FoundationEssentials
import MirrorWire

/// A value that a page has for an attribute.
enum WireValue {
  /// - Returns: nil when the value does not fit the type; the attribute keeps what it has then.
  static func literal(_ value: AttributeValue, _ attribute: AttributeDescription, _ store: (Data) throws -> ContentName)
    throws -> Literal?
  {
    switch value {
    case .null: return .null
    case .boolean(let flag): return attribute.type == .boolean ? .integer(flag ? 1 : 0) : nil
    case .integer(let number):
      switch attribute.type {
      case .integer16, .integer32, .integer64, .boolean: return .integer(number)
      case .double: return .real(Double(number))
      case .float: return .real(Double(Float(number)))
      case .decimal: return .text(String(number))
      default: return nil
      }
    case .double(let number):
      switch attribute.type {
      case .double: return .real(number)
      // The number that the device has which saved it.
      case .float: return Float(number).isFinite ? .real(Double(Float(number))) : nil
      case .decimal: return .text("\(Decimal(number))")
      default: return nil
      }
    case .string(let text): return try literal(text, attribute, store)
    case .composite: return attribute.type == .composite ? try composite(value) : nil
    case .asset(let asset):
      guard attribute.traits.contains(.external) else { return nil }
      return ContentName(fileChecksum: asset.fileChecksum, byteCount: asset.size).map { .text($0.text) }
    }
  }

  private static func literal(_ text: String, _ attribute: AttributeDescription, _ store: (Data) throws -> ContentName)
    throws -> Literal?
  {
    switch attribute.type {
    case .string, .uri, .uuid, .decimal: return .text(text)
    case .date: return WireDate.milliseconds(text).map { .integer($0) }
    case .binary, .transformable:
      guard let data = Data(base64Encoded: text) else { return nil }
      return attribute.traits.contains(.external) ? .text(try store(data).text) : .data(data)
    default: return nil
    }
  }

  private static func composite(_ value: AttributeValue) throws -> Literal? {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    guard let data = try? encoder.encode(value) else { return nil }
    return .text(String(decoding: data, as: UTF8.self))
  }

  /// The default of an attribute that the server does not have.
  static func defaultValue(_ attribute: AttributeDescription) -> Literal {
    guard let text = attribute.defaultValue else { return .null }
    switch attribute.type {
    case .integer16, .integer32, .integer64: return Int64(text).map { .integer($0) } ?? .null
    case .double: return Double(text).map { .real($0) } ?? .null
    case .float: return Float(text).map { .real(Double($0)) } ?? .null
    case .boolean: return .integer(["YES", "TRUE", "1"].contains(text.uppercased()) ? 1 : 0)
    // Xcode writes seconds since 2001.
    case .date: return Double(text).map { Date(timeIntervalSinceReferenceDate: $0).literal } ?? .null
    case .string, .uri, .uuid, .decimal: return .text(text)
    case .binary, .transformable, .composite: return .null
    }
  }
}
