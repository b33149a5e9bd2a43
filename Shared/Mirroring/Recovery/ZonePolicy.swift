// The fate of a store's objects when their zone ends: the table's answer, or the client's choice (P4).

public import Records

/// A store's policy for one way in which zones end. The raw value is stored: never renumber.
public enum ZonePolicy: Int, Hashable, Sendable, CaseIterable {
  /// The objects are deleted with the zone.
  case delete = 1
  /// The objects stay, and the store does not sync the zone until its user decides.
  case keepAndPause = 2
  /// The objects stay, and the store sends them again.
  case keepAndReupload = 3

  /// The policy's name in requests.
  public var name: String {
    switch self {
    case .delete: "delete"
    case .keepAndPause: "keep-and-pause"
    case .keepAndReupload: "keep-and-reupload"
    }
  }

  public init?(name: String) {
    guard let policy = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = policy
  }

  /// The word for clients: `action` of a zone's change, and the value of a decision.
  public var action: String {
    switch self {
    case .delete: "delete"
    case .keepAndPause: "pause"
    case .keepAndReupload: "reupload"
    }
  }

  /// Reads a decision that ends a pause; nil for any other text.
  public init?(decision: String) {
    switch decision {
    case Self.delete.action: self = .delete
    case Self.keepAndReupload.action: self = .keepAndReupload
    default: return nil
    }
  }

  /// The client's recovery; empty while the store waits for a decision.
  public var recovery: RecoveryAction {
    switch self {
    case .delete: .deleteZone
    case .keepAndPause: []
    case .keepAndReupload: .keepAndReupload
    }
  }

  /// The table's (docs/protocol/mirroring.md#recovery), where the client asked for nothing.
  public static func standard(for end: ZoneEnd, in zone: ZoneOwnership) -> ZonePolicy {
    guard case .recover(let action) = RecoveryTable.step(for: end.signal, in: zone) else { return .keepAndReupload }
    return action.contains(.deleteObjects) ? .delete : .keepAndReupload
  }
}

extension ZoneEnd {
  public var signal: RecoverySignal {
    switch self {
    case .deleted: .zoneDeleted
    case .purged: .zonePurged
    case .encryptedDataReset: .encryptedDataReset
    }
  }
}
