// What becomes of an export batch that throws: told apart by whether waiting helps, and if not, what it was that threw is found and left out.

import Assets
import RecordStore
import Records
import ServiceKit
import Synchronization

/// What an error of a batch means for the next try.
enum ExportFailure: Hashable, Sendable {
  /// The shard is somebody else's now, or the worker ends.
  case gone
  /// It may go well later; seconds, where it is known how much later.
  case transient(retryAfter: Int?)
  /// It will not go well until something of it is left out.
  case poisoned

  init(_ error: any Error) {
    switch error {
    case is CancellationError, StoreError.fenced, StoreError.closed: self = .gone
    case StoreError.full, AssetError.full: self = .transient(retryAfter: RecordError.noSpace.retryAfter)
    case StoreError.overloaded: self = .transient(retryAfter: 1)
    case StoreError.tooSlow: self = .transient(retryAfter: 10)
    case StoreError.io, StoreError.newerFormat, StoreError.missingKey, AssetError.missingKey: self = .transient(retryAfter: nil)
    case let error as RecordError where error == .shardMoved: self = .gone
    case let error as SharedForward.Unreached: self = .transient(retryAfter: error.error.retryAfter)
    case let error as RecordError: self = .transient(retryAfter: error.retryAfter)
    default: self = .poisoned
    }
  }
}

/// Which records of a batch are left out because their writes throw. The body that throws leaves nothing behind but what is noted here.
final class ExportIsolation: Sendable {
  private struct State {
    var excluded: Set<String> = []
    var current: String?
  }

  private let state = Mutex(State())

  /// The record that is worked on from now on.
  func begin(_ recordName: String) { state.withLock { $0.current = recordName } }

  /// Nothing is worked on that could be left out.
  func end() { state.withLock { $0.current = nil } }

  func excludes(_ recordName: String) -> Bool { state.withLock { $0.excluded.contains(recordName) } }

  /// - Returns: false when that would change nothing.
  func excludeCurrent() -> Bool {
    state.withLock { state in
      guard let name = state.current else { return false }
      state.current = nil
      return state.excluded.insert(name).inserted
    }
  }
}

extension ExportRun {
  /// Runs the batch in the shard's writer queue, without what it fails for.
  func commit(to store: any ShardStore) async throws -> ExportOutcome {
    try await isolating { run in try await store.enqueue { transaction in try run.callAsFunction(transaction) }.value }
  }

  /// Runs an attempt of this batch; when it throws what waiting does not help against, again with every change and record looked at by
  /// itself, until only what throws is left out.
  /// - Throws: what is no single record's doing.
  func isolating<Value>(_ attempt: (ExportRun) async throws -> Value) async throws -> Value {
    do {
      return try await attempt(self)
    } catch  where ExportFailure(error) == .poisoned {
      context.log.error(
        "an export batch failed: what it failed for is left out",
        ["mirror": .integer(mirrorKey), "shard": .integer(Int64(shard)), "error": .text(String(describing: error))])
    }
    var careful = self
    let isolation = ExportIsolation()
    careful.isolation = isolation
    while true {
      do {
        return try await attempt(careful)
      } catch  where ExportFailure(error) == .poisoned && isolation.excludeCurrent() {
        // Dropped because it was told of above, and the object is held back with what is known of it.
        continue
      }
    }
  }
}
