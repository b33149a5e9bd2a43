// Numbers and identifiers in place of a clock and of chance.

import FoundationEssentials
import Synchronization

final class Counter: Sendable {
  private let number: Atomic<Int64>

  init(_ start: Int) { number = Atomic(Int64(start) << 32) }

  func next() -> Int64 { number.add(1, ordering: .relaxed).newValue }

  static func uuid(_ number: Int64) -> UUID {
    var bytes = [UInt8](repeating: 0, count: 16)
    for place in 0..<8 { bytes[15 - place] = UInt8(truncatingIfNeeded: number >> (8 * Int64(place))) }
    bytes[0] = 0xAB
    return UUID(
      uuid: (
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9], bytes[10],
        bytes[11], bytes[12], bytes[13],
        bytes[14], bytes[15]
      ))
  }
}

/// The same numbers for the same seed (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(_ seed: Int) { state = UInt64(bitPattern: Int64(seed)) }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    return mixed ^ mixed >> 31
  }
}
