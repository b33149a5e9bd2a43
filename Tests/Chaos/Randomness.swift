// Random numbers from a seed, which decides a whole run.

struct SeededRandom: RandomNumberGenerator, Hashable, Sendable {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// Another stream of the same seed.
  init(seed: UInt64, stream: Int) {
    self.init(seed: seed &+ UInt64(truncatingIfNeeded: stream) &* 0x9e37_79b9_7f4a_7c15)
  }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

/// A UUID's text that encodes its origin: a client, the number of its save, and the index of the change.
func name(client: Int, number: Int, index: Int = 0) -> String {
  "\(hex(client, 8))-\(hex(index, 4))-4000-8000-\(hex(number, 12))"
}

/// The save's number in a name.
func saveNumber(in name: String) -> Int? { Int(name.suffix(12), radix: 16) }

private func hex(_ value: Int, _ digitCount: Int) -> String {
  let text = String(value, radix: 16, uppercase: true)
  return String(repeating: "0", count: digitCount - text.count) + text
}
