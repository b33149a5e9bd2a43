// Makes the names of objects, saves and requests: Foundation's own UUIDs open /dev/urandom for each of them on Linux.

package import FoundationEssentials

extension UUID {
  /// A new random one (version 4). The bytes come from the kernel at each call: a stock of them would be the same in
  /// two processes after a fork.
  package static func random() -> UUID {
    var generator = SystemRandomNumberGenerator()
    var bytes: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    withUnsafeMutableBytes(of: &bytes) { bytes in
      bytes.storeBytes(of: generator.next(), toByteOffset: 0, as: UInt64.self)
      bytes.storeBytes(of: generator.next(), toByteOffset: 8, as: UInt64.self)
    }
    bytes.6 = bytes.6 & 0x0f | 0x40
    bytes.8 = bytes.8 & 0x3f | 0x80
    return UUID(uuid: bytes)
  }
}
