// Work in the background, one piece after the other.

import Synchronization

final class Turns: Sendable {
  private let last = Mutex<Task<Void, Never>?>(nil)

  /// - Returns: the task that waits for its turn, and then works. Cancelled before, it does nothing.
  @discardableResult func add(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    last.withLock { last in
      let before = last
      let next = Task {
        await before?.value
        if !Task.isCancelled { await work() }
      }
      last = next
      return next
    }
  }

  /// Returns when no work is left.
  func wait() async {
    while let task = last.withLock({ $0 }) {
      await task.value
      if last.withLock({ $0 }) == task { return }
    }
  }
}
