// Divides a shard in its tables, and removes what a division has left of databases that another shard has.

import PostgreSQL
import Records

extension StoreError {
  static func dividing(_ shard: Int, into other: Int) -> StoreError {
    .io("the division of shard \(shard) waits for its last step: shard \(other) can't be opened yet")
  }
}

extension SQLiteTransaction {
  /// Leaves the shard a half of its databases. Ends all writing with the commit: the next group finds another epoch,
  /// and the next owner the part.
  /// - Parameters:
  ///   - part: the half that stays.
  ///   - split: the number of the division, which the new shard has until it may be opened.
  ///   - shard: the new shard.
  ///   - cluster: of the new shard.
  /// - Throws: `StoreError.io` while an earlier division waits for its last step: its note is all that leads to that
  ///   new shard.
  func narrow(to part: ShardPart, by split: Int64, for shard: Int, in cluster: String? = nil) throws {
    if try meta(.split) != 0 { throw StoreError.dividing(self.shard, into: Int(try meta(.splitShard))) }
    for (key, value) in [(MetaKey.cut, 1), (.split, split), (.splitShard, Int64(shard))] { try setMeta(key, value) }
    if let cluster { try setMeta(.splitCluster, try symbol(cluster)) }
    switch session.connection {
    case .sqlite:
      try setMeta(.shardCount, part.modulus)
      try setMeta(.epoch, try meta(.epoch) + 1)
    case .postgreSQL(let session):
      try session.queue(TenureQuery.narrow.command, [.integer(part.modulus)])
      _ = try session.rows(TenureQuery.raise.command)
    }
  }

  /// Forgets the number of a division, once the new shard may be opened. The removal of its rows begins then.
  func forgetSplit() throws {
    try write { for key in [MetaKey.split, .splitShard, .splitCluster] { try forgetMeta(key) } }
    endsSplit = true
  }

  private func forgetMeta(_ key: MetaKey) throws {
    let forget = try writing(CutQuery.mark)
    try forget.bind(1, key.rawValue)
    try forget.run()
  }

  /// The rows of one kind that a commit removes.
  private static let rowLimit = 500
  /// The held-back changes that a commit removes.
  private static let heldLimit = 100

  /// Removes a part of a database that another shard has. Its records go like those of deleted zones, in later slices.
  /// - Parameter limit: of zones.
  /// - Returns: the number of rows that were removed, without those of placements.
  func removeOthers(limit: Int) throws -> Int {
    guard let key = session.extent.nextOther else {
      try forgetMeta(.cut)
      session.extent.endCut()
      return 0
    }
    guard let row = try database(key: key) else {
      session.extent.forget(key)
      return 0
    }
    let mirrors = try statement(CutQuery.mirror)
    try mirrors.bind(1, key)
    if let mirror = try mirrors.first({ $0.int64(0) }) { return try removePart(ofMirror: mirror) }
    let conflicts = try deleteConflicts(of: key, limit: Self.rowLimit)
    if conflicts > 0 { return conflicts }
    let forgotten = try forgetFormerMirrors(of: key, limit: Self.rowLimit)
    if forgotten > 0 { return forgotten }
    if row.placementState != .untracked {
      // Before the zones, to which the placements point.
      try dropPlacements(of: key)
      try set(.untracked, of: key)
      return 0
    }
    let count = try doomZones(of: key, limit)
    if count < limit { try removeDatabase(row) }
    return count
  }

  /// Removes a part of a store. Its transactions are not settled, and no former store is noted: the other shard has
  /// them.
  private func removePart(ofMirror key: Int64) throws -> Int {
    guard let row = try mirror(key: key) else { throw ContradictingWrite("no mirror \(key)") }
    let removed = try removeHistory(of: row)
    if removed > 0 { return removed }
    let held = try quarantined(of: key, afterKey: 0, limit: Self.heldLimit)
    for object in held { try removeQuarantined(object.name, of: key) }
    if !held.isEmpty { return held.count }
    let forgotten = try forgetTransactions(of: key, appendedBefore: .max, limit: Self.rowLimit)
    if forgotten > 0 { return forgotten }
    try removeMirror(row)
    return 1
  }

  private func removeHistory(of row: StoredMirror) throws -> Int {
    let (first, end) = (HistoryRowID.of(row.key, 0), HistoryRowID.of(row.key, row.lastTransactionNumber))
    let select = try statement(CutQuery.history)
    try select.bind(1, first)
    try select.bind(2, end)
    try select.bind(3, Self.rowLimit)
    guard let last = try select.first({ $0.optionalInt64(0) }) ?? nil else { return 0 }
    return try removeTransactions(of: row.key, after: first, through: last)
  }

  private func doomZones(of database: Int64, _ limit: Int) throws -> Int {
    let select = try statement(CutQuery.zones)
    try select.bind(1, database)
    try select.bind(2, limit)
    let zones = try select.all { (key: $0.int64(0), name: $0.text(1)) }
    for zone in zones {
      if doomed?.contains(zone.key) != true {
        try deleteRows(SweepQuery.doom, of: zone.key)
        doomed?.insert(zone.key)
      }
      try deleteRows(ZoneQuery.remove, of: zone.key)
      cache.zones.set(nil, for: zone.key)
      cache.zoneKeys.set(nil, for: WriterCache.Name(parent: database, name: zone.name))
    }
    seen.removeAll()
    return zones.count
  }

  private func removeDatabase(_ row: StoredDatabase) throws {
    try deleteRows(ConflictQuery.deleteUses, of: row.key)
    for query in [CutQuery.news, .members, .subscriptions, .indexes, .database] {
      try deleteRows(query, of: row.key)
    }
    indexes = ShardIndexes(try statement(IndexQuery.all).all(indexRow))
    redirectedDatabases.remove(row.key)
    cache.databases.set(nil, for: row.key)
    cache.databaseKeys.set(nil, for: row.id)
  }
}
