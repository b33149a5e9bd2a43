// The fate of a store's objects when their zone ends: the table's answer, or the client's choice (P4).

public import Records

/// A store's policy for one of the ways in which zones end. The raw value is stored: never renumber.
public enum ZonePolicy: Int, Hashable, Sendable, CaseIterable {
  /// The objects go with the zone.
  case delete = 1
  /// The objects stay, and the zone stands still for the store until its user decides.
  case keepAndPause = 2
  /// The objects stay, and are sent again.
  case keepAndReupload = 3

  /// As requests spell it.
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

  /// What the client is told to do: `action` of a zone's change, and what a decision is spelled with.
  public var action: String {
    switch self {
    case .delete: "delete"
    case .keepAndPause: "pause"
    case .keepAndReupload: "reupload"
    }
  }

  /// A decision that ends a pause.
  public init?(decision: String) {
    switch decision {
    case Self.delete.action: self = .delete
    case Self.keepAndReupload.action: self = .keepAndReupload
    default: return nil
    }
  }

  /// The bits of what the client is to do; none while it waits.
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
