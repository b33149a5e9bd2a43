// Ends a connection's statements before they finish: at a deadline, or at another thread's request.

import Synchronization

/// Decides whether a connection's statements may go on. Between `begin` and `end`, statements ask every few hundred
/// microseconds and throw an interruption (`SQLiteError.isInterruption`) when they may not.
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

  public init() {}

  /// Starts a span in which statements may run until `deadline`, or until `last` as long as `isAwaited` returns false.
  /// - Parameter isAwaited: whether another caller waits for the statements to end. Asked after `deadline` only.
  public func begin(
    until deadline: ContinuousClock.Instant, atLatest last: ContinuousClock.Instant,
    isAwaited: @escaping @Sendable () -> Bool
  ) {
    state.withLock {
      $0.span = Span(deadline: deadline, last: last, isAwaited: isAwaited)
      $0.isOver = $0.isStopped
      $0.isInterrupted = false
    }
  }

  /// Ends the span. Statements may run without limit until the next `begin`.
  /// - Returns: whether `interrupt` was called during the span before it was over.
  @discardableResult public func end() -> Bool {
    state.withLock { state in
      state.span = nil
      state.isOver = false
      return state.isInterrupted
    }
  }

  /// Ends the statements of the current span. Any thread may call it; it has no effect after `end`.
  public func interrupt() {
    state.withLock { state in
      guard state.span != nil, !state.isOver else { return }
      state.isOver = true
      state.isInterrupted = true
    }
  }

  /// Ends the statements of the current span and of every later one. Any thread may call it.
  public func stop() {
    state.withLock { state in
      state.isStopped = true
      if state.span != nil { state.isOver = true }
    }
  }

  /// True when the current span is over.
  public var isOver: Bool { state.withLock { $0.isOver } }

  /// Compares the clock with the span's limits.
  /// - Returns: whether the caller, a statement or a loop over its rows, has to end.
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
