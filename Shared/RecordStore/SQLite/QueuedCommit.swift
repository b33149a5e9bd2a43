// A body on its way through the writer, and the promise its caller holds.

import Synchronization

/// A body as the writer sees it.
protocol QueuedBody: Sendable {
  /// Runs the body; its outcome is kept until `settle`.
  /// - Returns: what it threw.
  func run(in transaction: SQLiteTransaction) -> (any Error)?
  /// Gives the caller `failure`, or what the body returned. To be called once, on the writer's thread, holding no lock.
  func settle(_ failure: (any Error)?)
  /// Shares its commit with no other body.
  var runsAlone: Bool { get }
}

final class QueuedCommit<Value: Sendable>: CommitOutcome, QueuedBody {
  private let body: @Sendable (any ShardTransaction) throws -> Value
  private let returned = Mutex<Value?>(nil)
  private let promise = CommitPromise()
  let runsAlone: Bool

  init(runsAlone: Bool = false, _ body: @escaping @Sendable (any ShardTransaction) throws -> Value) {
    self.runsAlone = runsAlone
    self.body = body
  }

  func run(in transaction: SQLiteTransaction) -> (any Error)? {
    do {
      let value = try body(transaction)
      returned.withLock { $0 = value }
      return nil
    } catch {
      return error
    }
  }

  func settle(_ failure: (any Error)?) { promise.settle(failure) }

  var value: Value {
    get async throws {
      try await promise.wait()
      guard let value = returned.withLock({ $0 }) else { preconditionFailure("a body was settled before it ran") }
      return value
    }
  }
}

/// Whether a body is committed, and who waits to know. Nothing here depends on what bodies return: looking up the types that would be made for each
/// costs more than the rest.
private final class CommitPromise: Sendable {
  private struct State {
    var failure: (any Error)?
    var isSettled = false
    var waiters: [CheckedContinuation<Void, any Error>] = []
  }

  private let state = Mutex(State())

  func settle(_ failure: (any Error)?) {
    let waiters = state.withLock { state in
      state.failure = failure
      state.isSettled = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { Self.tell(waiter, failure) }
  }

  /// - Throws: why it is not committed.
  func wait() async throws {
    try await withCheckedThrowingContinuation { continuation in
      let (isSettled, failure) = state.withLock { state -> (Bool, (any Error)?) in
        if !state.isSettled { state.waiters.append(continuation) }
        return (state.isSettled, state.failure)
      }
      if isSettled { Self.tell(continuation, failure) }
    }
  }

  private static func tell(_ waiter: CheckedContinuation<Void, any Error>, _ failure: (any Error)?) {
    if let failure { waiter.resume(throwing: failure) } else { waiter.resume() }
  }
}
