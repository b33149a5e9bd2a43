// The uses of assets, counted in the commit that begins or ends them, and the asset files that follow the counts.

import Assets
import Crypto
import Records
import SQLite

/// A folder with new links could not be synced. The kernel reports this only once, so no further commit may be
/// acknowledged.
struct UnsyncedFolder: Error {
  let reason: AssetError
}

extension SQLiteTransaction {
  // MARK: Counts

  /// Counts the uses of a record's new state in place of those of its earlier state.
  func use(_ assets: [Asset], insteadOf earlier: [Asset]) throws {
    // Adds uses first, so that an asset of both states never looks unused.
    for asset in assets { try use(asset) }
    for asset in earlier { try release(asset.hash) }
  }

  func hasContent(of asset: Asset) throws -> Bool {
    if let known = try self.asset(withHash: asset.hash), known.useCount > 0 { return true }
    guard let assets else { return true }
    do throws(AssetError) {
      return try assets.canAdopt(asset, into: shard)
    } catch {
      throw StoreError(error)
    }
  }

  private func use(_ asset: Asset) throws {
    guard asset.hash.count == SHA256.byteCount, asset.byteCount >= 0 else {
      throw ContradictingWrite("an asset's hash has \(asset.hash.count) bytes")
    }
    let known = try self.asset(withHash: asset.hash)
    // The file of an unused asset may be gone already: a collection that fails after removing files leaves their rows.
    if known?.useCount ?? 0 == 0 { try adopt(asset) }
    if known != nil {
      let update = try writing(AssetQuery.use)
      try update.bind(1, asset.hash)
      try update.run()
    } else {
      let insert = try writing(AssetQuery.insert)
      try insert.bind(1, asset.hash)
      try insert.bind(2, asset.byteCount)
      try insert.run()
    }
  }

  func release(_ hash: [UInt8]) throws {
    let update = try writing(AssetQuery.release)
    try update.bind(1, hash)
    try update.bind(2, now())
    try update.run()
  }

  private func adopt(_ asset: Asset) throws {
    guard let assets else { return }
    let folder: String?
    do throws(AssetError) {
      folder = try assets.adopt(asset, into: shard)
    } catch {
      throw StoreError(error)
    }
    guard let folder else { throw MissingAsset(asset) }
    unsyncedFolders.insert(folder)
  }

  /// Makes new links durable before the commit that relies on them.
  func syncFolders() throws {
    defer { unsyncedFolders = [] }
    for folder in unsyncedFolders.sorted() {
      do throws(AssetError) {
        try assets?.sync(folder)
      } catch {
        throw UnsyncedFolder(reason: error)
      }
    }
  }

  // MARK: History

  /// Counts the assets of an appended transaction, or (`row` < 0) of a held back object or conflict.
  func keep(_ assets: Set<Asset>, forTransaction row: Int64) throws {
    for asset in assets.sorted(by: { $0.hash.lexicographicallyPrecedes($1.hash) }) {
      try use(asset)
      let insert = try writing(AssetQuery.insertHistoryAsset)
      try insert.bind(1, row)
      try insert.bind(2, asset.hash)
      try insert.run()
    }
  }

  /// Ends the uses of removed transactions.
  func letGo(ofTransactionsAfter first: Int64, through last: Int64) throws {
    let select = try statement(AssetQuery.historyAssets)
    try select.bind(1, first)
    try select.bind(2, last)
    let hashes = try select.all { $0.blob(0) }
    if hashes.isEmpty { return }
    for hash in hashes { try release(hash) }
    let delete = try writing(AssetQuery.deleteHistoryAssets)
    try delete.bind(1, first)
    try delete.bind(2, last)
    try delete.run()
  }

  // MARK: Removing files; in commits of their own

  /// See `ShardStore`. Files are removed before their rows. After a crash in between, the rows make the collection run
  /// again, and a new use of the asset links the file again.
  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) throws -> Int {
    try write {
      let select = try statement(AssetQuery.orphaned)
      try select.bind(1, cutoff)
      try select.bind(2, max(limit, 0))
      let hashes = try select.all { $0.blob(0) }
      if hashes.isEmpty { return 0 }
      do throws(AssetError) {
        try assets?.remove(hashes, from: shard)
      } catch {
        throw StoreError(error)
      }
      for hash in hashes {
        let delete = try writing(AssetQuery.delete)
        try delete.bind(1, hash)
        try delete.run()
      }
      return hashes.count
    }
  }

  /// Removes those of the contents that have no row. What a later commit adopts has one by then.
  func removeUnknown(_ hashes: [[UInt8]]) throws -> Int {
    let unknown = try hashes.filter { try asset(withHash: $0) == nil }
    do throws(AssetError) {
      if !unknown.isEmpty { try assets?.remove(unknown, from: shard) }
    } catch {
      throw StoreError(error)
    }
    return unknown.count
  }

  // MARK: What databases hold

  func setByteCount(of database: StoredDatabase, to byteCount: Int64) {
    if database.byteCount == byteCount { return }
    var row = database
    row.byteCount = byteCount
    cache.databases.set(CachedRow(row: row, isDirty: true), for: row.key)
    cache.dirtyDatabases.append(row.key)
  }
}
