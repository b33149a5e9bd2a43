// Subscriptions in a shard's file. Few databases have such rows, and no save reads them unless the database's row says
// that it has some.

import Records
import SQLite

extension SQLiteSnapshot {
  func subscription(_ identifier: String, of userRecordName: String, scope: DatabaseScope, in database: Int64) throws
    -> StoredSubscription?
  {
    guard mayHave(identifier) else { return nil }
    let select = try statement(SubscriptionQuery.byName)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    try select.bind(3, scope.rawValue)
    try select.bind(4, identifier)
    return try select.first { try Self.subscription($0, shard: shard) }
  }

  func subscriptions(of userRecordName: String, scope: DatabaseScope, in database: Int64, limit: Int) throws
    -> [StoredSubscription]
  {
    guard limit > 0 else { return [] }
    let select = try statement(SubscriptionQuery.ofUser)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    try select.bind(3, scope.rawValue)
    try select.bind(4, limit)
    return try select.all { try Self.subscription($0, shard: shard) }
  }

  func subscriptions(in database: Int64, afterKey key: Int64, limit: Int) throws -> [StoredSubscription] {
    guard limit > 0 else { return [] }
    let select = try statement(SubscriptionQuery.after)
    try select.bind(1, database)
    try select.bind(2, key)
    try select.bind(3, limit)
    return try select.all { try Self.subscription($0, shard: shard) }
  }

  func subscriptionCount(in database: Int64) throws -> Int {
    let select = try statement(SubscriptionQuery.count)
    try select.bind(1, database)
    return try select.first { $0.int(0) } ?? 0
  }

  /// - Throws: `StoreError.corrupt` for a damaged row.
  static func subscription(_ row: StoreStatement, shard: Int) throws -> StoredSubscription {
    let scope = DatabaseScope(rawValue: row.text(3))
    let stored = StoredSubscription(
      key: row.int64(0), databaseKey: row.int64(1), userRecordName: row.text(2), scope: scope ?? .private,
      identifier: row.text(4), payload: row.blob(6))
    guard scope != nil, row.int64(5) == stored.checksum else {
      throw StoreError.corrupt("shard \(shard): subscription \(stored.key) is damaged")
    }
    return stored
  }
}

extension SQLiteTransaction {
  func putSubscription(
    _ identifier: String, of userRecordName: String, scope: DatabaseScope, payload: [UInt8], in database: Int64
  ) throws -> StoredSubscription {
    try write {
      guard try self.database(key: database) != nil else { throw ContradictingWrite("no database \(database)") }
      if let earlier = try subscription(identifier, of: userRecordName, scope: scope, in: database) {
        try remove(earlier.key, in: database)
      }
      let stored = StoredSubscription(
        key: nextKey(), databaseKey: database, userRecordName: userRecordName, scope: scope, identifier: identifier,
        payload: payload)
      let insert = try writing(SubscriptionQuery.insert)
      try insert.bind(1, stored.key)
      try insert.bind(2, database)
      try insert.bind(3, userRecordName)
      try insert.bind(4, scope.rawValue)
      try insert.bind(5, identifier)
      try insert.bind(6, stored.checksum)
      try insert.bind(7, payload)
      try insert.run()
      try renewEdition(of: database)
      return stored
    }
  }

  func deleteSubscription(_ key: Int64, in database: Int64) throws {
    try write {
      if try remove(key, in: database) { try renewEdition(of: database) }
    }
  }

  @discardableResult private func remove(_ key: Int64, in database: Int64) throws -> Bool {
    let delete = try writing(SubscriptionQuery.delete)
    try delete.bind(1, key)
    try delete.bind(2, database)
    return try delete.runCounting() > 0
  }

  /// Written at once instead of with the cached counters, because it changes seldom and saves need not write it again.
  private func renewEdition(of database: Int64) throws {
    guard let row = try self.database(key: database), let cached = cache.databases[database] else { return }
    var next = row
    next.subscriptionEdition = nextIncarnation()
    let update = try writing(SubscriptionQuery.updateEdition)
    try update.bind(1, database)
    try update.bind(2, Int64(bitPattern: next.subscriptionEdition))
    try update.run()
    cache.databases.set(CachedRow(row: next, isDirty: cached.isDirty), for: database)
  }
}

extension StoredSubscription {
  /// CRC-32 over the content of the row. Each text has its length in front.
  fileprivate var checksum: Int64 {
    var sum = withUnsafeBytes(of: (key.littleEndian, databaseKey.littleEndian)) { Checksum.update(0, $0) }
    for text in [userRecordName, scope.rawValue, identifier] {
      sum = withUnsafeBytes(of: Int64(text.utf8.count).littleEndian) { Checksum.update(sum, $0) }
      var text = text
      sum = text.withUTF8 { Checksum.update(sum, UnsafeRawBufferPointer($0)) }
    }
    return Int64(payload.withUnsafeBytes { Checksum.update(sum, $0) })
  }
}
