// Tracks, in a shard's file, which objects are in zones other than the default ones.

import Records
import SQLite

extension SQLiteSnapshot {
  func placements(of objectID: String, in database: Int64) throws -> [StoredPlacement] {
    let select = try statement(PlacementQuery.ofObject)
    try select.bind(1, database)
    try select.bind(2, recordName: objectID)
    return try select.all { StoredPlacement(zone: $0.int64(0), isAssigned: $0.bool(1)) }
  }
}

extension SQLiteTransaction {
  func place(_ objectID: String, in zone: Int64) throws {
    try write {
      guard let row = try self.zone(key: zone), !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      if try database(key: row.databaseKey)?.placementState == .untracked { try trackPlacements(of: row.databaseKey) }
      let unassign = try writing(PlacementQuery.unassign)
      try unassign.bind(1, row.databaseKey)
      try unassign.bind(2, recordName: objectID)
      try unassign.run()
      try putPlacement(.assign, of: objectID, in: row)
    }
  }

  func settlePlacement(of objectID: String, in database: Int64) throws {
    try write {
      for placement in try placements(of: objectID, in: database) where placement.isAssigned {
        let isNeeded =
          try zone(key: placement.zone).map { !$0.isLookedInFirst } == true
          && record(named: objectID, in: placement.zone) != nil
        let settle = try writing(isNeeded ? PlacementQuery.settle : .remove)
        try settle.bind(1, database)
        try settle.bind(2, recordName: objectID)
        try settle.bind(3, placement.zone)
        try settle.run()
      }
    }
  }

  /// Notes that a zone has a record of the object.
  func notePlacement(of objectID: String, in zone: StoredZone) throws {
    try putPlacement(.insert, of: objectID, in: zone)
  }

  private func putPlacement(_ query: PlacementQuery, of objectID: String, in zone: StoredZone) throws {
    try write(query, objectID, database: zone.databaseKey, zone: zone.key)
    if try database(key: zone.databaseKey)?.placementState == .empty { try set(.noted, of: zone.databaseKey) }
  }

  private func write(_ query: PlacementQuery, _ objectID: String, database: Int64, zone: Int64) throws {
    let put = try writing(query)
    try put.bind(1, database)
    try put.bind(2, recordName: objectID)
    try put.bind(3, zone)
    try put.run()
  }

  func set(_ state: PlacementState, of database: Int64) throws {
    guard var row = try self.database(key: database), let cached = cache.databases[database] else { return }
    row.placementState = state
    let update = try writing(PlacementQuery.setState)
    try update.bind(1, database)
    try update.bind(2, state.rawValue)
    try update.run()
    cache.databases.set(CachedRow(row: row, isDirty: cached.isDirty), for: database)
  }

  /// Moves the placements of an ended zone to its successor, which is made under another key.
  func movePlacements(from zone: Int64, to successor: Int64, in database: Int64) throws {
    let move = try writing(PlacementQuery.move)
    try move.bind(1, zone)
    try move.bind(2, successor)
    try move.run()
    guard fillingDatabases.contains(database) else { return }
    let retarget = try writing(PlacementQuery.moveUnplaced)
    try retarget.bind(1, database)
    try retarget.bind(2, zone)
    try retarget.bind(3, successor)
    try retarget.run()
  }

  func dropPlacements(of database: Int64) throws {
    for query in [PlacementQuery.drop, .dropUnplaced] {
      let drop = try writing(query)
      try drop.bind(1, database)
      try drop.run()
    }
    fillingDatabases.remove(database)
  }

  // MARK: Filling in

  /// Begins to note where objects are, for the database's first store. Existing objects are noted after this commit,
  /// step by step.
  func trackPlacements(of database: Int64) throws {
    try flushCachedRows()
    let make = try writing(PlacementQuery.makeUnplaced)
    try make.bind(1, database)
    let isFilling = try make.runCounting() > 0
    try set(isFilling ? .filling : .empty, of: database)
    if isFilling { fillingDatabases.insert(database) }
  }

  /// A zone with records that are not noted yet. If it has ended and been made again, `target` is the successor; its
  /// rows are not swept before they are noted.
  private struct Unplaced {
    let zone: Int64
    let target: Int64
    /// The last name that is noted; nil for none.
    var after: String?
  }

  /// Notes the objects of a step of the first database that is being filled.
  /// - Parameter budget: the limits of the step, reduced by its work.
  /// - Returns: the number of objects noted.
  func fillPlacements(_ budget: inout IndexBudget) throws -> Int {
    guard let database = fillingDatabases.min() else { return 0 }
    var count = 0
    while let next = try nextUnplaced(in: database) {
      if budget.isSpent { return count }
      // Even a zone without objects costs a little.
      budget.nameCount -= 1
      count += try fill(next, in: database, &budget)
    }
    let any = try statement(PlacementQuery.anyInDatabase)
    try any.bind(1, database)
    try set(try any.first { _ in true } == true ? .noted : .empty, of: database)
    fillingDatabases.remove(database)
    return count
  }

  private func nextUnplaced(in database: Int64) throws -> Unplaced? {
    let select = try statement(PlacementQuery.nextUnplaced)
    try select.bind(1, database)
    return try select.first { Unplaced(zone: $0.int64(0), target: $0.int64(1), after: $0.recordName(2)) }
  }

  private func fill(_ unplaced: Unplaced, in database: Int64, _ budget: inout IndexBudget) throws -> Int {
    let select = try statement(StoredRecordQuery.names)
    try select.bind(1, unplaced.zone)
    try select.bind(2, afterRecordName: unplaced.after)
    try select.bind(3, budget.nameCount)
    defer { select.reset() }
    var (count, last) = (0, unplaced.after)
    while !budget.isSpent {
      guard try select.step() else {
        let remove = try writing(PlacementQuery.removeUnplaced)
        try remove.bind(1, database)
        try remove.bind(2, unplaced.zone)
        try remove.run()
        return count
      }
      budget.nameCount -= 1
      guard let name = select.recordName(1) else {
        passOver(select.int64(0), "shard \(shard): a record's name has neither form")
        continue
      }
      last = name
      guard try isObject(select) else { continue }
      budget.recordCount -= 1
      count += 1
      try write(.fill, name, database: database, zone: unplaced.target)
    }
    let update = try writing(PlacementQuery.updateUnplaced)
    try update.bind(1, database)
    try update.bind(2, unplaced.zone)
    try update.bind(3, optionalRecordName: last)
    try update.run()
    return count
  }

  /// True when a row of `StoredRecordQuery.names` is an object's. Skips a damaged row, so that it does not hold up the
  /// others.
  private func isObject(_ row: StoreStatement) throws -> Bool {
    do {
      return try session.symbol(row.int64(2)).hasPrefix(ReservedName.recordTypePrefix)
    } catch StoreError.corrupt(let reason) {
      passOver(row.int64(0), reason)
      return false
    }
  }
}
