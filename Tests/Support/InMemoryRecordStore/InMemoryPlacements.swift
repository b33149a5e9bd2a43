// The oracle's placements of objects outside the default zones.

import RecordStore
import Records

extension InMemoryTransaction {
  func placements(of objectID: String, in database: Int64) throws -> [StoredPlacement] {
    (rows.placements[database]?[objectID] ?? [:]).sorted { $0.key < $1.key }.map {
      StoredPlacement(zone: $0.key, isAssigned: $0.value)
    }
  }

  func place(_ objectID: String, in zone: Int64) throws {
    try write {
      guard let row = rows.zones[zone], !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      trackPlacements(of: row.databaseKey)
      for other in rows.placements[row.databaseKey]?[objectID]?.keys.sorted() ?? [] {
        rows.placements[row.databaseKey]?[objectID]?[other] = false
      }
      notePlacement(of: objectID, in: row, isAssigned: true)
    }
  }

  func settlePlacement(of objectID: String, in database: Int64) throws {
    try write {
      for placement in try placements(of: objectID, in: database) where placement.isAssigned {
        let isNeeded =
          rows.zones[placement.zone]?.isLookedInFirst == false && rows.records[placement.zone]?[objectID] != nil
        rows.placements[database]?[objectID]?[placement.zone] = isNeeded ? false : nil
      }
    }
  }

  func notePlacement(of objectID: String, in zone: StoredZone, isAssigned: Bool = false) {
    rows.placements[zone.databaseKey, default: [:]][objectID, default: [:]][zone.key] = isAssigned
    rows.databases[zone.databaseKey]?.placementState = .noted
  }

  /// Begins to note where objects are, and notes all current objects at once.
  func trackPlacements(of database: Int64) {
    guard rows.databases[database]?.placementState == .untracked else { return }
    rows.databases[database]?.placementState = .empty
    for zone in rows.zones.values where zone.databaseKey == database && !zone.isDeleted {
      for (name, row) in rows.records[zone.key] ?? [:] where zone.places(recordType: row.stored.record.recordType) {
        notePlacement(of: name, in: zone)
      }
    }
  }

  func movePlacements(from zone: Int64, to successor: Int64, in database: Int64) {
    for (name, zones) in rows.placements[database] ?? [:] {
      guard let isAssigned = zones[zone] else { continue }
      rows.placements[database]?[name]?[zone] = nil
      rows.placements[database]?[name]?[successor] = isAssigned
    }
  }
}
