// The uses of assets, counted in the commit that begins or ends them, and the asset files that follow the counts.

import Assets
import Crypto
import Records
import SQLite
import Synchronization

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
      if let isThere = try assets.canAdopt(asset, into: shard) { return isThere }
    } catch {
      throw StoreError(error)
    }
    contents.lack(asset)
    return true
  }

  /// The calls to make before the body runs again; nil when nothing was lacking.
  var preparation: AssetCalls? {
    guard let assets, contents.areUnprepared else { return nil }
    return AssetCalls("shard \(shard): contents for a commit") { [shard, contents] () throws(AssetError) in
      try assets.prepare(contents.assets, for: shard)
    }
  }

  private func use(_ asset: Asset) throws {
    guard asset.hash.count == SHA256.byteCount, asset.byteCount >= 0 else {
      throw ContradictingWrite("an asset's hash has \(asset.hash.count) bytes")
    }
    let known = try self.asset(withHash: asset.hash)
    if let known, known.useCount > 0 {
      let update = try writing(AssetQuery.use)
      try update.bind(1, asset.hash)
      try update.run()
    } else {
      // The content of an unused asset may be gone: a collection that fails after removing contents leaves their rows.
      try adopt(asset, isKnown: known != nil)
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

  /// - Parameter isKnown: whether an unused row has the asset, so that an owner before may have begun to remove it.
  private func adopt(_ asset: Asset, isKnown: Bool) throws {
    guard let assets else { return }
    if isKnown, let ownedSince, ContinuousClock.now - ownedSince < assets.removalTime {
      throw StoreError.unavailable(
        "shard \(shard): an asset was unused when its worker changed; it can be used after \(assets.removalTime)")
    }
    let adoption: Adoption
    do throws(AssetError) {
      adoption = try assets.adopt(asset, into: shard)
    } catch {
      throw StoreError(error)
    }
    switch adoption {
    case .done(let place):
      unsyncedFolders.insert(place)
      contents.assets.insert(asset)
      counters.contentKey = assets.keys.newest
    case .missing: throw MissingAsset(asset)
    case .unprepared: contents.lack(asset)
    }
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

  /// See `ShardStore`. Contents are removed before their rows. After a crash in between, the rows make the collection
  /// run again, and a new use of the asset adopts the content again.
  func collectAssets(orphanedBefore cutoff: Int64, limit: Int, by removal: ContentRemoval) throws -> Int {
    try write {
      let select = try statement(AssetQuery.orphaned)
      try select.bind(1, cutoff)
      try select.bind(2, max(limit, 0))
      let hashes = try remove(try select.all { $0.blob(0) }, by: removal)
      for hash in hashes {
        let delete = try writing(AssetQuery.delete)
        try delete.bind(1, hash)
        try delete.run()
      }
      return hashes.count
    }
  }

  /// Removes those of the contents that have no row. What a later commit adopts has one by then. Where a removal may be
  /// carried out late, they get rows of assets that are unused from now on: the next owner has to know of it, and a
  /// backup that is restored later may need them.
  func removeUnknown(_ hashes: [[UInt8]]) throws -> Int {
    let unknown = try hashes.filter { try asset(withHash: $0) == nil }
    guard let assets, assets.removalTime > .zero else { return try remove(unknown, by: ContentRemoval()).count }
    for hash in unknown {
      let insert = try writing(AssetQuery.insertUnused)
      try insert.bind(1, hash)
      try insert.bind(2, now())
      try insert.run()
    }
    return unknown.count
  }

  /// Removes contents here, or asks for their removal on another thread.
  /// - Returns: the contents that are gone.
  private func remove(_ hashes: [[UInt8]], by removal: ContentRemoval) throws -> [[UInt8]] {
    if let done = removal.done { return hashes.filter(done.contains) }
    guard let assets, !hashes.isEmpty else { return hashes }
    // The calls follow the group's commit. It shows that nobody else has had the shard before this time.
    if let time = assets.announceRemoval(of: hashes, from: shard) {
      throw AssetCalls("shard \(shard): a removal", holdsShard: true) { [shard] () throws(AssetError) in
        try assets.remove(hashes, from: shard, announcedAt: time)
        removal.end(hashes)
      }
    }
    do throws(AssetError) {
      try assets.remove(hashes, from: shard, announcedAt: nil)
    } catch {
      throw StoreError(error)
    }
    return hashes
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

/// The contents that a body adopts. With one that only the store of assets can tell of, the body goes on as if it were
/// there, so that all are known at its end.
struct BodyContents {
  /// Those that were there, too: the next run needs them again.
  var assets: Set<Asset> = []
  private(set) var areUnprepared = false

  mutating func lack(_ asset: Asset) {
    assets.insert(asset)
    areUnprepared = true
  }
}

/// The contents that a body has had removed, for its next run.
final class ContentRemoval: Sendable {
  private let hashes = Mutex<Set<[UInt8]>?>(nil)

  /// nil before the removal.
  var done: Set<[UInt8]>? { hashes.withLock(\.self) }

  func end(_ removed: [[UInt8]]) { hashes.withLock { $0 = Set(removed) } }
}
