// Random documents against Foundation's reader: documents that both accept must mean the same.

import Foundation
import Testing

import JSON

struct DifferentialTests {
  /// The oracle's model of a document.
  private indirect enum Tree {
    case object([(String, Tree)])
    case array([Tree])
    case string(String)
    case integer(Int64)
    case double(Double)
    case bool(Bool)
    case null

    static func random(depth: Int, _ generator: inout SplitMix) -> Tree {
      switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &generator) {
      case 0: .string(text(&generator))
      case 1: .integer(Int64.random(in: .min ... .max, using: &generator))
      case 2: .integer(Int64.random(in: -100...100, using: &generator))
      case 3: .double(Double.random(in: -1e6...1e6, using: &generator))
      case 4: .bool(Bool.random(using: &generator))
      case 5: .null
      case 6: .array((0..<Int.random(in: 0...12, using: &generator)).map { _ in random(depth: depth - 1, &generator) })
      default:
        .object(
          (0..<Int.random(in: 0...20, using: &generator)).map {
            ("\($0)" + text(&generator), random(depth: depth - 1, &generator))
          })
      }
    }

    private static func text(_ generator: inout SplitMix) -> String {
      let scalars: [Unicode.Scalar] = [
        "a", "b", "\"", "\\", "\n", "\u{1}", "é", "€", "😀", "\u{0}", " ", "/", "\u{10ffff}",
      ]
      var text = ""
      for _ in 0..<Int.random(in: 0...18, using: &generator) {
        text.unicodeScalars.append(scalars[Int.random(in: 0..<scalars.count, using: &generator)])
      }
      return text
    }

    func write(to writer: inout JSONWriter) {
      switch self {
      case .object(let members):
        writer.beginObject()
        for (name, member) in members {
          writer.key(name)
          member.write(to: &writer)
        }
        writer.endObject()
      case .array(let elements):
        writer.beginArray()
        for element in elements { element.write(to: &writer) }
        writer.endArray()
      case .string(let text): writer.string(text)
      case .integer(let number): writer.integer(number)
      case .double(let number): writer.double(number)
      case .bool(let flag): writer.bool(flag)
      case .null: writer.null()
      }
    }

    func matches(_ value: JSONValue) -> Bool {
      switch self {
      case .object(let members):
        value.kind == .object && value.members.map(\.key) == members.map(\.0)
          && members.allSatisfy { name, member in value[name].map(member.matches) ?? false }
      case .array(let elements):
        value.kind == .array && value.count == elements.count
          && zip(elements, value.elements).allSatisfy { $0.matches($1) }
      case .string(let text): value.string == text && value.isString(text)
      case .integer(let number): value.int64 == number
      case .double(let number): value.kind == .double && value.double == number
      case .bool(let flag): value.bool == flag
      case .null: value.isNull
      }
    }
  }

  private static func agree(_ value: JSONValue, _ other: Any) -> Bool {
    switch value.kind {
    case .object:
      guard let dictionary = other as? [String: Any], dictionary.count == value.count else { return false }
      return value.members.allSatisfy { key, member in dictionary[key].map { agree(member, $0) } ?? false }
    case .array:
      guard let array = other as? [Any], array.count == value.count else { return false }
      return zip(value.elements, array).allSatisfy { agree($0, $1) }
    case .string: return other as? String == value.string
    case .integer: return (other as? NSNumber)?.int64Value == value.int64
    case .double:
      guard let number = (other as? NSNumber)?.doubleValue, let mine = value.double else { return false }
      return abs(number - mine) <= abs(mine) * 1e-15
    case .bool: return other as? Bool == value.bool
    case .null: return other is NSNull
    }
  }

  private static func foundation(_ bytes: [UInt8]) -> Any? {
    // Dropped because only acceptance matters, not the oracle's reasons.
    try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
  }

  @Test func `written documents are read back, by this reader and by Foundation's`() throws {
    var generator = SplitMix(state: 1)
    for _ in 0..<300 {
      let tree = Tree.random(depth: 4, &generator)
      var writer = JSONWriter()
      tree.write(to: &writer)
      let value = try JSONValue(parsing: writer.bytes)
      #expect(tree.matches(value))
      let other = try #require(Self.foundation(writer.bytes))
      #expect(Self.agree(value, other))
      var again = JSONWriter()
      again.value(value)
      #expect(again.bytes == writer.bytes)
    }
  }

  @Test func `where mutated documents are accepted by both readers, both mean the same`() throws {
    var generator = SplitMix(state: 2)
    let alphabet = Array("{}[]\",:\\u0019eE+-.tfn dDcC8/ \u{1}é".utf8)
    var bothCount = 0
    var refusedCount = 0
    for _ in 0..<4000 {
      var writer = JSONWriter()
      Tree.random(depth: 2, &generator).write(to: &writer)
      var bytes = writer.bytes
      for _ in 0..<Int.random(in: 1...3, using: &generator) where !bytes.isEmpty {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        let byte = alphabet[Int.random(in: 0..<alphabet.count, using: &generator)]
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[place] = byte
        case 1: bytes.insert(byte, at: place)
        default: bytes.remove(at: place)
        }
      }
      do throws(JSONError) {
        let value = try JSONValue(parsing: bytes)
        // Foundation refuses some valid documents, such as an escaped NUL in a key; the round trip covers those.
        guard let other = Self.foundation(bytes) else { continue }
        bothCount += 1
        #expect(Self.agree(value, other), "\(String(decoding: bytes, as: UTF8.self))")
      } catch {
        refusedCount += 1
        #expect(!error.reason.isEmpty)
      }
    }
    #expect(bothCount > 100 && refusedCount > 100, "\(bothCount) accepted by both, \(refusedCount) refused")
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
