// How a store stands to a zone that has ended before: what becomes of its objects there, and of what it saves.

import Mirroring
import RecordStore
import Records

/// Decided from rows alone, so that exports, imports and saves agree.
enum ZoneStanding: Hashable, Sendable {
  /// The zone is what the store takes it for, or anew and empty with its consent.
  case whole
  /// The zone ended, and the store's client has not heard of it.
  case ended(ZoneEnd, ZonePolicy)
  /// The store waits for its user's decision.
  case paused(ZoneEnd)
  /// The zone ended, and the store sends again what it has: until then it knows objects which nobody else does.
  case renewed

  /// A zone that never ended costs one comparison.
  init(of mirror: StoredMirror, to zone: StoredZone?, in snapshot: any ShardSnapshot) throws {
    self = .whole
    // A guest's membership ends with the zone, and what it saved then finds no zone.
    if mirror.isGuest { return }
    guard let zone, zone.endSequence > 0 else { return }
    if let hold = try snapshot.zoneHolds(of: mirror.key).first(where: { $0.zoneName == zone.zoneName && $0.endSequence == zone.endSequence }) {
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

  /// Why what the store saved for the zone's objects is not written; nil: it is, into a zone that is made again if need be.
  var refusal: (cause: QuarantineCause, reason: String)? {
    switch self {
    case .whole, .renewed, .ended(_, .keepAndReupload): nil
    case .paused(let end), .ended(let end, .keepAndPause): (.zonePaused, "the zone is gone (\(end.name)), and the store waits for a decision about its objects")
    case .ended(let end, .delete): (.zoneEnded, "the zone is gone (\(end.name)), and its objects with it")
    }
  }
}

extension StoredSyncState {
  /// The policy that the client asked for, or else the standard one (P4).
  func policy(for end: ZoneEnd) -> ZonePolicy { zonePolicies[end].flatMap(ZonePolicy.init(rawValue:)) ?? .standard(for: end, in: .own) }
}
