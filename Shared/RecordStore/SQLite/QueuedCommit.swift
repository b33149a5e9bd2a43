// A body on its way through the writer, and the promise that its caller waits for.

import Assets
import Synchronization

/// A body from the writer's side.
protocol QueuedBody: Sendable {
  /// Runs the body and keeps its result until `settle`.
  /// - Returns: the error that it threw; nil when it returned.
  func run(in transaction: SQLiteTransaction) -> (any Error)?
  /// Hands the caller `failure`, or the body's result if that is nil. A body that needs `AssetCalls` is queued again
  /// instead. Called once for each run, without locks.
  func settle(_ failure: (any Error)?)
  /// The party in whose line the body waits.
  var party: String { get }
  /// True when the body needs a commit of its own.
  var runsAlone: Bool { get }
  /// The rows that the body is going to look up.
  var lookups: [ExpectedLookup] { get }
}

final class QueuedCommit<Value: Sendable>: CommitOutcome, QueuedBody {
  private let core: ShardCore
  private let body: @Sendable (SQLiteTransaction) throws -> Value
  private let returned = Mutex<Value?>(nil)
  private let promise = CommitPromise()
  private let repetitionCount = Atomic(0)
  let party: String
  let runsAlone: Bool
  private let expected: @Sendable () -> [ExpectedLookup]

  init(
    in core: ShardCore, of party: String, runsAlone: Bool,
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (SQLiteTransaction) throws -> Value
  ) {
    self.core = core
    self.party = party
    self.runsAlone = runsAlone
    expected = lookups
    self.body = body
  }

  var lookups: [ExpectedLookup] { expected() }
  var wasQueuedAgain: Bool { repetitionCount.load(ordering: .relaxed) > 0 }

  func run(in transaction: SQLiteTransaction) -> (any Error)? {
    do {
      let value = try body(transaction)
      returned.withLock { $0 = value }
      return nil
    } catch {
      return error
    }
  }

  func settle(_ failure: (any Error)?) {
    guard let failure, let calls = failure as? AssetCalls else { return promise.settle(failure) }
    if repetitionCount.add(1, ordering: .relaxed).newValue < AssetCalls.runLimit { return core.make(calls, for: self) }
    promise.settle(StoreError.unavailable("\(calls.purpose): something else was missing each time"))
  }

  var value: Value {
    get async throws {
      try await promise.wait()
      guard let value = returned.withLock({ $0 }) else { preconditionFailure("a body was settled before it ran") }
      return value
    }
  }
}

/// The outcome of a commit and the callers that wait for it. It is not generic, because the metadata of a type for each
/// result would cost more than the rest.
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

  /// - Throws: the error that prevented the commit.
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
