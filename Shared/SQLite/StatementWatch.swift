// What ends a connection's statements before they have finished: a deadline, or another thread's word.

import Synchronization

/// Whether a connection's statements may go on. They ask every few hundred microseconds, and end with an interruption
/// (`SQLiteError.isInterruption`) when they may not, until the next `begin`.
public final class StatementWatch: Sendable {
  private struct State {
    var deadline: ContinuousClock.Instant?
    var isOver = false
    var isStopped = false
  }

  private let state = Mutex(State())

  /// Statements may go on until `deadline`.
  public func begin(until deadline: ContinuousClock.Instant) {
    state.withLock {
      $0.deadline = deadline
      $0.isOver = false
    }
  }

  /// Statements may go on as long as they like.
  public func end() {
    state.withLock {
      $0.deadline = nil
      $0.isOver = false
    }
  }

  /// No statement between a `begin` and its `end` goes on any more. Any thread may call it.
  public func stop() { state.withLock { $0.isStopped = true } }

  /// Whether a statement was, or would have been, ended since `begin`.
  public var isOver: Bool { state.withLock { $0.isOver } }

  /// Looks at the clock.
  /// - Returns: whether the statement that asks has to end.
  func mustEnd() -> Bool {
    state.withLock { state in
      guard let deadline = state.deadline else { return false }
      if !state.isOver { state.isOver = state.isStopped || ContinuousClock.now >= deadline }
      return state.isOver
    }
  }
}
