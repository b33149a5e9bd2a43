// Copies a shard into a backup: its file as of one moment, the assets that it uses, and a list of both with their
// digests.

import Assets
import Crypto
import Records
import SQLite
import Synchronization

extension SQLiteShardStore {
  public func copy(to place: BackupPlace) async throws -> ShardCopy {
    let folder = place.folder
    core.copyCount.add(1, ordering: .sequentiallyConsistent)
    defer { core.copyCount.subtract(1, ordering: .sequentiallyConsistent) }
    do throws(AssetError) {
      try Folder.make(folder + "/shards")
    } catch {
      throw StoreError(error)
    }
    let path = folder + "/" + ShardCopy.fileName(shard)
    // Waits for queued removals of files. While `copyCount` is above 0, no used file is removed.
    try await enqueue { _ in }.value
    try await readWhole { snapshot, _ in
      _ = try snapshot.counts()
      do {
        for ending in ["", "-journal", "-wal"] { try Folder.remove(path + ending) }
        switch snapshot.session.connection {
        case .sqlite(let connection):
          guard try connection.copy(to: path, mustStop: { connection.watch.isOver }) else {
            throw StoreError.tooSlow(shard: snapshot.shard)
          }
        case .postgreSQL: try WrittenShard(snapshot: snapshot, folder: folder + "/shards").write()
        }
      } catch let error as SQLiteError {
        // Mostly an error of the backup's disk, which must not take the shard out of service.
        throw StoreError.io("shard \(snapshot.shard) can't be copied to \(path): \(error)")
      } catch let error as AssetError {
        throw StoreError(error)
      }
    }
    let cancellation = ReadCancellation()
    let rest = CopiedShard(
      shard: shard, epoch: epoch, part: part, folder: folder, keys: keys, assets: assets, cancellation: cancellation)
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        if !pool.submitWhole({ continuation.resume(with: Result { try rest.finish() }) }) {
          continuation.resume(throwing: StoreError.overloaded(shard: shard))
        }
      }
    } onCancel: {
      cancellation.cancel()
    }
  }
}

/// A copied shard file, and the remaining steps of its backup.
private struct CopiedShard: Sendable {
  let shard: Int
  let epoch: Int64
  let part: ShardPart?
  let folder: String
  let keys: KeyRing
  let assets: (any AssetStore)?
  let cancellation: ReadCancellation

  /// Links the assets, verifies the copy and writes the list.
  func finish() throws -> ShardCopy {
    do {
      let connection = try Connection(exclusive: folder + "/" + ShardCopy.fileName(shard), mode: .readOnly)
      defer { connection.close() }
      try connection.beginReadTransaction()
      let snapshot = SQLiteSnapshot(ShardSession(shard: shard, connection: .sqlite(connection), keys: keys))
      let list = try BackupListWriter(path: folder + "/" + ShardCopy.listName(shard))
      try list.add(ShardCopy.fileName(shard), in: folder)
      var problems: [String] = []
      try linkAssets(connection, list, &problems)
      connection.watch.begin(until: .now + .seconds(1_000_000), atLatest: .now + .seconds(1_000_000)) { false }
      cancellation.stops(connection.watch)
      let report = try ShardVerification.report(
        on: snapshot,
        // Contents that are in no files stay where they are.
        assets: assets.map { $0.keepsFiles ? AssetFolder(directory: folder + "/assets", keys: $0.keys) : $0 },
        readsAssets: false)
      let counts = try snapshot.counts()
      let sealing = try connection.statement(ShardQuery.sealingKeys).all { Hex.encode($0.blob(0)) }
      let needed = Set(sealing + (try snapshot.session.contentKeys().map(\.description)))
      let digest = try list.finish()
      try Folder.sync(folder + "/shards")
      try Folder.sync(folder)
      return ShardCopy(
        shard: shard, epoch: epoch, databaseCount: counts.databases, recordCount: counts.records,
        fileCount: list.fileCount, byteCount: list.byteCount,
        listDigest: digest, neededKeys: needed.sorted(), problems: problems + report.problems, part: part)
    } catch let error as SQLiteError {
      if cancellation.isCancelled { throw CancellationError() }
      throw StoreError(error, shard: shard)
    } catch let error as AssetError {
      throw StoreError(error)
    }
  }

  /// Links the used assets one by one, because there may be millions.
  private func linkAssets(_ connection: Connection, _ list: BackupListWriter, _ problems: inout [String]) throws {
    try BackupFile.removeTree(folder + "/" + ShardCopy.assetFolder(shard))
    guard let assets, assets.keepsFiles else { return }
    // At most 256.
    var folders: Set<String> = []
    let rows = try connection.statement(SQL("usedAssets", "SELECT hash, bytes FROM asset WHERE uses > 0 ORDER BY hash"))
    defer { rows.reset() }
    while try rows.step() {
      if cancellation.isCancelled { throw CancellationError() }
      let asset = Asset(hash: rows.blob(0), byteCount: rows.int64(1))
      // Verification reports missing files.
      guard let path = assets.file(of: asset, shard: shard), try assets.present([asset], in: shard).contains(asset)
      else { continue }
      let name = "assets/" + asset.relativePath(inShard: shard)
      let target = folder + "/" + name
      if folders.insert(Folder.parent(of: target)).inserted { try Folder.make(Folder.parent(of: target)) }
      try BackupFile.linkOrCopy(path, to: target)
      let found = try list.add(name, in: folder)
      // The digest of an unsealed file is its asset's hash.
      if found.byteCount == asset.byteCount, found.hash != asset.hash, problems.count < VerificationReport.problemLimit
      {
        problems.append("\(name) does not match the hash in its name")
      }
    }
    for folder in folders.sorted() { try Folder.sync(folder) }
  }
}
