// The oracle's placements of objects in zones other than the default ones.

import Records

extension InMemoryTransaction {
  func placements(of objectID: String, in database: Int64) throws -> [Int64] {
    (rows.placements[database]?[objectID] ?? []).filter { rows.zones[$0]?.isDeleted == false }.sorted()
  }

  func place(_ objectID: String, in zone: Int64) throws {
    try write {
      guard let row = rows.zones[zone], !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      notePlacement(of: objectID, in: row)
    }
  }

  func notePlacement(of objectID: String, in zone: StoredZone) {
    rows.placements[zone.databaseKey, default: [:]][objectID, default: []].insert(zone.key)
    rows.databases[zone.databaseKey]?.hasPlacements = true
  }
}
