// The recovery of each error and signal (docs/protocol/mirroring.md#recovery).

/// What a client meets.
public enum RecoverySignal: Hashable, Sendable, CaseIterable {
  /// CKError 26, 112.
  case zoneNotFound, identityLost
  /// 21, of a zone's token and of the database's.
  case zoneTokenExpired, databaseTokenExpired
  /// 28.
  case userDeletedZone
  /// The database feed's word of a zone.
  case zoneDeleted, zonePurged, encryptedDataReset
  /// Core Data's 134301 and 134405.
  case historyExpired, accountChanged
  /// 3, 4, 6, 7, 22, 23 and what transports meet.
  case transient
  /// 27.
  case limitExceeded
  /// 12 and 25 of single records.
  case invalidRecord, quotaExceeded
  /// 11, for a deletion and for the zone's share.
  case deletedAlready, shareNotFound
  /// 14, of the share: nothing else is saved with a tag.
  case shareChanged
  /// 15, in a public database.
  case rejectedInPublic
}

/// Whose zone it is.
public enum ZoneOwnership: Hashable, Sendable, CaseIterable {
  case own, shared
}

public enum RecoveryStep: Hashable, Sendable {
  case recover(RecoveryAction)
  /// The former account's data goes, or is kept for its return (P2).
  case changeAccount
  /// Again as it is, after the time that was asked for.
  case retry
  /// Again in smaller batches, and in the end 134411.
  case shrink
  /// The record is held back, and the others go on; Apple's stops with 134410.
  case holdBack
  /// There is nothing left to do.
  case forget
  /// A share of its own is made anew with its participants; another's is taken over.
  case rebuildShare, adoptShare
}

public enum RecoveryTable {
  /// A row's cell. Where the table has none, because the signal can't come from such a zone, what keeps to the server's truth.
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
