// Where the objects of a shared store are, and where new ones go: decided from what the owners answered.

import History
import Mirroring
import ObjectModel
import Records

/// What owners said of objects.
struct SharedPlaces: Sendable {
  struct Place: Hashable, Sendable {
    let zone: Zone.ID
    let isTombstone: Bool
    /// The user had access to the zone, or to the object there, and has none.
    let isLost: Bool
    let mayWrite: Bool
  }

  private(set) var objects: [String: Place] = [:]
  private var writableZones: Set<Zone.ID> = []
  private var lostZones: Set<Zone.ID> = []

  /// What several owners have under one name is the first one's that lives.
  mutating func add(_ located: LocatedObjects, of owner: String) {
    let zones = located.zones.map { Zone.ID(zoneName: $0.zoneName, ownerName: owner) }
    for (zone, id) in zip(located.zones, zones) {
      if zone.mayWrite { writableZones.insert(id) }
      if zone.isLost { lostZones.insert(id) }
    }
    for object in located.objects where zones.indices.contains(object.zone) {
      let place = Place(
        zone: zones[object.zone], isTombstone: object.isTombstone, isLost: located.zones[object.zone].isLost || object.hasLeft, mayWrite: object.mayWrite)
      if let known = objects[object.objectID], known.rank <= place.rank { continue }
      objects[object.objectID] = place
    }
  }

  func home(of objectID: String) -> ObjectHome {
    guard let place = objects[objectID] else { return .nowhere }
    return place.isTombstone ? .tombstone(place.zone) : .zone(place.zone)
  }

  /// Whether whatever is made in a zone may be written.
  func mayWrite(_ zone: Zone.ID) -> Bool { writableZones.contains(zone) }
  func isLost(_ zone: Zone.ID) -> Bool { lostZones.contains(zone) }
}

extension SharedPlaces.Place {
  fileprivate var rank: Int { isLost ? 2 : isTombstone ? 1 : 0 }
}

/// Assigns the objects of saves to owners' zones, a transaction after another: one that is refused changes nothing.
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
    var next = assignment
    try next.add(transaction, place: place)
    let made = try next.assignments()
    assignment = next
    for (objectID, zone) in made { assigned[objectID] = zone }
    guard Exporter.exports(author: transaction.author) else { return }
    for change in transaction.changes where change.changeType == .insert { inserted.insert(change.objectID) }
  }

  func zone(of objectID: String) -> Zone.ID? { assigned[objectID] ?? places.objects[objectID]?.zone }

  /// Whether the user has lost an object, or the zone that it would be made in.
  func isLost(_ objectID: String) -> Bool { places.objects[objectID]?.isLost == true || zone(of: objectID).map(places.isLost) == true }

  func isKnown(_ objectID: String) -> Bool { inserted.contains(objectID) || places.objects[objectID] != nil || assigned[objectID] != nil }

  /// Why the user may not make a change; nil: he may, or it is in a zone that he lost, which is told otherwise.
  func problem(of change: HistoryChange) -> RecordError? {
    guard let zone = zone(of: change.objectID), !isLost(change.objectID) else { return nil }
    if let place = places.objects[change.objectID], place.zone == zone, !place.isTombstone {
      return place.mayWrite ? nil : RecordError(.accessDenied, "WRITE operation not permitted")
    }
    return places.mayWrite(zone) ? nil : RecordError(.accessDenied, "CREATE operation not permitted")
  }
}

/// Transactions by the owners whose objects they change.
struct SharedParts {
  /// By owner: each transaction with those of its changes that are his.
  private(set) var parts: [String: [HistoryTransaction]] = [:]
  /// What nobody takes, with what is to be said of it: the zone, where it is known which that was.
  private(set) var lost: [(change: HistoryChange, timestamp: Int64, zone: Zone.ID?, reason: String)] = []

  /// Some transactions, and those after them that name the same objects, wait for owners who don't answer.
  private(set) var isHeld = false

  static let leftReason = "the object's zone is not shared with the store's user any more"

  /// - Parameter isComplete: all owners have answered: what is found nowhere is nowhere.
  init(_ transactions: [HistoryTransaction], _ places: SharedPlaces, isComplete: Bool, model: ModelIndex) {
    var assignment = SharedAssignment(places, model: model)
    var held: Set<String> = []
    for transaction in transactions {
      if !isComplete {
        let names = Set(transaction.changes.flatMap(\.names))
        let made = [transaction].made
        if !held.isDisjoint(with: names) || names.contains(where: { !made.contains($0) && !assignment.isKnown($0) }) {
          held.formUnion(names)
          isHeld = true
          continue
        }
      }
      do {
        try assignment.add(transaction, place: "transaction \(transaction.transactionID)")
      } catch let refusal as ZoneAssignment.Refusal {
        for change in transaction.changes { lost.append((change, transaction.timestamp, assignment.zone(of: change.objectID), refusal.recordError.reason)) }
        continue
      } catch {
        // Dropped because nothing else is asked that could throw.
        continue
      }
      split(transaction, assignment)
    }
  }

  private mutating func split(_ transaction: HistoryTransaction, _ assignment: SharedAssignment) {
    var changes: [String: [HistoryChange]] = [:]
    for change in transaction.changes {
      guard let zone = assignment.zone(of: change.objectID), !assignment.isLost(change.objectID) else {
        // The deletion of what is not there is done.
        if change.changeType == .delete || !Exporter.exports(author: transaction.author) { continue }
        lost.append((change, transaction.timestamp, assignment.zone(of: change.objectID), Self.leftReason))
        continue
      }
      changes[zone.ownerName, default: []].append(change)
    }
    for (owner, changes) in changes {
      var part = transaction
      part.changes = changes
      parts[owner, default: []].append(part)
    }
  }
}
