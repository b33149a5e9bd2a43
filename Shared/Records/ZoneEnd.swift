// The ways in which a zone ends: CloudKit's three reasons for the deletion of a zone (P4).

/// Why a zone was deleted. The raw value is CloudKit's, and stored: never renumber.
public enum ZoneEnd: Int, Hashable, Sendable, CaseIterable {
  /// By a client that deleted it.
  case deleted = 0
  /// By its owner, who wants what was in it gone.
  case purged = 1
  /// Because what was encrypted in it can't be read any more.
  case encryptedDataReset = 2

  /// As it is spelled in answers and requests.
  public var name: String { "\(self)" }

  public init?(name: String) {
    guard let end = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = end
  }
}
