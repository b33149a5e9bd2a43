// The folder of asset files: a spool that takes uploads, and one folder a shard for the files that its records use.

import CLinux
public import Crypto
import Glibc
public import Records

/// Content-addressed files, named by the SHA-256 of their content. Only hashes become paths, never a client's text.
///
/// Uploads arrive in the spool (`AssetUpload`, `put`) and stay there until their receipt expires. The spool has one
/// folder for each hour of expiry, so old content is removed by folder and no client can remove another client's
/// upload. A shard's writer links content into the shard's folder (`adopt`) and alone removes that link. So the spool
/// needs no reference counts, and a shard's files move and go with the shard.
///
/// With a key, every written file is sealed (`SealedFile`), because an encrypted attribute may use the content later.
/// Names (the hashes of the content) and lengths stay in clear. Files written before the key was added stay readable.
public struct AssetStore: Sendable {
  public let directory: String
  /// The keys that seal and open files. Without keys, files hold plain content.
  public let keys: KeyRing

  public init(directory: String, keys: KeyRing = KeyRing()) {
    self.directory = directory
    self.keys = keys
  }

  /// The path of a shard's file, whether or not the file exists.
  public func path(of asset: Asset, shard: Int) -> String { directory + "/" + asset.relativePath(inShard: shard) }

  // MARK: A shard's files

  /// Links uploaded content into the shard's folder. The link is durable once its folder is synced.
  /// - Returns: the folder to sync before the file can be relied on; nil when neither shard nor spool has the content.
  /// - Throws: `full`, `io`. The file may exist then without a record that uses it.
  public func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> String? {
    let path = path(of: asset, shard: shard)
    let folder = Folder.parent(of: path)
    // The collector has not removed it yet, or an earlier attempt left it.
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

  /// Replaces a plain file by a sealed upload of the same content.
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

  /// Decides by the length alone; nil for a missing file or for one of another length.
  private func form(of path: String, _ asset: Asset) -> Form? {
    switch Folder.byteCount(of: path) {
    case asset.byteCount: .plain
    case SealedFile.byteCount(ofContent: asset.byteCount): .sealed
    default: nil
    }
  }

  /// True when the shard has the file, plain or sealed.
  package func hasFile(of asset: Asset, shard: Int) -> Bool { form(of: path(of: asset, shard: shard), asset) != nil }

  /// True when `adopt` finds the content.
  public func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool {
    if hasFile(of: asset, shard: shard) { return true }
    return try spooled(asset) != nil
  }

  /// The path of the content's newest file in the spool.
  private func spooled(_ asset: Asset) throws(AssetError) -> String? {
    let name = Hex.encode(asset.hash)
    for bucket in try buckets().reversed() where form(of: spoolPath(bucket, name), asset) != nil {
      return spoolPath(bucket, name)
    }
    return nil
  }

  /// Links a shard's content into the spool, so that another shard can adopt it until `expiry` (seconds since 1970).
  /// Durable on return, with one sync for all files.
  /// - Returns: the assets that the shard has.
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

  /// Removes files of a shard durably. Skips missing files.
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

  /// The folders that hold a shard's files, as the first byte of their hashes; ascending.
  public func folders(of shard: Int) throws(AssetError) -> [Int] {
    try Folder.names(in: "\(directory)/\(Asset.folder(ofShard: shard))").compactMap { name in
      name.utf8.count == 2 ? Hex.decode(name).map { Int($0[0]) } : nil
    }
  }

  /// The hashes of the files in one of a shard's folders. Skips names that are no hashes.
  public func hashes(in folder: Int, of shard: Int) throws(AssetError) -> [[UInt8]] {
    let prefix = Hex.encode([UInt8(clamping: folder)])
    return try Folder.names(in: "\(directory)/\(Asset.folder(ofShard: shard))/\(prefix)").compactMap { name in
      Hex.decode(prefix + name).flatMap { $0.count == SHA256.byteCount ? $0 : nil }
    }
  }

  /// Links files that format 1 kept for all shards together into a shard's own folders, and syncs those folders.
  public func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError) {
    var folders: Set<String> = []
    for asset in assets {
      let path = path(of: asset, shard: shard)
      let folder = Folder.parent(of: path)
      if folders.insert(folder).inserted { try Folder.make(folder) }
      // A file that is missing here was missing before the upgrade.
      guard link(directory + "/" + asset.unshardedPath, path) == 0 || errno == EEXIST || errno == ENOENT else {
        throw Folder.failure("link file", path)
      }
    }
    for folder in folders.sorted() { try Folder.sync(folder) }
  }

  /// Reads the content of a shard's file, verified against its hash. Reads the spool while no commit has adopted the
  /// content.
  /// - Throws: `io` when the file is missing, `corrupt` when its content differs from its name, `missingKey` when
  ///   `keys` lacks the key that sealed it.
  public func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] {
    guard asset.hash.count == SHA256.byteCount else { throw .io("an asset's hash has \(asset.hash.count) bytes") }
    var path = path(of: asset, shard: shard)
    if access(path, F_OK) != 0, let spooled = try spooled(asset) { path = spooled }
    guard let file = try AssetFile(path: path, keys: keys) else {
      throw .io("\(path) is missing; restore it from a backup")
    }
    guard file.byteCount == asset.byteCount else {
      throw .corrupt(
        "\(path) has \(file.byteCount) bytes of content instead of \(asset.byteCount); restore it from a backup")
    }
    let content = try file.readAll()
    guard SHA256.hash(content) == asset.hash else {
      throw .corrupt("\(path) does not match the hash in its name; restore it from a backup")
    }
    return content
  }

  // MARK: The spool

  /// Writes `content` durably into the spool. Blocks the calling thread.
  /// - Parameter expiry: the end of the time in which shards can adopt it, seconds since 1970.
  /// - Throws: `full`, `io`; no file is left behind then.
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

  /// Removes expired content and the unfinished files that crashes left.
  /// - Parameter now: seconds since 1970.
  /// - Returns: the number of removed files.
  public func sweepSpool(now: Int64) throws(AssetError) -> Int {
    var count = 0
    for bucket in try buckets() where (bucket + 1 + Self.marginHours) * Self.bucketSeconds <= now {
      let folder = spoolFolder(bucket)
      for name in try Folder.names(in: folder) {
        try Folder.remove(folder + "/" + name)
        count += 1
      }
      guard rmdir(folder) == 0 || errno == ENOENT || errno == ENOTEMPTY else {
        throw Folder.failure("remove folder", folder)
      }
    }
    return count
  }

  private static let bucketSeconds: Int64 = 3600
  /// The tolerated difference between the clocks of two machines.
  private static let marginHours: Int64 = 1

  /// The hour in which content expires, counted from 1970.
  static func bucket(of expiry: Int64) -> Int64 { max(expiry, 0) / bucketSeconds }

  func spoolFolder(_ bucket: Int64) -> String { "\(directory)/uploads/\(bucket)" }
  func spoolPath(_ bucket: Int64, _ name: String) -> String { "\(spoolFolder(bucket))/\(name)" }

  /// The hours that the spool has folders for, ascending.
  private func buckets() throws(AssetError) -> [Int64] {
    try Folder.names(in: directory + "/uploads").compactMap { Int64($0) }.sorted()
  }
}
