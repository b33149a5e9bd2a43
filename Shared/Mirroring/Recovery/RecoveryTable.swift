// The recovery of each error and signal (docs/protocol/mirroring.md#recovery).

/// An error or signal that a client may meet. Numbers are CKError's unless a line says otherwise.
public enum RecoverySignal: Hashable, Sendable, CaseIterable {
  /// 26 and 112.
  case zoneNotFound, identityLost
  /// 21, for a zone's token and for the database's.
  case zoneTokenExpired, databaseTokenExpired
  /// 28.
  case userDeletedZone
  /// Changes of a zone that the database feed reports.
  case zoneDeleted, zonePurged, encryptedDataReset
  /// Core Data's 134301 and 134405.
  case historyExpired, accountChanged
  /// 3, 4, 6, 7, 22, 23, and failures of the transport.
  case transient
  /// 27.
  case limitExceeded
  /// 12 and 25, of single records.
  case invalidRecord, quotaExceeded
  /// 11, for a deletion and for the zone's share.
  case deletedAlready, shareNotFound
  /// 14, of a share: no other record is saved with a tag.
  case shareChanged
  /// 15, in a public database.
  case rejectedInPublic
}

/// The relation of a zone to the user: their own, or shared with them.
public enum ZoneOwnership: Hashable, Sendable, CaseIterable {
  case own, shared
}

public enum RecoveryStep: Hashable, Sendable {
  case recover(RecoveryAction)
  /// The former account's data goes, or is kept for its return (P2).
  case changeAccount
  /// Send the same again, after the requested time.
  case retry
  /// Send again in smaller batches; report 134411 if that does not help.
  case shrink
  /// Hold the record back and go on with the others; Apple's client stops with 134410.
  case holdBack
  /// Nothing remains to be done.
  case forget
  /// Make the user's own share anew with its participants; take another owner's share over.
  case rebuildShare, adoptShare
}

public enum RecoveryTable {
  /// The recovery for a signal. Combinations that cannot occur get the recovery that keeps the server's data.
  public static func step(for signal: RecoverySignal, in zone: ZoneOwnership) -> RecoveryStep {
    let isOwn = zone == .own
    switch signal {
    case .zoneNotFound, .identityLost: return .recover(isOwn ? .keepAndReupload : .deleteZone)
    case .zoneTokenExpired: return .recover(.keepAndReupload)
    case .databaseTokenExpired: return .recover(.reuploadStore)
    case .userDeletedZone, .zonePurged: return .recover(.deleteZone)
    case .zoneDeleted: return .recover(isOwn ? .keepAndReupload : .deleteAndReupload)
    case .encryptedDataReset: return .recover(isOwn ? .keepAndReupload : .deleteZone)
    case .historyExpired: return .recover(.refetch)
    case .accountChanged: return .changeAccount
    case .transient: return .retry
    case .limitExceeded: return .shrink
    case .invalidRecord, .quotaExceeded: return .holdBack
    case .deletedAlready: return .forget
    case .shareNotFound: return isOwn ? .rebuildShare : .forget
    case .shareChanged: return .adoptShare
    case .rejectedInPublic: return isOwn ? .recover(.recreateZone) : .forget
    }
  }
}
