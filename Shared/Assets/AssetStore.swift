// The folder of asset files: a spool that uploads are written to, and a folder a shard that holds what its records use.

import CLinux
public import Crypto
import Glibc
public import Records

/// Content-addressed files, named by the SHA-256 of their content. Only names of ours ever become paths.
///
/// Content arrives in the spool (`AssetUpload`, `put`) and stays there until its receipt has expired, in a folder an hour, so that old
/// content goes by its folder's name and nobody can take away what somebody else has just written. A shard's writer gives its shard a
/// link of its own (`adopt`) and alone removes it. So the spool needs no counts, and a shard's files move and go with the shard.
///
/// With a key every file that is written is sealed (`SealedFile`): when content arrives, nobody knows yet whether an encrypted attribute will use
/// it. Names, which are the contents' hashes, and lengths stay in clear; files from before there was a key stay readable.
public struct AssetStore: Sendable {
  public let directory: String
  /// What files are sealed with; empty: they are written as they are.
  public let keys: KeyRing

  public init(directory: String, keys: KeyRing = KeyRing()) {
    self.directory = directory
    self.keys = keys
  }

  /// Where a shard's file is, or would be.
  public func path(of asset: Asset, shard: Int) -> String { directory + "/" + asset.relativePath(inShard: shard) }

  // MARK: A shard's files

  /// Gives the shard its link to content that was uploaded: durable once its folder was synced.
  /// - Returns: the folder to sync before anything may rely on the file; nil when the content is nowhere.
  /// - Throws: `full`, `io`; the file may be there then, and is nobody's.
  public func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> String? {
    let path = path(of: asset, shard: shard)
    let folder = Folder.parent(of: path)
    // Not collected yet, or left over from an earlier try.
    let present = form(of: path, asset)
    if present == .sealed || present == .plain && !keys.canSeal { return folder }
    try Folder.make(folder)
    for bucket in try buckets().reversed() {
      let source = spoolPath(bucket, Hex.encode(asset.hash))
      guard let form = form(of: source, asset), form == .sealed || present == nil else { continue }
      if present == .plain {
        if try replace(path, by: source) { return folder }
        continue
      }
      if link(source, path) == 0 || errno == EEXIST { return folder }
      guard errno == ENOENT else { throw Folder.failure("link file", path) }
    }
    return present == nil ? nil : folder
  }

  /// Content from before there was a key that has arrived again.
  /// - Returns: false when the file in the spool is gone.
  private func replace(_ path: String, by source: String) throws(AssetError) -> Bool {
    let link = path + ".sealed"
    guard Glibc.link(source, link) == 0 || errno == EEXIST else {
      if errno == ENOENT { return false }
      throw Folder.failure("link file", link)
    }
    guard rename(link, path) == 0 else { throw Folder.failure("replace file", path) }
    return true
  }

  private enum Form { case plain, sealed }

  /// Told by the length alone; nil for a file that is not there, or is not that content's.
  private func form(of path: String, _ asset: Asset) -> Form? {
    switch Folder.byteCount(of: path) {
    case asset.byteCount: .plain
    case SealedFile.byteCount(ofContent: asset.byteCount): .sealed
    default: nil
    }
  }

  /// Whether the shard has the file, in either form.
  package func hasFile(of asset: Asset, shard: Int) -> Bool { form(of: path(of: asset, shard: shard), asset) != nil }

  /// Whether `adopt` would find the content.
  public func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool {
    if hasFile(of: asset, shard: shard) { return true }
    return try spooled(asset) != nil
  }

  /// The newest file of that content in the spool.
  private func spooled(_ asset: Asset) throws(AssetError) -> String? {
    let name = Hex.encode(asset.hash)
    for bucket in try buckets().reversed() where form(of: spoolPath(bucket, name), asset) != nil { return spoolPath(bucket, name) }
    return nil
  }

  /// Puts a shard's content into the spool again, so that another shard can adopt it until `expiry` (seconds since 1970); durable when
  /// it returns, with one sync for all.
  /// - Returns: those that the shard has.
  public func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset> {
    guard !assets.isEmpty else { return [] }
    let bucket = Self.bucket(of: expiry)
    let folder = spoolFolder(bucket)
    try Folder.make(folder)
    var offered: Set<Asset> = []
    for asset in assets {
      let (path, target) = (path(of: asset, shard: shard), spoolPath(bucket, Hex.encode(asset.hash)))
      if link(path, target) != 0, errno != EEXIST {
        if errno == ENOENT { continue }
        throw Folder.failure("link file", target)
      }
      offered.insert(asset)
    }
    try Folder.sync(folder)
    return offered
  }

