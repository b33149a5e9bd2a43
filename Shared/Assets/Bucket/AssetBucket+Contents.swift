// The contents that a bucket has for a shard, listed and read.

import Crypto
public import Records
import S3

extension AssetBucket {
  public func parts(of shard: Int) throws(AssetError) -> [Int] {
    try prefixes(in: folder(ofShard: shard)).compactMap { name in
      name.utf8.count == 2 ? Hex.decode(name).map { Int($0[0]) } : nil
    }
  }

  public func hashes(in part: Int, of shard: Int) throws(AssetError) -> [[UInt8]] {
    let digits = Hex.encode([UInt8(clamping: part)])
    let folder = "\(folder(ofShard: shard))\(digits)/"
    var hashes: [[UInt8]] = []
    try list(folder) { objects in
      hashes += objects.compactMap { object in
        Hex.decode(digits + object.key.dropFirst(folder.count)).flatMap { $0.count == SHA256.byteCount ? $0 : nil }
      }
      return true
    }
    return hashes
  }

  public func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError) {
    for asset in assets {
      // An object that is missing here was missing before the upgrade.
      _ = try copy(location.prefix + asset.unshardedPath, of: asset, to: key(of: asset.hash, shard: shard))
    }
  }

  public func open(_ hash: [UInt8], of shard: Int) throws(AssetError) -> AssetContent? {
    try content(at: key(of: hash, shard: shard), hash, for: .client)
  }

  private func content(
    at key: String, _ hash: [UInt8], for reader: ObjectBytes.Reader = .process
  ) throws(AssetError) -> AssetContent? {
    guard let bytes = try ObjectBytes(key, in: self, for: reader) else { return nil }
    return try AssetContent(bytes, hash: hash, keys: keys)
  }

  public func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] {
    guard asset.hash.count == SHA256.byteCount else { throw .io("an asset's hash has \(asset.hash.count) bytes") }
    let key = key(of: asset.hash, shard: shard)
    if let content = try content(at: key, asset.hash) { return try content.readAll(of: asset) }
    var hours: [Int64]?
    if let spooled = try spooled(asset, &hours),
      let content = try content(at: spooled, asset.hash)
    {
      return try content.readAll(of: asset)
    }
    throw .io("\(Self.text(location, key)) is missing; restore an earlier version of it")
  }
}
