// A store of assets in a folder that counts the bytes that are read of its contents.

import CLinux
import Crypto
import Foundation
import Records
import Synchronization

@testable import Assets

/// The contents of a folder of its own, which goes with it.
final class CountingAssets: AssetStore {
  private struct Bytes: AssetBytes {
    let file: FileBytes
    let store: CountingAssets
    var name: String { file.name }
    var byteCount: Int64 { file.byteCount }
    var areLocal: Bool { store.areLocal }
    var windowByteCount: Int { store.areLocal ? 0 : 256 << 10 }
    var address: String? { nil }
    var identity: ContentIdentity { file.identity }
    func read(at offset: Int64, count: Int) throws(AssetError) -> [UInt8] {
      store.readCount.withLock { $0 += count }
      return try file.read(at: offset, count: count)
    }
  }

  private let folder = AssetFolder(directory: NSTemporaryDirectory() + "aquifer-contents-\(UUID().uuidString)")
  private let readCount = Mutex(0)

  let uploadMemoryByteCount: Int

  private let areLocal: Bool

  init(uploadMemoryByteCount: Int = 0, areLocal: Bool = true) {
    self.uploadMemoryByteCount = uploadMemoryByteCount
    self.areLocal = areLocal
  }

  // Dropped because a failed removal must not hide the test's own failure.
  deinit { try? FileManager.default.removeItem(atPath: folder.directory) }

  /// Bytes of contents that were read, without heads that say whether a file is sealed.
  var readByteCount: Int { readCount.withLock(\.self) }

  /// Puts a content into a shard.
  /// - Parameter keys: of another process, which seal the content.
  func put(_ content: [UInt8], in shard: Int, sealedBy keys: KeyRing = KeyRing()) throws -> Asset {
    let asset = try AssetFolder(directory: folder.directory, keys: keys).put(content, until: 1)
    _ = try folder.adopt(asset, into: shard)
    return asset
  }

  /// Changes a byte of a shard's content.
  func damage(_ asset: Asset, in shard: Int) throws {
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: folder.path(of: asset, shard: shard)))
    try file.seek(toOffset: 0)
    let first = try file.read(upToCount: 1)?.first ?? 0
    try file.seek(toOffset: 0)
    try file.write(contentsOf: [~first])
    try file.close()
  }

  func open(_ hash: [UInt8], of shard: Int) throws(AssetError) -> AssetContent? {
    guard let file = try FileBytes(path: folder.path(of: Asset(hash: hash, byteCount: 0), shard: shard)) else {
      return nil
    }
    let content = try AssetContent(Bytes(file: file, store: self), hash: hash, keys: keys)
    readCount.withLock { $0 -= min(SealedFile.headByteCount, Int(file.byteCount)) }
    return content
  }

  var keys: KeyRing { folder.keys }
  var keepsFiles: Bool { true }
  var removalTime: Duration { .zero }
  func prepare(_ assets: Set<Asset>, for shard: Int) {}
  func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Adoption { try folder.adopt(asset, into: shard) }
  func sync(_ place: String) throws(AssetError) { try folder.sync(place) }
  func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool? {
    try folder.canAdopt(asset, into: shard)
  }
  func present(_ assets: [Asset], in shard: Int) -> Set<Asset> { folder.present(assets, in: shard) }
  func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset> {
    try folder.offer(assets, of: shard, until: expiry)
  }
  func announceRemoval(of hashes: [[UInt8]], from shard: Int) -> Int64? { nil }
  func remove(_ hashes: [[UInt8]], from shard: Int, announcedAt time: Int64?) throws(AssetError) {
    try folder.remove(hashes, from: shard, announcedAt: time)
  }
  func parts(of shard: Int) throws(AssetError) -> [Int] { try folder.parts(of: shard) }
  func hashes(in part: Int, of shard: Int) throws(AssetError) -> [[UInt8]] { try folder.hashes(in: part, of: shard) }
  func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError) {
    try folder.adoptUnsharded(assets, into: shard)
  }
  func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] { try folder.read(asset, shard: shard) }
  func file(of asset: Asset, shard: Int) -> String? { folder.file(of: asset, shard: shard) }
  func spool(until expiry: Int64) throws(AssetError) -> SpooledContent { try folder.spool(until: expiry) }
  func sweepSpool(now: Int64) throws(AssetError) -> Int { try folder.sweepSpool(now: now) }
}