  /// Removes files of a shard, durably; those that are not there are none to remove.
  /// - Parameter hashes: 32 bytes each.
  public func remove(_ hashes: [[UInt8]], from shard: Int) throws(AssetError) {
    var folders: Set<String> = []
    for hash in hashes {
      let path = path(of: Asset(hash: hash, byteCount: 0), shard: shard)
      try Folder.remove(path)
      folders.insert(Folder.parent(of: path))
    }
    for folder in folders.sorted() where access(folder, F_OK) == 0 { try Folder.sync(folder) }
  }

  /// The folders a shard's files are in, by the first byte of their hashes; ascending.
  public func folders(of shard: Int) throws(AssetError) -> [Int] {
    try Folder.names(in: "\(directory)/\(Asset.folder(ofShard: shard))").compactMap { name in
      name.utf8.count == 2 ? Hex.decode(name).map { Int($0[0]) } : nil
    }
  }

  /// The files in one of a shard's folders, by hash; names that are not ours are left out.
  public func hashes(in folder: Int, of shard: Int) throws(AssetError) -> [[UInt8]] {
    let prefix = Hex.encode([UInt8(clamping: folder)])
    return try Folder.names(in: "\(directory)/\(Asset.folder(ofShard: shard))/\(prefix)").compactMap { name in
      Hex.decode(prefix + name).flatMap { $0.count == SHA256.byteCount ? $0 : nil }
    }
  }

  /// Links what format 1 kept for all shards together into a shard's own folders, and syncs those.
  public func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError) {
    var folders: Set<String> = []
    for asset in assets {
      let path = path(of: asset, shard: shard)
      let folder = Folder.parent(of: path)
      if folders.insert(folder).inserted { try Folder.make(folder) }
      // What is missing was missing before.
      guard link(directory + "/" + asset.unshardedPath, path) == 0 || errno == EEXIST || errno == ENOENT else { throw Folder.failure("link file", path) }
    }
    for folder in folders.sorted() { try Folder.sync(folder) }
  }

  /// The content of a shard's file (or of the spool's, while no commit has adopted it), verified against its hash.
  /// - Throws: `io` when it is missing, `corrupt` when it is not what was written, `missingKey` when it is sealed with a key that is not there.
  public func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] {
    guard asset.hash.count == SHA256.byteCount else { throw .io("an asset's hash has \(asset.hash.count) bytes") }
    var path = path(of: asset, shard: shard)
    if access(path, F_OK) != 0, let spooled = try spooled(asset) { path = spooled }
    guard let file = try AssetFile(path: path, keys: keys) else { throw .io("\(path) is missing; restore it from a backup") }
    guard file.byteCount == asset.byteCount else {
      throw .corrupt("\(path) has \(file.byteCount) bytes of content instead of \(asset.byteCount); restore it from a backup")
    }
    let content = try file.readAll()
    guard SHA256.hash(content) == asset.hash else { throw .corrupt("\(path) is not what its name says; restore it from a backup") }
    return content
  }

  // MARK: The spool

  /// Writes `content` durably into the spool; on the caller's thread.
  /// - Parameter expiry: until when it can be adopted, seconds since 1970.
  /// - Throws: `full`, `io`; nothing is left behind then.
  public func put(_ content: [UInt8], until expiry: Int64) throws(AssetError) -> Asset {
    let file = try SpoolFile(in: self, until: expiry)
    do throws(AssetError) {
      try file.write(content)
      return try file.finish()
    } catch {
      file.discard()
      throw error
    }
  }

  /// Removes what can be adopted no more, and what crashes left unfinished.
  /// - Parameter now: seconds since 1970.
  /// - Returns: how many files were removed.
  public func sweepSpool(now: Int64) throws(AssetError) -> Int {
    var count = 0
    for bucket in try buckets() where (bucket + 1 + Self.marginHours) * Self.bucketSeconds <= now {
      let folder = spoolFolder(bucket)
      for name in try Folder.names(in: folder) {
        try Folder.remove(folder + "/" + name)
        count += 1
      }
      guard rmdir(folder) == 0 || errno == ENOENT || errno == ENOTEMPTY else { throw Folder.failure("remove folder", folder) }
    }
    return count
  }

  private static let bucketSeconds: Int64 = 3600
  /// Clocks of two machines may differ by so much.
  private static let marginHours: Int64 = 1

  /// The hour in which content expires.
  static func bucket(of expiry: Int64) -> Int64 { max(expiry, 0) / bucketSeconds }

  func spoolFolder(_ bucket: Int64) -> String { "\(directory)/uploads/\(bucket)" }
  func spoolPath(_ bucket: Int64, _ name: String) -> String { "\(spoolFolder(bucket))/\(name)" }

  /// Ascending.
  private func buckets() throws(AssetError) -> [Int64] { try Folder.names(in: directory + "/uploads").compactMap { Int64($0) }.sorted() }
}
