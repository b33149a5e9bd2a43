// Writes of databases and zones, and of the rows that the writer caches.

import Records
import SQLite

extension SQLiteTransaction {
  func makeDatabase(_ id: DatabaseID) throws -> StoredDatabase {
    try write {
      if let database = try database(id) { return database }
      let first = try meta(.firstNumber)
      let database = StoredDatabase(key: nextKey(), id: id, incarnation: nextIncarnation(), beginningAt: first)
      let insert = try writing(DatabaseQuery.make)
      try insert.bind(1, database.key)
      try insert.bind(2, id.container.rawValue)
      try insert.bind(3, id.environment.rawValue)
      try insert.bind(4, id.owner)
      try insert.bind(5, Int64(bitPattern: database.incarnation))
      try insert.bind(6, database.sequence)
      try insert.run()
      cache.databases.set(CachedRow(row: database, isDirty: false), for: database.key)
      cache.databaseKeys.set(database.key, for: id)
      return database
    }
  }

  func renew(_ database: Int64, generation: Int64) throws {
    try write {
      guard var row = try self.database(key: database), let cached = cache.databases[database] else {
        throw ContradictingWrite("no database \(database)")
      }
      row.incarnation = nextIncarnation()
      row.generation = generation
      row.placementState = .untracked
      try dropPlacements(of: database)
      let update = try writing(DatabaseQuery.renew)
      try update.bind(1, database)
      try update.bind(2, Int64(bitPattern: row.incarnation))
      try update.bind(3, generation)
      try update.run()
      cache.databases.set(CachedRow(row: row, isDirty: cached.isDirty), for: database)
    }
  }

  func nextSequence(in database: Int64) throws -> Int64 {
    try write {
      guard let row = try self.database(key: database) else { throw ContradictingWrite("no database \(database)") }
      var next = row
      next.sequence += 1
      setDatabase(next)
      if session.queuesWrites { freshSequences.insert(GivenSequence(database: database, sequence: next.sequence)) }
      return next.sequence
    }
  }

  /// - Returns: true when the group gave the sequence out and no record has it yet.
  func spendSequence(_ sequence: Int64, of database: Int64) -> Bool {
    !freshSequences.isEmpty && freshSequences.remove(GivenSequence(database: database, sequence: sequence)) != nil
  }

  func setDatabase(_ row: StoredDatabase) {
    cache.databases.set(CachedRow(row: row, isDirty: true), for: row.key)
    cache.dirtyDatabases.append(row.key)
  }

  func makeZone(named zoneName: String, in database: Int64) throws -> StoredZone {
    try write {
      let name = WriterCache.Name(parent: database, name: zoneName)
      let earlier = try zoneRow(named: zoneName, in: database)?.zone
      if let earlier {
        if !earlier.isDeleted { return earlier }
        // The zone gets another key, because rows under the earlier key may not be removed yet.
        let remove = try writing(ZoneQuery.remove)
        try remove.bind(1, earlier.key)
        try remove.run()
        cache.zones.set(nil, for: earlier.key)
        cache.zoneKeys.set(nil, for: name)
      }
      let zone = StoredZone(
        key: nextKey(), databaseKey: database, zoneName: zoneName, incarnation: nextIncarnation(),
        sequence: try nextSequence(in: database),
        isDeleted: false, end: earlier?.end ?? .deleted, endSequence: earlier?.endSequence ?? 0)
      let insert = try writing(ZoneQuery.make)
      try insert.bind(1, zone.key)
      try insert.bind(2, database)
      try insert.bind(3, zoneName)
      try insert.bind(4, Int64(bitPattern: zone.incarnation))
      try insert.bind(5, zone.sequence)
      try insert.bind(6, false)
      try insert.bind(7, 0)
      try insert.bind(8, zone.end.rawValue)
      try insert.bind(9, zone.endSequence)
      try forgetFetchedZone(zoneName, in: database)
      try insert.run()
      cache.zones.set(
        CachedRow(row: ZoneRow(zone: zone, liveCount: 0, byteCount: 0, horizon: zone.sequence), isDirty: false),
        for: zone.key)
      cache.zoneKeys.set(zone.key, for: name)
      if let earlier { try movePlacements(from: earlier.key, to: zone.key, in: database) }
      return zone
    }
  }

