// Determines how a store stands to a zone that ended, which decides about its objects there and its saves.

import History
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
  /// The store let the zone's objects go: its later saves are new.
  case letGo(StoredZoneHold)

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
      case ZonePolicy.delete.rawValue: self = .letGo(hold)
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
    case .whole, .renewed, .letGo, .ended(_, .keepAndReupload): nil
    case .paused(let end), .ended(let end, .keepAndPause):
      (.zonePaused, "the zone is gone (\(end.name)), and the store waits for a decision about its objects")
    case .ended(let end, .delete): Self.gone(end)
    }
  }

  /// The reason why changes for objects that went with their zone are not written.
  static func gone(_ end: ZoneEnd) -> (cause: QuarantineCause, reason: String) {
    (.zoneEnded, "the zone is gone (\(end.name)), and its objects with it")
  }

  /// True if the store may have objects of the zone that nobody else has any more.
  var mayHaveMore: Bool {
    switch self {
    case .whole, .letGo: false
    case .ended, .paused, .renewed: true
    }
  }
}

extension StoredZoneHold {
  /// Tells held-back changes that went with the zone's objects from those that came since.
  /// - Parameter cause: why they wait, as `StoredQuarantine` has it.
  func split(_ parts: [HistoryTransaction], heldFor cause: Int) -> (
    gone: [HistoryTransaction], since: [HistoryTransaction]
  ) {
    guard decision == ZonePolicy.delete.rawValue else { return ([], parts) }
    if cause == QuarantineCause.zonePaused.rawValue { return (parts, []) }
    // A commit that ends a zone exports first: its time is that of the changes that it held back.
    return (parts.filter { $0.timestamp <= heldAt }, parts.filter { $0.timestamp > heldAt })
  }
}

extension StoredSyncState {
  /// The policy that the client asked for, or else the standard one (P4).
  func policy(for end: ZoneEnd) -> ZonePolicy {
    zonePolicies[end].flatMap(ZonePolicy.init(rawValue:)) ?? .standard(for: end, in: .own)
  }
}
