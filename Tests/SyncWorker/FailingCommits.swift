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

/// Commits that fail when they are told to.
final class FailingCommits: Sendable {
  private let isDue = Mutex(false)
  func failOnce() { isDue.withLock { $0 = true } }
  func next() -> StoreError? {
    isDue.withLock { isDue in
      defer { isDue = false }
      return isDue ? .full("disk") : nil
    }
  }
}
