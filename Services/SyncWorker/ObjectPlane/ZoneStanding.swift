// Determines how a store stands to a zone that ended, which decides about its objects there and its saves.

package import Mirroring
package import RecordStore
package import Records
import ZoneCommit

/// Computed from rows alone, so that exports, imports and saves agree.
package enum ZoneStanding: Hashable, Sendable {
  /// The zone is the one that the store takes it for, or was made again empty with its consent.
  case whole
  /// The zone ended, and the store's client has not heard of it.
  case ended(ZoneEnd, ZonePolicy)
  /// The store waits for its user's decision.
  case paused(ZoneEnd)
  /// The zone ended, and the store sends its objects again; until then it has objects that nobody else has.
  case renewed

  /// A zone that never ended costs one comparison.
  package init(of mirror: StoredMirror, to zone: StoredZone?, in snapshot: any ShardSnapshot) throws {
    self = .whole
    // A guest's membership ends with the zone, and its earlier saves find no zone.
    if mirror.isGuest { return }
    guard let zone, zone.endSequence > 0 else { return }
    if let hold = try snapshot.zoneHolds(of: mirror.key).first(where: {
      $0.zoneName == zone.zoneName && $0.endSequence == zone.endSequence
    }) {
      switch hold.decision {
      case nil: self = .paused(hold.end)
      case ZonePolicy.keepAndReupload.rawValue: self = .renewed
      default: break
      }
      return
    }
    if mirror.importedSequence >= zone.endSequence { return }
    let state = try snapshot.syncState(of: mirror.key)
    if state.sinceSequence < zone.endSequence { self = .ended(zone.end, state.policy(for: zone.end)) }
  }

  /// The reason why saves for the zone's objects are not written; nil when they are, into a zone made again if need be.
  package var refusal: (cause: QuarantineCause, reason: String)? {
    switch self {
    case .whole, .renewed, .ended(_, .keepAndReupload): nil
    case .paused(let end), .ended(let end, .keepAndPause):
      (.zonePaused, "the zone is gone (\(end.name)), and the store waits for a decision about its objects")
    case .ended(let end, .delete): (.zoneEnded, "the zone is gone (\(end.name)), and its objects with it")
    }
  }
}

extension StoredSyncState {
  /// The policy that the client asked for, or else the standard one (P4).
  func policy(for end: ZoneEnd) -> ZonePolicy {
    zonePolicies[end].flatMap(ZonePolicy.init(rawValue:)) ?? .standard(for: end, in: .own)
  }
}
