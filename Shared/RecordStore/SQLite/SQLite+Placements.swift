// Which zones objects are in that are not in a default one, in a shard's file.

import Records
import SQLite

extension SQLiteSnapshot {
  func placements(of objectID: String, in database: Int64) throws -> [Int64] {
    let select = try statement(.placements)
    try select.bind(1, database)
    try select.bind(2, recordName: objectID)
    return try select.all { $0.int64(0) }.filter { try !isDoomed($0) }
  }
}

extension SQLiteTransaction {
  func place(_ objectID: String, in zone: Int64) throws {
    try write {
      guard let row = try self.zone(key: zone), !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      try notePlacement(of: objectID, in: row)
    }
  }

  func notePlacement(of objectID: String, in zone: StoredZone) throws {
    let insert = try writing(.insertPlacement)
    try insert.bind(1, zone.databaseKey)
    try insert.bind(2, recordName: objectID)
    try insert.bind(3, zone.key)
    try insert.run()
    guard var database = try database(key: zone.databaseKey), !database.hasPlacements, let cached = cache.databases[database.key] else { return }
    database.hasPlacements = true
    let note = try writing(.notePlacements)
    try note.bind(1, database.key)
    try note.run()
    cache.databases.set(CachedRow(row: database, isDirty: cached.isDirty), for: database.key)
  }
}
