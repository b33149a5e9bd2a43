// Which zones objects are in that are not in a default one, in a shard's file.

import Records
import SQLite

extension SQLiteSnapshot {
  func placements(of objectID: String, in database: Int64) throws -> [StoredPlacement] {
    let select = try statement(.placements)
    try select.bind(1, database)
    try select.bind(2, recordName: objectID)
    return try select.all { StoredPlacement(zone: $0.int64(0), isAssigned: $0.bool(1)) }
  }
}

extension SQLiteTransaction {
  func place(_ objectID: String, in zone: Int64) throws {
    try write {
      guard let row = try self.zone(key: zone), !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      let unassign = try writing(.unassignPlacements)
      try unassign.bind(1, row.databaseKey)
      try unassign.bind(2, recordName: objectID)
      try unassign.run()
      try putPlacement(.assignPlacement, of: objectID, in: row)
    }
  }

  func settlePlacement(of objectID: String, in database: Int64) throws {
    try write {
      for placement in try placements(of: objectID, in: database) where placement.isAssigned {
        let isNeeded = try zone(key: placement.zone).map { !$0.isLookedInFirst } == true && record(named: objectID, in: placement.zone) != nil
        let settle = try writing(isNeeded ? .settlePlacement : .removePlacement)
        try settle.bind(1, database)
        try settle.bind(2, recordName: objectID)
        try settle.bind(3, placement.zone)
        try settle.run()
      }
    }
  }

  /// That an object has a record in a zone now.
  func notePlacement(of objectID: String, in zone: StoredZone) throws { try putPlacement(.insertPlacement, of: objectID, in: zone) }

  private func putPlacement(_ query: Query, of objectID: String, in zone: StoredZone) throws {
    let put = try writing(query)
    try put.bind(1, zone.databaseKey)
    try put.bind(2, recordName: objectID)
    try put.bind(3, zone.key)
    try put.run()
    guard var database = try database(key: zone.databaseKey), !database.hasPlacements, let cached = cache.databases[database.key] else { return }
    database.hasPlacements = true
    let note = try writing(.notePlacements)
    try note.bind(1, database.key)
    try note.run()
    cache.databases.set(CachedRow(row: database, isDirty: cached.isDirty), for: database.key)
  }

  /// A zone that is made again under another key has the objects of the one that ended.
  func movePlacements(from zone: Int64, to successor: Int64) throws {
    let move = try writing(.movePlacements)
    try move.bind(1, zone)
    try move.bind(2, successor)
    try move.run()
  }

  func dropPlacements(of database: Int64) throws {
    let drop = try writing(.dropPlacements)
    try drop.bind(1, database)
    try drop.run()
  }
}
