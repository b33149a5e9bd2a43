// Where an asset's file lies: the store writes it there, the gateway serves it from there.

import Crypto

extension Asset {
  /// The path below the folder of assets: `shard-3/ab/cdef…`, the hash in hexadecimal; nothing of a client's ever is in it.
  public func relativePath(inShard shard: Int) -> String { "\(Self.folder(ofShard: shard))/\(unshardedPath)" }

  /// Where format 1 had the file, for all shards together.
  public var unshardedPath: String {
    let name = Hex.encode(hash)
    return "\(name.prefix(2))/\(name.dropFirst(2))"
  }

  public static func folder(ofShard shard: Int) -> String { "shard-\(shard)" }
}
