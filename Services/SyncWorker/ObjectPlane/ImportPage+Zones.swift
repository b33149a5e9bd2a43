// Tells a store of its zones that ended, a page's worth at a time.

import Mirroring
import RecordStore
import Records
import WebServices
import ZoneCommit

extension ImportBatch {
  /// Tells of zones that ended or were made anew since the token, in the order of their ends. By the policy of each
  /// end, the store drops their objects, keeps them and waits, or saves them again.
  /// - Returns: the zones whose records are delivered; nil when the page is full before all ends are told.
  mutating func zonesNoted(_ zones: [StoredZone], limit: Int) throws -> [StoredZone]? {
    var remembered: [Int64: UInt64] = [:]
    var delivered: [StoredZone] = []
    var isCut = false
    for zone in zones.sorted(by: { $0.endSequence < $1.endSequence }) {
      let hash = ImportPosition.hash(of: zone.zoneName)
      let before = position.zones[hash]
      let hold = holds[zone.zoneName].flatMap { $0.endSequence == zone.endSequence ? $0 : nil }
      let isPaused = hold != nil && hold?.decision == nil
      guard isPaused || isNews(endOf: zone, knownAs: before, hold) else {
        if zone.isDeleted { continue }
        remembered[hash] = zone.incarnation
        delivered.append(zone)
        continue
      }
      let isSilent = isPaused && position.hasTold(endAt: zone.endSequence)
      guard isSilent || !isCut && deliveredCount < limit && output.hasRoom(for: []) else {
        // A later page tells of it: until then the token has what it had of the zone. A full token makes ends of zones
        // news that it does not name, so it names them now: ends that are told make room in it.
        isCut = true
        remembered[hash] = before ?? (position.isFull ? Self.noZone : nil)
        position.deferredZones.insert(hash)
        continue
      }
      if isSilent || tell(ofEndOf: zone, hold) == .keepAndPause {
        // The store waits: it gets nothing of the zone's present content, and the end is still to be told.
        remembered[hash] = before ?? Self.noZone
        position.pausedZones.insert(hash)
      } else if !zone.isDeleted {
        remembered[hash] = zone.incarnation
        delivered.append(zone)
      }
    }
    if isCut {
      // Zones that the client has nothing of yet would take the room in the token of those that it knows.
      position.zones = remembered.filter {
        position.zones[$0.key] != nil || position.pausedZones.contains($0.key)
          || position.deferredZones.contains($0.key)
      }
      return nil
    }
    position.zones = remembered
    if page.deletedCount > 0 { position.endsTold = database.sequence }
    let keys = Set(delivered.map(\.key))
    for place in known.keys where !keys.contains(place.zone) { page.settled.append(place) }
    return delivered
  }

  /// True if the client does not know that the zone ended. It may know a zone that its token does not name: it saved
  /// there, lost the token of a page, or the token had no room. The sequence of the end decides then. A client may so
  /// hear of a zone that came and went since it looked, but no user decides about a zone they may never have had.
  private func isNews(endOf zone: StoredZone, knownAs before: UInt64?, _ hold: StoredZoneHold?) -> Bool {
    if let before { return zone.isDeleted || before != zone.incarnation }
    guard !position.hasTold(endAt: zone.endSequence), zone.endSequence > state.sinceSequence else { return false }
    let policy = hold?.decision.flatMap(ZonePolicy.init(rawValue:)) ?? state.policy(for: zone.end)
    return zone.zoneName == mirror.defaultZoneName || position.isFull || policy != .keepAndPause
  }

  /// An incarnation that no zone has; 0 has a meaning of its own in tokens.
  private static let noZone: UInt64 = 1

  /// The store counts as told from this page on: later saves to the zone are new. A client that never got the page asks
  /// again with its old token and is told again.
  private mutating func tell(ofEndOf zone: StoredZone, _ hold: StoredZoneHold?) -> ZonePolicy {
    let policy =
      hold.map { $0.decision.flatMap(ZonePolicy.init(rawValue:)) ?? .keepAndPause } ?? state.policy(for: zone.end)
    output.addZone(Zone.ID(zoneName: zone.zoneName, ownerName: database.id.owner), end: zone.end, policy: policy)
    deliveredCount += 1
    page.deletedCount += 1
    page.lastEnd = max(page.lastEnd, zone.endSequence)
    if hold == nil {
      page.holds.append(
        StoredZoneHold(
          zoneName: zone.zoneName, end: zone.end, endSequence: zone.endSequence, heldAt: now,
          decision: policy == .keepAndPause ? nil : policy.rawValue))
    }
    position.told(endAt: zone.endSequence)
    // An end without a number is older than the numbers: all present records of the zone come after the position.
    if policy != .keepAndPause { position.lostZone(zone.endSequence > 0 ? zone.endSequence : .max) }
    return policy
  }
}