  func deleteZone(_ zone: Int64, as end: ZoneEnd) throws {
    try write {
      guard let found = try zoneRow(key: zone) else { throw ContradictingWrite("no zone \(zone)") }
      let row = found.zone
      if row.isDeleted { return }
      // The records are removed later, a slice a commit, so that a large zone does not hold up other saves.
      let doom = try writing(SweepQuery.doom)
      try doom.bind(1, zone)
      try doom.run()
      doomed?.insert(zone)
      seen.removeAll()
      let deleted = row.ended(as: end, at: try nextSequence(in: row.databaseKey))
      // The uses of its records' assets end when the records are removed. Their bytes are subtracted at once.
      if let database = try database(key: row.databaseKey) {
        setByteCount(of: database, to: database.byteCount - found.byteCount)
      }
      setZone(ZoneRow(zone: deleted, liveCount: 0, byteCount: 0, horizon: deleted.sequence))
      try endMembers(of: deleted)
    }
  }

  func setZone(_ row: ZoneRow) {
    cache.zones.set(CachedRow(row: row, isDirty: true), for: row.zone.key)
    cache.dirtyZones.append(row.zone.key)
  }

  // MARK: Cached rows

  func flushCachedRows() throws {
    for key in cache.dirtyDatabases {
      guard let cached = cache.databases[key], cached.isDirty else { continue }
      let update = try writing(DatabaseQuery.update)
      try update.bind(1, key)
      try update.bind(2, cached.row.sequence)
      try update.bind(3, cached.row.byteCount)
      try update.bind(4, cached.row.lastEventNumber)
      try update.bind(5, cached.row.lastConflictNumber)
      try update.run()
      cache.databases.set(CachedRow(row: cached.row, isDirty: false), for: key)
    }
    for key in cache.dirtyZones {
      guard let cached = cache.zones[key], cached.isDirty else { continue }
      let zone = cached.row.zone
      let update = try writing(zone.isDeleted ? ZoneQuery.end : .update)
      try update.bind(1, key)
      try update.bind(2, zone.sequence)
      try update.bind(3, cached.row.liveCount)
      try update.bind(4, cached.row.byteCount)
      try update.bind(5, cached.row.horizon)
      if zone.isDeleted {
        try update.bind(6, zone.end.rawValue)
        try update.bind(7, zone.endSequence)
      }
      try update.run()
      cache.zones.set(CachedRow(row: cached.row, isDirty: false), for: key)
    }
    for key in cache.dirtyMirrors {
      guard let cached = cache.mirrors[key], cached.isDirty else { continue }
      try storeMirror(cached.row)
      cache.mirrors.set(CachedRow(row: cached.row, isDirty: false), for: key)
    }
  }

  func setMeta(_ key: MetaKey, _ value: Int64) throws {
    let statement = try writing(ShardQuery.setMeta)
    try statement.bind(1, key.rawValue)
    try statement.bind(2, value)
    try statement.run()
  }

  func meta(_ key: MetaKey) throws -> Int64 {
    let statement = try statement(ShardQuery.meta)
    try statement.bind(1, key.rawValue)
    return try statement.first { $0.int64(0) } ?? 0
  }

  // MARK: Sweeping

  /// Removes up to `limit` rows of each table that holds rows of a deleted zone. Once none are left, the zone is
  /// released.
  /// - Returns: the number of records removed.
  func sweep(limit: Int) throws -> Int {
    guard let zone = doomed?.min() else { return 0 }
    let records = try sweepRecords(of: zone, limit)
    let past = try sweepPast(of: zone, limit)
    let references = try sweep(.references, zone, limit)
    let shortGUIDs = try sweep(.shortGUIDs, zone, limit)
    let entries = try sweep(.entries, zone, limit)
    let redirects = try sweep(.redirects, zone, limit)
    let sharing = try [.shares, .invitations, .departures].map { try sweep($0, zone, limit) }
    if ([records, past, references, shortGUIDs, entries, redirects] + sharing).allSatisfy({ $0 < limit }) {
      let release = try writing(SweepQuery.release)
      try release.bind(1, zone)
      try release.run()
      doomed?.remove(zone)
    }
    return records
  }

  private func sweepRecords(of zone: Int64, _ limit: Int) throws -> Int {
    let delete = try writing(SweepQuery.records)
    try delete.bind(1, zone)
    try delete.bind(2, limit)
    let assets = try delete.all { row in row.bool(0) ? [] : row.withBytes(1) { session.assets(inBlob: $0) } }
    try use([], insteadOf: assets.flatMap(\.self))
    return assets.count
  }

  private func sweep(_ query: SweepQuery, _ zone: Int64, _ limit: Int) throws -> Int {
    let delete = try writing(query)
    try delete.bind(1, zone)
    try delete.bind(2, limit)
    return try delete.runCounting()
  }
}
