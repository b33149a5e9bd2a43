// Decides about an export batch that throws: waiting may help, or else the cause is found and left out.

import Assets
import RecordStore
import Records
import ServiceKit
import Synchronization
import ZoneCommit

/// The records that a batch leaves out because their writes throw. Only these notes outlive an attempt that throws.
package final class ExportIsolation: Sendable {
  private struct State {
    var excluded: Set<String> = []
    var current: String?
  }

  private let state = Mutex(State())

  /// Notes the record whose write begins.
  func begin(_ recordName: String) { state.withLock { $0.current = recordName } }

  /// Notes that no record is being written.
  func end() { state.withLock { $0.current = nil } }

  func excludes(_ recordName: String) -> Bool { state.withLock { $0.excluded.contains(recordName) } }

  /// - Returns: false when there is no other record to leave out.
  func excludeCurrent() -> Bool {
    state.withLock { state in
      guard let name = state.current else { return false }
      state.current = nil
      return state.excluded.insert(name).inserted
    }
  }
}

extension ExportRun {
  /// Runs the batch in the shard's writer queue, without the parts that make it fail.
  func commit(to store: any ShardStore) async throws -> ExportOutcome {
    try await isolating { run in try await store.enqueue { transaction in try run.callAsFunction(transaction) }.value }
  }

  /// Runs an attempt of this batch. If waiting does not help against its error, runs it again with every change and
  /// record judged alone, until only those that throw are left out.
  /// - Throws: errors that no single record causes.
  func isolating<Value>(_ attempt: (ExportRun) async throws -> Value) async throws -> Value {
    do {
      return try await attempt(self)
    } catch  where ExportFailure(error) == .poisoned {
      context.log.error(
        "an export batch failed; the export leaves its cause out",
        ["mirror": .integer(mirrorKey), "shard": .integer(Int64(shard)), "error": .text(String(describing: error))])
    }
    var careful = self
    let isolation = ExportIsolation()
    careful.isolation = isolation
    while true {
      do {
        return try await attempt(careful)
      } catch  where ExportFailure(error) == .poisoned && isolation.excludeCurrent() {
        // Dropped because the error is logged above, and the object is held back as far as it is known.
        continue
      }
    }
  }
}
