// A function whose cost is measured, and its call.

import HotPathsLoop

/// One function of the product with a constant input.
final class HotPath {
  let name: String
  /// The number of calls during a measurement.
  let callCount: Int
  /// Returns a value that depends on the result and is never 0, so that no work can be optimised away.
  private let body: () -> Int
  private let answer: Int

  /// - Parameter callCount: of one measurement; small for slow functions, because a measurement slows everything some
  ///   fifty times.
  init(_ name: String, callCount: Int = 50, _ body: @escaping () throws -> Int) {
    self.name = name
    self.callCount = callCount
    self.body = {
      do { return try body() } catch { fatalError("\(name): \(error)") }
    }
    answer = self.body()
    precondition(answer != 0, "\(name) did nothing")
  }

  /// Calls the function a few times first, so that one-time work is not measured.
  /// - Returns: the number of allocations in all calls.
  func run() -> Int {
    for _ in 0..<3 { call() }
    return hot_paths_loop(
      callCount, { Unmanaged<HotPath>.fromOpaque($0.unsafelyUnwrapped).takeUnretainedValue().call() },
      Unmanaged.passUnretained(self).toOpaque())
  }

  private func call() {
    let answer = body()
    precondition(answer == self.answer, "\(name) answers differently every time")
  }

  static func all() throws -> [HotPath] { try recordPlane() + objectPlane() + wire() }
}
