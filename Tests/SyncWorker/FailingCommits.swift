// A store whose commits fail on demand.

import InMemoryRecordStore
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

@testable import RecordPlane
@testable import WorkerHost

/// Commits of which one fails when it is told to.
final class FailingCommits: Sendable {
  /// Commits up to the one that fails, that one included; nil: none fails.
  private let left = Mutex<Int?>(nil)

  var isDue: Bool { left.withLock { $0 != nil } }
  func failOnce() { fail(1) }
  func fail(_ number: Int) { left.withLock { $0 = number } }
  func next() -> StoreError? {
    left.withLock { left in
      guard let number = left else { return nil }
      left = number > 1 ? number - 1 : nil
      return number > 1 ? nil : .full("disk")
    }
  }
}
