// Holds tasks back until a test lets them go on.

import Synchronization

/// A gate at which tasks wait until it opens.
package final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var nextID = 0
    var waiting: [Int: CheckedContinuation<Bool, Never>] = [:]
  }
  private let state = Mutex(State())

  package init() {}

  package func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [:] }
      return state.waiting
    }
    for continuation in waiting.values { continuation.resume(returning: true) }
  }

  package var isOpen: Bool { state.withLock(\.isOpen) }
  /// The number of waiting tasks.
  package var waitingCount: Int { state.withLock { $0.waiting.count } }

  /// Waits until the gate opens or the task is cancelled.
  /// - Returns: false when the task was cancelled.
  package func pass() async -> Bool {
    let id = state.withLock { state in
      state.nextID += 1
      return state.nextID
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let result: Bool? = state.withLock { state in
          if state.isOpen { return true }
          if Task.isCancelled { return false }
          state.waiting[id] = continuation
          return nil
        }
        if let result { continuation.resume(returning: result) }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: id) }?.resume(returning: false)
    }
  }

  /// Waits until the gate opens, also in a task that is cancelled.
  package func wait() async { _ = await Task { await pass() }.value }
}
