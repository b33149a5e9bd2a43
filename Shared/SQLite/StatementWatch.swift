// What ends a connection's statements before they have finished: a deadline, or another thread's word.

import Synchronization

/// Whether a connection's statements may go on. They ask every few hundred microseconds, and end with an interruption
/// (`SQLiteError.isInterruption`) when they may not, from `begin` until `end`.
public final class StatementWatch: Sendable {
  private struct State {
    var span: Span?
    var isOver = false
    var isInterrupted = false
    var isStopped = false
  }

  private struct Span {
    let deadline: ContinuousClock.Instant
    let last: ContinuousClock.Instant
    let isAwaited: @Sendable () -> Bool
  }

  private let state = Mutex(State())

  /// Statements may go on until `deadline`, and longer, but not beyond `last`, while nobody waits for them to end.
  public func begin(until deadline: ContinuousClock.Instant, atLatest last: ContinuousClock.Instant, isAwaited: @escaping @Sendable () -> Bool) {
    state.withLock {
      $0.span = Span(deadline: deadline, last: last, isAwaited: isAwaited)
      $0.isOver = $0.isStopped
      $0.isInterrupted = false
    }
  }

  /// Statements may go on as long as they like.
  /// - Returns: whether `interrupt` ended some, or would have.
  @discardableResult public func end() -> Bool {
    state.withLock { state in
      state.span = nil
      state.isOver = false
      return state.isInterrupted
    }
  }

  /// No statement of this `begin` goes on. Any thread may call it; without effect after `end`.
  public func interrupt() {
    state.withLock { state in
      guard state.span != nil, !state.isOver else { return }
      state.isOver = true
      state.isInterrupted = true
    }
  }

  /// No statement goes on from now on between a `begin` and its `end`. Any thread may call it.
  public func stop() {
    state.withLock { state in
      state.isStopped = true
      if state.span != nil { state.isOver = true }
    }
  }

  /// Whether statements were ended since `begin`, or would have been.
  public var isOver: Bool { state.withLock { $0.isOver } }

  /// Looks at the clock.
  /// - Returns: whether the statement that asks has to end, or what is done with its rows.
  public func mustEnd() -> Bool {
    state.withLock { state in
      guard let span = state.span else { return false }
      if !state.isOver {
        let now = ContinuousClock.now
        state.isOver = now >= span.last || (now >= span.deadline && span.isAwaited())
      }
      return state.isOver
    }
  }
}
