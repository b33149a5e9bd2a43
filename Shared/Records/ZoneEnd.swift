// The ways in which a zone ends: CloudKit's three reasons for the deletion of a zone (P4).

/// The reason for a zone's deletion. The raw value is CloudKit's, and stored: never renumber.
public enum ZoneEnd: Int, Hashable, Sendable, CaseIterable {
  /// A client deleted the zone.
  case deleted = 0
  /// The owner purged the zone's data.
  case purged = 1
  /// The zone's encrypted data can no longer be read.
  case encryptedDataReset = 2

  /// The reason's name in requests and answers.
  public var name: String { "\(self)" }

  public init?(name: String) {
    guard let end = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = end
  }
}
