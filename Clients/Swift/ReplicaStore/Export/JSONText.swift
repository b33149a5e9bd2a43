// Writes JSON by hand where one save after another becomes bytes: the general encoder takes ten times as long.

import FoundationEssentials
import MirrorWire

/// JSON that grows.
struct JSONText {
  private(set) var bytes: [UInt8] = []
  private var needsComma = false

  mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }
  mutating func raw(_ text: [UInt8]) { bytes.append(contentsOf: text) }

  mutating func string(_ text: String) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(byte)
      case 0..<0x20: raw(Self.escapes[Int(byte)])
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// Opens an object or array; members follow with `key` or `separate`.
  mutating func open(_ bracket: Unicode.Scalar) {
    bytes.append(UInt8(ascii: bracket))
    needsComma = false
  }

  mutating func close(_ bracket: Unicode.Scalar) {
    bytes.append(UInt8(ascii: bracket))
    needsComma = true
  }

  mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  mutating func key(_ name: String) {
    separate()
    string(name)
    bytes.append(UInt8(ascii: ":"))
  }

  mutating func member(_ name: String, _ text: String?) {
    guard let text else { return }
    key(name)
    string(text)
  }

  /// The value of an attribute as the object plane spells it.
  mutating func value(_ literal: Literal, of attribute: AttributeDescription) {
    switch literal {
    case .null: raw("null")
    case .integer(let number):
      switch attribute.type {
      case .boolean: raw(number == 0 ? "false" : "true")
      case .date: string(WireDate.text(milliseconds: number))
      default: raw(String(number))
      }
    case .real(let number): raw(attribute.type == .float ? "\(Float(number))" : "\(number)")
    case .data(let data): string(data.base64EncodedString())
    case .text(let text), .object(let text):
      if attribute.traits.contains(.external), let name = ContentName(text) {
        raw(#"{"asset":{"fileChecksum":""#)
        raw(name.fileChecksum)
        raw(#"","size":"#)
        raw(String(name.byteCount))
        raw("}}")
      } else if attribute.type == .composite {
        raw(text)
      } else {
        string(text)
      }
    }
  }

  private static let escapes: [String] = (0..<32).map { byte in "\\u00" + [UInt8(byte)].hexadecimal }
}
