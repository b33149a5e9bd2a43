// Zones and the rule for their names.

/// A zone of records: the unit of atomic commits, change feeds and sharing.
public enum Zone {
  /// A zone's name and owner, each 1 to 255 ASCII characters. Only the default zone's name starts with `_`.
  public struct ID: Hashable, Sendable, Codable {
    public let zoneName: String
    /// The owner's user record name; on the wire `ownerRecordName`.
    public let ownerName: String

    public init(zoneName: String, ownerName: String) {
      self.zoneName = zoneName
      self.ownerName = ownerName
    }

    public var isDefault: Bool { zoneName == ReservedName.defaultZone }
    public var wireType: String { isDefault ? "DEFAULT_ZONE" : "REGULAR_CUSTOM_ZONE" }
  }
}

/// The rule for names of zones and records (docs/protocol/mirroring.md#names-and-limits, T-L01).
public enum RecordName {
  /// The problem with `name` as the name of a new record or zone, in words for a message; nil if it is valid.
  /// - Parameter kind: the name's word in the message, such as `recordName`.
  public static func problem(_ name: String, kind: String) -> String? {
    let bytes = name.utf8
    if bytes.isEmpty { return "\(kind) is empty" }
    if bytes.count > Limit.nameByteCount {
      return "\(kind) has \(bytes.count) characters, the limit is \(Limit.nameByteCount)"
    }
    if bytes.first == UInt8(ascii: "_") { return "\(kind) '\(name)' starts with '_', which is reserved" }
    if !bytes.allSatisfy({ (0x20...0x7e).contains($0) }) {
      return "\(kind) has a character that is not printable ASCII"
    }
    return nil
  }
}
