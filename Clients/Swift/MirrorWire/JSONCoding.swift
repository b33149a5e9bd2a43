// JSON by the coders that every platform has.

internal import FoundationEssentials

/// Bytes that are not what was expected.
public struct WireError: Error, Hashable, Sendable {
  public let reason: String

  public init(_ reason: String) { self.reason = reason }
}

extension Decodable {
  /// - Throws: `WireError` with the place.
  public init(json: [UInt8]) throws(WireError) {
    do {
      self = try JSONDecoder().decode(Self.self, from: Data(json))
    } catch {
      throw WireError("\(Self.self): \(error)")
    }
  }
}

extension Encodable {
  /// - Throws: `WireError` for what JSON can't say, such as a number that is not finite.
  public func json() throws(WireError) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    do {
      return [UInt8](try encoder.encode(self))
    } catch {
      throw WireError("\(Self.self): \(error)")
    }
  }
}
