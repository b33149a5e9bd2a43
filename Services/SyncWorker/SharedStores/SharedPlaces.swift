// The places of a shared store's objects and of objects to be made, from the owners' answers.

import History
import Mirroring
import ObjectModel
import Records

/// The owners' answers about objects.
struct SharedPlaces: Sendable {
  struct Place: Hashable, Sendable {
    let zone: Zone.ID
    let isTombstone: Bool
    /// The user had access to the zone, or to the object there, and has none now.
    let isLost: Bool
    let mayWrite: Bool
  }

  private(set) var objects: [String: Place] = [:]
  /// Objects alive at several owners: a participant can make records under any name.
  private var ambiguous: Set<String> = []
  private var writableZones: Set<Zone.ID> = []
  private var lostZones: Set<Zone.ID> = []

  /// Among several owners with one name the one with the live object counts.
  mutating func add(_ located: LocatedObjects, of owner: String) {
    let zones = located.zones.map { Zone.ID(zoneName: $0.zoneName, ownerName: owner) }
    for (zone, id) in zip(located.zones, zones) {
      if zone.mayWrite { writableZones.insert(id) }
      if zone.isLost { lostZones.insert(id) }
    }
    for object in located.objects where zones.indices.contains(object.zone) {
      let place = Place(
        zone: zones[object.zone], isTombstone: object.isTombstone,
        isLost: located.zones[object.zone].isLost || object.hasLeft, mayWrite: object.mayWrite)
      if let known = objects[object.objectID] {
        if known.rank == 0, place.rank == 0, known.zone.ownerName != owner { ambiguous.insert(object.objectID) }
        if known.rank <= place.rank { continue }
      }
      objects[object.objectID] = place
    }
  }

  func isAmbiguous(_ objectID: String) -> Bool { ambiguous.contains(objectID) }

  /// True when the user sees the object.
  func isThere(_ objectID: String) -> Bool { objects[objectID]?.rank == 0 }

  func home(of objectID: String) -> ObjectHome {
    guard let place = objects[objectID] else { return .nowhere }
    return place.isTombstone ? .tombstone(place.zone) : .zone(place.zone)
  }

  /// True when the user may write every record of the zone.
  func mayWrite(_ zone: Zone.ID) -> Bool { writableZones.contains(zone) }
  func isLost(_ zone: Zone.ID) -> Bool { lostZones.contains(zone) }
}

extension SharedPlaces.Place {
  fileprivate var rank: Int { isLost ? 2 : isTombstone ? 1 : 0 }
}

/// Assigns the objects of saves to owners' zones, one transaction after another. A refused transaction changes nothing.
struct SharedAssignment {
  let places: SharedPlaces
  private var assignment: ZoneAssignment
  private var assigned: [String: Zone.ID] = [:]
  private var inserted: Set<String> = []

  init(_ places: SharedPlaces, model: ModelIndex) {
    self.places = places
    assignment = ZoneAssignment(model: model, defaultZone: nil) { objectID in places.home(of: objectID) }
  }

  /// - Throws: `ZoneAssignment.Refusal`.
  mutating func add(_ transaction: HistoryTransaction, place: String) throws {
    for (objectID, zone) in try assignment.settle(transaction, place: place) { assigned[objectID] = zone }
    guard Exporter.exports(author: transaction.author) else { return }
    for change in transaction.changes where change.changeType == .insert { inserted.insert(change.objectID) }
  }

  func zone(of objectID: String) -> Zone.ID? { assigned[objectID] ?? places.objects[objectID]?.zone }

  /// True when the user has lost the object, or the zone in which it would be made.
  func isLost(_ objectID: String) -> Bool {
    places.objects[objectID]?.isLost == true || zone(of: objectID).map(places.isLost) == true
  }

  func isKnown(_ objectID: String) -> Bool {
    inserted.contains(objectID) || places.objects[objectID] != nil || assigned[objectID] != nil
  }

  /// The error for a change that the user may not make; nil for allowed changes and for changes in a lost zone, which
  /// are reported in another way.
  func problem(of change: HistoryChange) -> RecordError? {
    guard let zone = zone(of: change.objectID), !isLost(change.objectID) else { return nil }
    if let place = places.objects[change.objectID], place.zone == zone, !place.isTombstone {
      return place.mayWrite ? nil : RecordError(.accessDenied, "WRITE operation not permitted")
    }
    return places.mayWrite(zone) ? nil : RecordError(.accessDenied, "CREATE operation not permitted")
  }
}
