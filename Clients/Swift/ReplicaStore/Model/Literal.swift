// Values of attributes as the file has them, and the names of objects.

public import FoundationEssentials

/// A value of an attribute or to-one relationship as it is stored.
///
/// Booleans are 0 and 1, dates are milliseconds since 1970, decimals, UUIDs, URIs and composites (JSON) are texts.
/// External content is the text `CHECKSUM:BYTECOUNT` (`ContentName`).
public enum Literal: Sendable, Hashable, Codable {
  case null
  case integer(Int64)
  case real(Double)
  case text(String)
  case data(Data)
  /// The record name of a relationship's target.
  case object(String)
}

/// The name of an object of any entity.
public struct AnyObjectID: Hashable, Sendable, Codable, CustomStringConvertible {
  public let entityName: String
  /// 1 to 255 ASCII characters.
  public let recordName: String

  public init(entityName: String, recordName: String) {
    self.entityName = entityName
    self.recordName = recordName
  }

  public var description: String { "\(entityName)/\(recordName)" }
}
