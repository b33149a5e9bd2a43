// Composite attributes: structs that are one value of their object.

import FoundationEssentials
import MirrorWire
public import ReplicaStore

/// A composite attribute's type. It is stored and sent as one JSON object; dates in it are texts.
public protocol Composite: Storable, Codable, Equatable { init() }

extension Composite {
  public var literal: Literal {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(WireDate.text(milliseconds: date.milliseconds))
    }
    // JSON can't say numbers that are not finite; such a value is stored as none.
    guard let data = try? encoder.encode(self) else { return .null }
    return .text(String(decoding: data, as: UTF8.self))
  }

  /// A text that does not fit the type, which only another client can have written, reads as the empty value.
  public static func read(_ row: borrowing Row, _ column: Int) -> Self {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .custom { decoder in
      let text = try decoder.singleValueContainer().decode(String.self)
      guard let milliseconds = WireDate.milliseconds(text) else {
        throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "\(text) is no date"))
      }
      return Date(milliseconds: milliseconds)
    }
    return (try? decoder.decode(Self.self, from: Data(row.text(column).utf8))) ?? Self()
  }
}
