// Names of objects and requests: random, and of the form of other systems' UUIDs.

import Foundation
import ReplicaSync
import Testing

@Test func `a random identifier has the bits of version 4, and every other bit takes both values`() {
  var (all, any): ([UInt8], [UInt8]) = (Array(repeating: 0xff, count: 16), Array(repeating: 0, count: 16))
  var made: Set<UUID> = []
  for _ in 0..<1000 {
    let identifier = UUID.random()
    made.insert(identifier)
    withUnsafeBytes(of: identifier.uuid) { bytes in
      for (place, byte) in bytes.enumerated() { (all[place], any[place]) = (all[place] & byte, any[place] | byte) }
    }
  }
  #expect(made.count == 1000)
  #expect(all == [0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0])
  #expect(any == [255, 255, 255, 255, 255, 255, 0x4f, 255, 0xbf, 255, 255, 255, 255, 255, 255, 255])
}
