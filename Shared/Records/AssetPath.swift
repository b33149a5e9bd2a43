// The path of an asset's file: the store writes it there, and the gateway serves it from there.

import Crypto

extension Asset {
  /// The path below the folder of assets, `shard-3/ab/cdef…`: the hash in hexadecimal, and no text of a client.
  public func relativePath(inShard shard: Int) -> String { "\(Self.folder(ofShard: shard))/\(unshardedPath)" }

  /// The path in stores of format 1, which kept one folder for all shards.
  public var unshardedPath: String {
    let name = Hex.encode(hash)
    return "\(name.prefix(2))/\(name.dropFirst(2))"
  }

  public static func folder(ofShard shard: Int) -> String { "shard-\(shard)" }
}
