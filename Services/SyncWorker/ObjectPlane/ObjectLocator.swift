// Which zone each object of a store is in: the one place that knows (R4, R16).

import History
import Mirroring
import RecordStore
import Records

/// Where the objects of one store are, in one state of its shard; remembers what it was asked.
///
/// Where all objects of the database are in the store's default zone, nothing is looked up. Otherwise an object is in the zone with its live
/// record, the default one first (record clients may use a name in several); else where it was assigned to be made; else where its
/// tombstone is.
final class ObjectLocator {
  /// What is known of an object.
  struct Place {
    /// nil: nobody has heard of the object.
    var zone: StoredZone?
    /// All that is left there is a tombstone.
    var isTombstone = false
  }

  let mirror: StoredMirror
  /// Where objects go that are connected with nothing; nil: there is none, or not yet.
  let defaultZone: StoredZone?
  /// Whether all objects are in the default zone.
  let isSingle: Bool
  private let snapshot: any ShardSnapshot
  let owner: String
  private var places: [String: Place] = [:]
  private var sources: [Int64: ZoneSource] = [:]
  private let nowhere: ZoneSource

  /// - Throws: what the store throws.
  init(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    self.mirror = mirror
    self.snapshot = snapshot
    let database = try snapshot.database(key: mirror.databaseKey)
    owner = database?.id.owner ?? ""
    isSingle = mirror.scope != .private || database?.hasPlacements != true
    let zone = try mirror.defaultZoneName.flatMap { try snapshot.zone(named: $0, in: mirror.databaseKey) }
    defaultZone = zone.flatMap { $0.isDeleted ? nil : $0 }
    nowhere = ZoneSource(nil, in: snapshot)
  }

  // MARK: Zones

  /// The zone of an object; the default one for what nobody has heard of, and nil where that does not exist.
  func zone(of objectID: String) throws -> StoredZone? { isSingle ? defaultZone : try place(of: objectID).zone ?? defaultZone }

  /// The object's zone as clients name it.
  func zoneID(of objectID: String) throws -> Zone.ID {
    id(try zone(of: objectID)?.zoneName ?? mirror.defaultZoneName ?? ReservedName.defaultZone)
  }

  private func id(_ zoneName: String) -> Zone.ID { Zone.ID(zoneName: zoneName, ownerName: owner) }

  /// Every zone that has an object of those that the transactions change, the default one first.
  func zones(of transactions: [HistoryTransaction]) throws -> [StoredZone] {
    var zones = defaultZone.map { [$0] } ?? []
    if isSingle { return zones }
    for change in transactions.lazy.flatMap(\.changes) {
      if let zone = try zone(of: change.objectID), !zones.contains(where: { $0.key == zone.key }) { zones.append(zone) }
    }
    return zones
  }

  /// What an exporter of a zone asks.
  func elsewhere(than zone: StoredZone?) -> Exporter.Elsewhere? {
    if isSingle { return nil }
    return { [self] objectID in
      let place = try place(of: objectID)
      guard let other = place.zone else { return zone?.key == defaultZone?.key ? nil : .unknown }
      if other.key == zone?.key { return nil }
      return place.isTombstone ? .tombstone : .alive(zoneName: other.zoneName)
    }
  }

  /// What an assignment of zones asks.
  func home(of objectID: String) throws -> ObjectHome {
    let place = try place(of: objectID)
    guard let zone = place.zone else { return .nowhere }
    return place.isTombstone ? .tombstone(id(zone.zoneName)) : .zone(id(zone.zoneName))
  }

  // MARK: Records

  /// The records of a zone; nil: of none.
  func source(in zone: StoredZone?) -> ZoneSource {
    guard let zone else { return nowhere }
    if let known = sources[zone.key] { return known }
    let source = ZoneSource(zone, in: snapshot)
    sources[zone.key] = source
    return source
  }

  /// The records of an object's zone.
  func source(of objectID: String) throws -> ZoneSource { source(in: try zone(of: objectID)) }

  /// The object's record or tombstone.
  func row(of objectID: String) throws -> StoredRecord? { try source(of: objectID).row(named: objectID) }

  // MARK: Looking

  private func place(of objectID: String) throws -> Place {
    if let known = places[objectID] { return known }
    let place = try look(for: objectID)
    places[objectID] = place
    return place
  }

  private func look(for objectID: String) throws -> Place {
    let atHome = try state(of: objectID, in: defaultZone)
    if atHome == .alive { return Place(zone: defaultZone) }
    var assigned: StoredZone?
    var buried = atHome == .tombstone ? defaultZone : nil
    if !isSingle {
      for key in try snapshot.placements(of: objectID, in: mirror.databaseKey) {
        guard let zone = try snapshot.zone(key: key), !zone.isDeleted else { continue }
        switch try state(of: objectID, in: zone) {
        case .alive: return Place(zone: zone)
        case .nothing: assigned = assigned ?? zone
        case .tombstone: buried = buried ?? zone
        }
      }
    }
    if let assigned { return Place(zone: assigned) }
    return Place(zone: buried, isTombstone: buried != nil)
  }

  private enum State {
    case nothing, alive, tombstone
  }

  private func state(of objectID: String, in zone: StoredZone?) throws -> State {
    guard let zone else { return .nothing }
    do {
      return try source(in: zone).row(named: objectID).map { $0.isDeleted ? .tombstone : .alive } ?? .nothing
    } catch StoreError.corrupt {
      // Dropped because there is something: what is wrong with it whoever needs it is told.
      return .alive
    }
  }
}
