// What the server refused, and how an app's decisions reach mirroring.

import MirrorWire
public import ReplicaStore
import ReplicaSync

/// A save that the server refused.
public struct Rejection: Sendable, Identifiable {
  public let id: String
  public let transactionNumber: Int64
  public let objects: [AnyObjectID]
  public let error: StoreError
  /// It was not refused itself, but builds on one that was.
  public let isConsequence: Bool
  /// Of UNIQUE_FIELD_ERROR: the object to use instead.
  public let winner: AnyObjectID?

  init(_ rejected: Rejected) {
    id = rejected.identifier
    transactionNumber = rejected.transactionNumber
    objects = rejected.objects
    error = StoreError(rejected.error)
    isConsequence = rejected.isConsequence
    let duplicate = rejected.error.duplicates?.first
    winner = duplicate.flatMap { one in one.winner.map { AnyObjectID(entityName: one.entity, recordName: $0) } }
  }
}

extension MirrorHooks.RejectionDecision {
  /// One duplicate would undo all that is sent again, and the server has none of it.
  fileprivate static func standard(for rejected: Rejected) -> Self {
    guard rejected.author == MirroringAuthor.reupload else { return .revert }
    return rejected.error.duplicates?.isEmpty == false ? .adoptWinner : .keepForLater
  }
}

extension MirrorOptions {
  init(_ description: StoreDescription) {
    self.init()
    deviceName = description.cloudOptions?.deviceName
    eagerAssetByteCount = description.cloudOptions?.eagerAssetByteCount ?? 0
    let hooks = description.hooks
    self.hooks.saveRejected = { rejected in
      switch await hooks.saveRejected?(Rejection(rejected)) {
      case .revert: .revert
      case .keepForLater: .keepForLater
      case .adoptWinner: .adoptWinner
      case nil: .standard(for: rejected)
      }
    }
    if let zoneEnded = hooks.zoneEnded {
      // The server waits for the app's decision.
      if description.cloudOptions?.databaseScope != .shared {
        let ways = ["deleted", "purged", "encryptedDataReset"]
        zonePolicy = Dictionary(uniqueKeysWithValues: ways.map { ($0, "keep-and-pause") })
      }
      self.hooks.zoneEnded = { ended, cached in
        let end = ZoneEnd(
          zone: Zone(zoneName: ended.zoneID.zoneName, ownerRecordName: ended.zoneID.ownerRecordName ?? ""),
          reason: ended.reason, objectCount: cached?.objectCount ?? 0, unexportedCount: cached?.pendingCount ?? 0)
        return switch await zoneEnded(end) {
        case .delete: .delete
        case .pause: .pause
        case .reupload: .reupload
        }
      }
    }
  }
}
