// Finds the zone of each object of a store: no other code decides this (R4, R16).

import History
package import Mirroring
package import RecordStore
import Records
package import ZoneCommit

/// The zones of one store's objects in one state of its shard; it caches its answers.
///
/// If all objects of the database are in the store's default zone, nothing is looked up. Otherwise an object is in the
/// zone of its live record, the default zone first, because record clients may use a name in several zones. Without a
/// live record it is in the zone it was assigned to, else where its tombstone is, or in its ended zone (returned as it
/// is, ended or made again). A guest has only the zones that are shared with its user.
package final class ObjectLocator {
  /// The known place of an object.
  struct Place {
    /// nil when no zone knows the object.
    var zone: StoredZone?
    /// Only a tombstone, or the memory of one, is left there.
    var isTombstone = false
    /// The object was assigned to the zone and has no record there.
    var isAssigned = false
    /// For a guest: the zone of the object, which the guest's user no longer sees.
    var lostZoneName: String?
    /// For a guest: the object moved out of its zone, out of the user's sight.
    var hasLeft = false

    var livingZone: StoredZone? { zone.flatMap { $0.isDeleted ? nil : $0 } }
  }

  let mirror: StoredMirror
  /// The zone of objects that are connected with nothing; nil when it does not exist.
  let defaultZone: StoredZone?
  /// True if all objects are in the default zone.
  package let isSingle: Bool
  private let snapshot: any ShardSnapshot
  /// False for a look that asks where objects are and needs nothing of their records.
  private let readsRecords: Bool
  let owner: String
  /// The zones that a guest sees; nil when the store is the owner's.
  package let guest: GuestZones?
  private var guestZones: [StoredZone] = []
  /// Objects that transactions insert (`zones(of:)`): an unknown one is made in the default zone.
  private var inserted: Set<String> = []
  private var places: [String: Place] = [:]
  private var sources: [Int64: ZoneSource] = [:]
  private let nowhere: ZoneSource

  /// - Throws: store errors.
  package init(of mirror: StoredMirror, in snapshot: any ShardSnapshot, readsRecords: Bool = true) throws {
    self.mirror = mirror
    self.readsRecords = readsRecords
    self.snapshot = snapshot
    let database = try snapshot.database(key: mirror.databaseKey)
    owner = database?.id.owner ?? ""
    guest = mirror.isGuest ? try GuestZones(of: mirror, snapshot) : nil
    guestZones = try guest?.zones(in: mirror.databaseKey, snapshot) ?? []
    isSingle = guest == nil && (mirror.scope != .private || database?.hasPlacements != true)
    let zone = try mirror.defaultZoneName.flatMap { try snapshot.zone(named: $0, in: mirror.databaseKey) }
    defaultZone = zone.flatMap { $0.isDeleted ? nil : $0 }
    nowhere = ZoneSource(nil, in: snapshot)
  }

  // MARK: Zones

  /// The zone of an object; for an unknown object or an ended zone the default one, nil if that does not exist.
  package func zone(of objectID: String) throws -> StoredZone? {
    isSingle ? defaultZone : try place(of: objectID).livingZone ?? defaultZone
  }

  /// The zone that the object is in, or was in when the zone ended; nil for the default one.
  func lastZone(of objectID: String) throws -> StoredZone? { isSingle ? nil : try place(of: objectID).zone }

  /// The name of `lastZone(of:)`; nil for a guest's object that no zone knows.
  func lastZoneName(of objectID: String) throws -> String? {
    try lastZone(of: objectID)?.zoneName ?? mirror.defaultZoneName
  }

  /// The object's zone as clients name it.
  func zoneID(of objectID: String) throws -> Zone.ID {
    id(try zone(of: objectID)?.zoneName ?? mirror.defaultZoneName ?? ReservedName.defaultZone)
  }

  private func id(_ zoneName: String) -> Zone.ID { Zone.ID(zoneName: zoneName, ownerName: owner) }

  /// The zones of the objects that the transactions change, the default one first. Objects related to a deleted one
  /// count too, because their records are told again.
  /// - Parameter lost: changes of objects that went with their zones.
  func zones(of transactions: [HistoryTransaction], lost: [HistoryChange] = []) throws -> [StoredZone] {
    var zones = defaultZone.map { [$0] } ?? []
    if isSingle { return zones }
    for change in transactions.lazy.filter({ Exporter.exports(author: $0.author) }).flatMap(\.changes)
    where change.changeType == .insert {
      inserted.insert(change.objectID)
    }
    func add(_ objectID: String) throws {
      if let zone = try zone(of: objectID), !zones.contains(where: { $0.key == zone.key }) { zones.append(zone) }
    }
    for change in transactions.lazy.flatMap(\.changes) {
      try add(change.objectID)
      if change.changeType == .update, !change.relationships.isEmpty, try isTombstone(change.objectID) {
        try change.names.forEach(add)
      }
    }
    for change in lost { try change.names.forEach(add) }
    return zones
  }

  /// Answers a zone's exporter where an object is outside its zone; nil when all objects are in the default zone.
  func elsewhere(than zone: StoredZone?) -> Exporter.Elsewhere? {
    if isSingle { return nil }
    return { [self] objectID in
      let place = try place(of: objectID)
      guard let other = place.livingZone else {
        if zone?.key == defaultZone?.key { return nil }
        if inserted.contains(objectID) { return .alive(zoneName: defaultZone?.zoneName ?? "") }
        return place.isTombstone ? .tombstone : .unknown
      }
      if other.key == zone?.key { return nil }
      return place.isTombstone ? .tombstone : .alive(zoneName: other.zoneName)
    }
  }

  /// The home of an object, for the assignment of zones.
  package func home(of objectID: String) throws -> ObjectHome {
    let place = try place(of: objectID)
    guard let zone = place.zone else {
      // No record or placement knows the object; a record in the default zone may point to it.
      guard let defaultZone, try !source(in: defaultZone).pointers(to: objectID).isEmpty else { return .nowhere }
      return .zone(id(defaultZone.zoneName))
    }
    return place.isTombstone ? .tombstone(id(zone.zoneName)) : .zone(id(zone.zoneName))
  }

  /// The ended zones that had objects which the transactions change, whether made again or not.
  func endedZones(of transactions: [HistoryTransaction]) throws -> [StoredZone] {
    if isSingle { return [] }
    var zones: [StoredZone] = []
    for change in transactions.lazy.flatMap(\.changes) {
      if let zone = try place(of: change.objectID).zone, zone.endSequence > 0,
        !zones.contains(where: { $0.key == zone.key })
      {
        zones.append(zone)
      }
    }
    return zones
  }

  /// True if an object was in a zone that has ended, and is nowhere else.
  func isEnded(_ objectID: String) throws -> Bool { try !isSingle && place(of: objectID).zone?.isDeleted == true }

  /// True if an object was assigned to its zone and had no record there.
  package func isAssigned(_ objectID: String) throws -> Bool { try !isSingle && place(of: objectID).isAssigned }

  // MARK: Records

  /// The records of a zone; an empty source for nil.
  package func source(in zone: StoredZone?) -> ZoneSource {
    guard let zone else { return nowhere }
    if let known = sources[zone.key] { return known }
    let source = ZoneSource(zone, in: snapshot)
    sources[zone.key] = source
    return source
  }

  /// The records of an object's zone.
  func source(of objectID: String) throws -> ZoneSource { source(in: try zone(of: objectID)) }

  /// The object's record or tombstone.
  package func row(of objectID: String) throws -> StoredRecord? { try source(of: objectID).row(named: objectID) }

  /// True if the object has a record or tombstone.
  func isStored(_ objectID: String) throws -> Bool { try source(of: objectID).presence(of: objectID) != .unused }

  /// As `row(of:)`; nil also when the guest's user does not see the row.
  func visibleRow(of objectID: String) throws -> StoredRecord? {
    guard let zone = try zone(of: objectID), let row = try source(in: zone).row(named: objectID) else { return nil }
    return try isVisible(row, in: zone) ? row : nil
  }

  /// True if the store's user sees a row; a guest may see only part of a zone.
  func isVisible(_ row: StoredRecord, in zone: StoredZone) throws -> Bool {
    guard let guest else { return true }
    switch try guest.visible(in: zone, snapshot)?.sight(of: row) {
    case .visible?: return true
    case .gone?: return row.isDeleted
    case .hidden?, nil: return false
    }
  }

  // MARK: Looking

  private func place(of objectID: String) throws -> Place {
    if let known = places[objectID] { return known }
    let place = try look(for: objectID)
    places[objectID] = place
    return place
  }

  private func look(for objectID: String) throws -> Place {
    if let guest { return try look(for: objectID, as: guest) }
    let atHome = try state(of: objectID, in: defaultZone)
    if atHome == .alive { return Place(zone: defaultZone) }
    var assigned: StoredZone?
    var buried = atHome == .tombstone ? defaultZone : nil
    var ended: StoredZone?
    // The zone that the object moved to knows more of it, unless nothing is left there.
    var left = atHome == .moved ? defaultZone : nil
    if !isSingle {
      for placement in try snapshot.placements(of: objectID, in: mirror.databaseKey) {
        guard let zone = try snapshot.zone(key: placement.zone) else { continue }
        let state = try state(of: objectID, in: zone)
        if state == .alive { return Place(zone: zone) }
        if zone.isDeleted {
          ended = ended ?? zone
        } else if placement.isAssigned {
          assigned = zone
        } else if state == .moved {
          left = left ?? zone
        } else {
          buried = buried ?? zone
        }
      }
    }
    if let assigned { return Place(zone: assigned, isAssigned: true) }
    let last = buried ?? ended ?? left
    return Place(zone: last, isTombstone: last != nil)
  }

  /// With more zones, a look covers only those with a placement of the name, and the private mirror zone.
  private static let guestZoneLimit = 16

  private func look(for objectID: String, as guest: GuestZones) throws -> Place {
    let placements = try snapshot.placements(of: objectID, in: mirror.databaseKey)
    let placed = Set(placements.map(\.zone))
    let isFew = guestZones.count <= Self.guestZoneLimit
    var buried: StoredZone?
    var left: StoredZone?
    for zone in guestZones where isFew || placed.contains(zone.key) || zone.zoneName == ReservedName.privateMirrorZone {
      switch try state(of: objectID, in: zone) {
      case .alive: return Place(zone: zone)
      case .tombstone: buried = buried ?? zone
      case .moved: left = left ?? zone
      case .nothing: break
      }
    }
    if let assigned = placements.first(where: { placement in
      placement.isAssigned && guestZones.contains { $0.key == placement.zone }
    }) {
      return Place(zone: guestZones.first { $0.key == assigned.zone }, isAssigned: true)
    }
    if let buried { return Place(zone: buried, isTombstone: true) }
    // The object lives elsewhere: it must not be made a second time here.
    if let left { return Place(zone: left, isTombstone: true, hasLeft: true) }
    var place = Place()
    for key in placed.sorted() {
      if let zone = try snapshot.zone(key: key), guest.hasLost(zone.zoneName) { place.lostZoneName = zone.zoneName }
    }
    return place
  }

  /// The zone of a guest's object to which its user has lost access.
  package func lostZone(of objectID: String) throws -> String? {
    try guest == nil ? nil : place(of: objectID).lostZoneName
  }

  /// True if a guest's object moved out of its user's sight. Their changes of it go nowhere, and relationships to it
  /// are treated as if it were deleted.
  package func hasLeft(_ objectID: String) throws -> Bool { try guest != nil && place(of: objectID).hasLeft }

  /// True if all that is left of an object is a tombstone.
  package func isTombstone(_ objectID: String) throws -> Bool { try place(of: objectID).isTombstone }

  private enum State {
    case nothing, alive, tombstone
    /// A tombstone of an object that moved to another zone.
    case moved
  }

  private func state(of objectID: String, in zone: StoredZone?) throws -> State {
    guard let zone else { return .nothing }
    do {
      if !readsRecords {
        switch try source(in: zone).presence(of: objectID) {
        case .unused: return .nothing
        case .alive: return .alive
        // Only its content tells where the object has gone.
        case .tombstone: break
        }
      }
      guard let row = try source(in: zone).row(named: objectID) else { return .nothing }
      if !row.isDeleted { return .alive }
      return Tombstone.movedTo(row.record) == nil ? .tombstone : .moved
    } catch StoreError.corrupt {
      // Dropped because the record exists; its reader meets the damage and reports it.
      return .alive
    }
  }
}
