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
  private struct State {
    var result: Result<Value, any Error>?
    var isSettled = false
    var waiters: [CheckedContinuation<Value, any Error>] = []
  }

  private let body: @Sendable (any ShardTransaction) throws -> Value
  private let state = Mutex(State())
  let runsAlone: Bool

  init(runsAlone: Bool = false, _ body: @escaping @Sendable (any ShardTransaction) throws -> Value) {
    self.runsAlone = runsAlone
    self.body = body
  }

  func run(in transaction: SQLiteTransaction) -> (any Error)? {
    let result = Result { try body(transaction) }
    state.withLock { $0.result = result }
    if case .failure(let error) = result { return error }
    return nil
  }

  func settle(_ failure: (any Error)?) {
    let (result, waiters) = state.withLock { state in
      if let failure { state.result = .failure(failure) }
      state.isSettled = true
      defer { state.waiters = [] }
      return (state.result, state.waiters)
    }
    guard let result else { preconditionFailure("a body was settled before it ran") }
    for waiter in waiters { waiter.resume(with: result) }
  }

  var value: Value {
    get async throws {
      try await withCheckedThrowingContinuation { continuation in
        let settled = state.withLock { state -> Result<Value, any Error>? in
          if state.isSettled { return state.result }
          state.waiters.append(continuation)
          return nil
        }
        if let settled { continuation.resume(with: settled) }
      }
    }
  }
}
