// Shards in files, as a place that they move from and to.

import Assets
import Crypto
import SQLite

extension SQLiteConfiguration: MigrationPlace {
  var name: String { directory }

  func shards() throws(StoreError) -> [Int] {
    do throws(AssetError) {
      return try Folder.names(in: directory).compactMap { name in
        guard name.hasPrefix("shard-"), name.hasSuffix(".sqlite") else { return nil }
        return Int(name.dropFirst("shard-".count).dropLast(".sqlite".count))
      }.sorted()
    } catch {
      throw StoreError(error)
    }
  }

  func standing(ofShard shard: Int) throws -> ShardStanding? {
    guard Folder.byteCount(of: path(ofShard: shard)) ?? 0 > 0 else { return nil }
    let lock = try lock(shard)
    defer { lock.release() }
    return try standing(locked: shard)
  }

  func store(shardCount: Int, report: @escaping @Sendable (_ problem: String) -> Void) throws(StoreError)
    -> any RecordStore
  {
    try SQLiteRecordStore(self, shardCount: shardCount, report: report)
  }

  func receive(_ moving: MovingShard, fill: (StoreConnection) throws -> Void) throws {
    do {
      try Folder.make(directory)
      let lock = try lock(moving.shard)
      defer { lock.release() }
      if Folder.byteCount(of: path(ofShard: moving.shard)) ?? 0 > 0,
        try standing(locked: moving.shard).move == nil
      {
        throw StoreError.io("shard \(moving.shard) has just been made in \(directory): stop its workers")
      }
      var draft = self
      draft.directory += "/arriving-\(moving.shard)"
      // The second is that of earlier releases, one for all shards.
      for path in [draft.directory, directory + "/arriving"] { try BackupFile.removeTree(path) }
      try Folder.make(draft.directory)
      try draft.make(moving, fill)
      let (made, target) = (draft.path(ofShard: moving.shard), path(ofShard: moving.shard))
      // SQLite would recover a leftover log over the new file, so the logs go while no file is there.
      for path in [target, target + "-wal", target + "-journal"] { try Folder.remove(path) }
      try BackupFile.move(made, to: target)
      try BackupFile.removeTree(draft.directory)
    } catch let error as AssetError {
      throw StoreError(error)
    } catch {
      throw StoreError(migrating: moving.shard, error)
    }
  }

  /// Makes the file of a shard, durably, where none is. Nobody else may use the folder.
  /// - Parameter fill: writes its rows.
  func make(_ moving: MovingShard, _ fill: (StoreConnection) throws -> Void) throws {
    var file = ShardFile(self, shard: moving.shard, shardCount: moving.standing.shardCount)
    file.remainder = moving.counters.first { $0.key == .remainder }?.value
    let connection = try file.takeOver().connection
    defer { connection.close() }
    try connection.transaction {
      try fill(.sqlite(connection))
      if let installation = moving.standing.installation {
        try ShardFile.setMeta(.installation, installation, connection)
      }
      try ShardFile.setMeta(.epoch, moving.standing.epoch, connection)
      for (key, value) in moving.counters { try ShardFile.setMeta(key, value, connection) }
      for key in moving.contentKeys {
        try connection.statement(ShardQuery.setMeta).binding(ContentKey.name(of: key), Int64(1)).run()
      }
      if let move = moving.standing.move { try ShardFile.setMeta(.move, move, connection) }
      try connection.statement(SQL("forgetConflictKey", "DELETE FROM sqlite_sequence WHERE name = 'journal'")).run()
      try connection.statement(SQL("conflictKey", "INSERT INTO sqlite_sequence(name, seq) VALUES ('journal', ?1)"))
        .binding(moving.lastConflict).run()
    }
    try connection.checkpoint(.truncate)
  }

  func read<Value>(shard: Int, _ body: (StoreConnection) throws -> Value) throws -> Value {
    let connection = try Connection(exclusive: path(ofShard: shard), mode: .readWrite)
    defer { connection.close() }
    try connection.beginReadTransaction()
    let value = try body(.sqlite(connection))
    try connection.commit()
    return value
  }

  func admit(shard: Int, move: Int64) throws {
    let lock = try lock(shard)
    defer { lock.release() }
    do {
      let connection = try Connection(exclusive: path(ofShard: shard), mode: .readWrite)
      defer { connection.close() }
      try connection.execute("PRAGMA synchronous=FULL")
      try connection.transaction {
        try connection.statement(SQL("admit", "DELETE FROM meta WHERE key = ?1 AND value = ?2"))
          .binding(MetaKey.move.rawValue, move).run()
      }
    } catch {
      throw StoreError(migrating: shard, error)
    }
  }

  // MARK: Pieces

  private func lock(_ shard: Int) throws(StoreError) -> ShardLock {
    let path = lockPath(ofShard: shard)
    if let lock = try ShardLock.take(path) { return lock }
    throw .held(shard: shard, by: ShardLock.holder(of: path).map { "process \($0)" } ?? "another process")
  }

  private func standing(locked shard: Int) throws -> ShardStanding {
    do {
      let connection = try Connection(exclusive: path(ofShard: shard), mode: .readWrite)
      defer { connection.close() }
      func meta(_ key: MetaKey) throws -> Int64? { try ShardFile.meta(key, connection) }
      guard let number = try meta(.shard), number == Int64(shard), let count = try meta(.shardCount) else {
        throw StoreError.corrupt("\(path(ofShard: shard)) is not the file of shard \(shard)")
      }
      let installation = try connection.statement(ShardQuery.meta).binding(MetaKey.installation.rawValue)
        .first { $0.text(0) }
      return ShardStanding(
        shardCount: Int(count), epoch: try meta(.epoch) ?? 0, installation: installation, move: try meta(.move))
    } catch {
      throw StoreError(migrating: shard, error)
    }
  }
}
