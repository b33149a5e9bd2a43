// Where an asset's file lies: the store writes it there, the gateway serves it from there.

import Crypto

extension Asset {
  /// The path below the folder of assets: `ab/cdef…`, the hash in hexadecimal; nothing of a client's ever is in it.
  public var relativePath: String {
    let name = Hex.encode(hash)
    return "\(name.prefix(2))/\(name.dropFirst(2))"
  }
}
