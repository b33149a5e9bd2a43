// JSON for these tests, read and written by Foundation, independent of the product's code.

import Foundation

enum Value: Hashable, Sendable, Codable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByStringInterpolation
{
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)
  case array([Value])
  case object([String: Value])

  init(stringLiteral value: String) { self = .string(value) }
  init(integerLiteral value: Int64) { self = .integer(value) }
  init(floatLiteral value: Double) { self = .number(value) }
  init(booleanLiteral value: Bool) { self = .bool(value) }
  init(nilLiteral: ()) { self = .null }
  init(arrayLiteral elements: Value...) { self = .array(elements) }
  init(dictionaryLiteral elements: (String, Value)...) {
    self = .object(Dictionary(elements, uniquingKeysWith: { $1 }))
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    // The most frequent kinds come first, because a wrong guess costs an error.
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([String: Value].self) {
      self = .object(value)
    } else if let value = try? container.decode([Value].self) {
      self = .array(value)
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(value)
    } else {
      self = .number(try container.decode(Double.self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }

  init(json: [UInt8]) throws { self = try JSONDecoder().decode(Value.self, from: Data(json)) }

  var json: [UInt8] {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
      return [UInt8](try encoder.encode(self))
    }
  }

  subscript(key: String) -> Value { if case .object(let members) = self { members[key] ?? .null } else { .null } }
  subscript(index: Int) -> Value { elements.indices.contains(index) ? elements[index] : .null }
  var elements: [Value] { if case .array(let elements) = self { elements } else { [] } }
  var members: [String: Value] { if case .object(let members) = self { members } else { [:] } }
  var string: String? { if case .string(let text) = self { text } else { nil } }
  var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
  var double: Double? { if case .number(let number) = self { number } else { integer.map(Double.init) } }
  var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
  var isArray: Bool { if case .array = self { true } else { false } }
}
