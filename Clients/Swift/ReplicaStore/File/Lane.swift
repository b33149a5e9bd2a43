// A connection's own queue: what blocks on the disk never runs on Swift's cooperative threads.

import Dispatch
import SQLite

/// Runs work on a value that one thread at a time may use, in the order in which the work was handed in.
final class Lane<State>: @unchecked Sendable {
  private let queue: DispatchQueue
  // Touched on the queue alone.
  private let state: State

  init(_ name: String, _ state: sending State) {
    queue = DispatchQueue(label: name)
    self.state = state
  }

  func run<Value: Sendable>(_ body: @escaping @Sendable (State) throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      queue.async { continuation.resume(with: Result { try body(self.state) }) }
    }
  }

  /// For callers that are not tasks: other lanes, and the main actor.
  func runNow<Value>(_ body: (State) throws -> Value) rethrows -> Value { try queue.sync { try body(state) } }

  func post(_ body: @escaping @Sendable (State) -> Void) { queue.async { body(self.state) } }
}

/// The store's errors for what SQLite and a caller's closure throw.
func storeError(_ error: any Error) -> StoreError {
  switch error {
  case let error as StoreError: error
  case let error as SQLiteError where error.isFull: .full
  case let error as SQLiteError where error.isClosed: .closed
  case let error as SQLiteError: .damaged(error.description)
  default: .damaged("\(error)")
  }
}
