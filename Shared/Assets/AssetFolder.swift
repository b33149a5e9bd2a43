// Asset contents in a folder: files in a spool, which become a shard's by a second name.

import CLinux
public import Crypto
import Glibc
public import Records

/// Files named by the SHA-256 of their content. Only hashes become paths, never a client's text.
///
/// The spool has one folder for each hour of expiry, so old content is removed by folder. A shard's writer links
/// content into the shard's folder and alone removes that link. So a shard's files move and go with the shard.
public struct AssetFolder: AssetStore {
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

  /// Does nothing, because a link costs less than the look for it.
  public func prepare(_ assets: Set<Asset>, for shard: Int) {}

  /// Links uploaded content into the shard's folder. The link is durable once its folder is synced.
  public func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Adoption {
    let path = path(of: asset, shard: shard)
    let folder = Folder.parent(of: path)
    // The collector has not removed it yet, or an earlier attempt left it.
    let present = form(of: path, asset)
    let mayStay = present == .sealed || present == .plain && !keys.canSeal
    for bucket in try buckets().reversed() {
      let source = spoolPath(bucket, Hex.encode(asset.hash))
      guard let form = form(of: source, asset), form == .sealed || present == nil || mayStay && form == present else {
        continue
      }
      // An upload that no shard has was hashed as it came, and a disk may have damaged the file that is present.
      if mayStay, Folder.nameCount(of: source) != 1 { continue }
      try Folder.make(folder)
      if link(source, path) == 0 { return .done(place: folder) }
      switch errno {
      // A plain file, or a damaged one.
      case EEXIST: if try replace(path, by: source) { return .done(place: folder) }
      case ENOENT: continue
      default: throw Folder.failure("link file", path)
      }
    }
    return present == nil ? .missing : .done(place: folder)
  }

  /// Replaces a file by an upload of the same content.
  /// - Returns: false when the file in the spool is gone.
  private func replace(_ path: String, by source: String) throws(AssetError) -> Bool {
    let link = path + ".sealed"
    // A process that died may have left one.
    try Folder.remove(link)
    guard Glibc.link(source, link) == 0 else {
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

  public func sync(_ place: String) throws(AssetError) {
    try Folder.sync(place)
    // Syncs the folder's own entry as well: a killed process may have made the folder without syncing it.
    try Folder.sync(Folder.parent(of: place))
  }

  public func present(_ assets: [Asset], in shard: Int) -> Set<Asset> {
    Set(assets.filter { hasFile(of: $0, shard: shard) })
  }

  public var keepsFiles: Bool { true }
  public func file(of asset: Asset, shard: Int) -> String? { path(of: asset, shard: shard) }

  /// True when the shard has the file, plain or sealed.
  package func hasFile(of asset: Asset, shard: Int) -> Bool { form(of: path(of: asset, shard: shard), asset) != nil }

  public func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool? {
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

  /// Links a shard's contents into the spool, with one sync for all files.
  public func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset> {
    guard !assets.isEmpty else { return [] }
    let bucket = SpoolHour.hour(of: expiry)
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

  public var removalTime: Duration { .zero }
  /// The writer's thread removes files: that takes no longer than a write.
  public func announceRemoval(of hashes: [[UInt8]], from shard: Int) -> Int64? { nil }

  public func remove(_ hashes: [[UInt8]], from shard: Int, announcedAt time: Int64?) throws(AssetError) {
    var folders: Set<String> = []
    for hash in hashes {
      let path = path(of: Asset(hash: hash, byteCount: 0), shard: shard)
      try Folder.remove(path)
      folders.insert(Folder.parent(of: path))
    }
    for folder in folders.sorted() where access(folder, F_OK) == 0 { try Folder.sync(folder) }
  }

  public func parts(of shard: Int) throws(AssetError) -> [Int] {
    try Folder.names(in: "\(directory)/\(Asset.folder(ofShard: shard))").compactMap { name in
      name.utf8.count == 2 ? Hex.decode(name).map { Int($0[0]) } : nil
    }
  }

  public func hashes(in part: Int, of shard: Int) throws(AssetError) -> [[UInt8]] {
    let prefix = Hex.encode([UInt8(clamping: part)])
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

  public func open(_ hash: [UInt8], of shard: Int) throws(AssetError) -> AssetContent? {
    try content(at: path(of: Asset(hash: hash, byteCount: 0), shard: shard), hash)
  }

  private func content(at path: String, _ hash: [UInt8]) throws(AssetError) -> AssetContent? {
    guard let bytes = try FileBytes(path: path) else { return nil }
    return try AssetContent(bytes, hash: hash, keys: keys)
  }

  public func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] {
    guard asset.hash.count == SHA256.byteCount else { throw .io("an asset's hash has \(asset.hash.count) bytes") }
    var path = path(of: asset, shard: shard)
    if access(path, F_OK) != 0, let spooled = try spooled(asset) { path = spooled }
    guard let content = try content(at: path, asset.hash) else {
      throw .io("\(path) is missing; restore it from a backup")
    }
    return try content.readAll(of: asset)
  }

  // MARK: The spool

  /// A piece that waits for its write is all that an upload holds.
  public var uploadMemoryByteCount: Int { 0 }

  public func spool(until expiry: Int64) throws(AssetError) -> SpooledContent {
    let hour = SpoolHour.hour(of: expiry)
    return SpooledContent(try PartFile(in: self, hour: hour), keys: keys, hour: hour)
  }

  public func sweepSpool(now: Int64) throws(AssetError) -> Int {
    var count = 0
    for bucket in try buckets() where SpoolHour.isOver(bucket, at: now) {
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

  func spoolFolder(_ bucket: Int64) -> String { "\(directory)/uploads/\(bucket)" }
  func spoolPath(_ bucket: Int64, _ name: String) -> String { "\(directory)/\(SpoolHour.name(bucket, name))" }

  /// The hours that the spool has folders for, ascending.
  private func buckets() throws(AssetError) -> [Int64] {
    try Folder.names(in: directory + "/uploads").compactMap { Int64($0) }.sorted()
  }
}
