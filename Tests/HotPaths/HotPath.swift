// A function to be counted, and how it is called.

import HotPathsLoop

/// One function of the product with the input it is called with, always the same.
final class HotPath {
  let name: String
  /// How often it is called while it is counted.
  let callCount: Int
  /// Answers something of its result, never 0, so that nothing of the work can be left out.
  private let body: () -> Int
  private let answer: Int

  /// - Parameter callCount: of one count; few for long ones, because everything is some fifty times as slow while it is counted.
  init(_ name: String, callCount: Int = 50, _ body: @escaping () throws -> Int) {
    self.name = name
    self.callCount = callCount
    self.body = {
      do { return try body() } catch { fatalError("\(name): \(error)") }
    }
    answer = self.body()
    precondition(answer != 0, "\(name) did nothing")
  }

  /// Calls it some times first: what is made only once is not counted.
  /// - Returns: how often all calls asked for memory.
  func run() -> Int {
    for _ in 0..<3 { call() }
    return hot_paths_loop(callCount, { Unmanaged<HotPath>.fromOpaque($0.unsafelyUnwrapped).takeUnretainedValue().call() }, Unmanaged.passUnretained(self).toOpaque())
  }

  private func call() {
    let answer = body()
    precondition(answer == self.answer, "\(name) answers differently every time")
  }

  static func all() throws -> [HotPath] { try recordPlane() + objectPlane() + wire() }
}
