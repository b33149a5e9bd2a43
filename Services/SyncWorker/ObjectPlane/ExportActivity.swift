// The stores whose exports are under way or failing, for `status`, `explain` and one event for each streak of failures.

import Synchronization

/// Remembered as long as this worker runs.
final class ExportActivity: Sendable {
  private struct State {
    var running: [MirrorID: Int] = [:]
    var failing: Set<MirrorID> = []
  }

  private let state = Mutex(State())

  func begin(_ mirror: MirrorID) { state.withLock { $0.running[mirror, default: 0] += 1 } }

  func end(_ mirror: MirrorID) {
    state.withLock { state in
      let count = (state.running[mirror] ?? 1) - 1
      state.running[mirror] = count > 0 ? count : nil
    }
  }

  /// An export went through: a streak of failures is over.
  func succeeded(_ mirror: MirrorID) {
    state.withLock { state in
      if !state.failing.isEmpty { state.failing.remove(mirror) }
    }
  }

  /// - Returns: whether a streak of failures begins with this one.
  func failed(_ mirror: MirrorID) -> Bool { state.withLock { $0.failing.insert(mirror).inserted } }

  func isRunning(_ mirror: MirrorID) -> Bool { state.withLock { $0.running[mirror] != nil } }
  func isFailing(_ mirror: MirrorID) -> Bool { state.withLock { $0.failing.contains(mirror) } }
}
