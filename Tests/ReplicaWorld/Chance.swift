// The random numbers of a story.

import Synchronization

/// Numbers of a seed, from any thread.
package final class Chance: Sendable {
  private let state: Mutex<UInt64>

  /// - Parameter stream: another one has other numbers.
  package init(_ seed: Int, stream: Int = 0) {
    state = Mutex((UInt64(seed) &+ UInt64(stream) << 32) &* 0x9e37_79b9_7f4a_7c15 &+ 1)
    _ = number(2)
  }

  /// 0..<limit.
  package func number(_ limit: Int) -> Int {
    state.withLock { state in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % limit
    }
  }

  package func pick<Element>(_ elements: [Element]) -> Element { elements[number(elements.count)] }
}
