// Import events: one for a run of pages, however many calls it takes, and none for polls that bring nothing.

import Mirroring
import RecordStore
import Records
import WebServices

/// What a page delivered.
struct ImportedPage: Sendable {
  var savedCount = 0
  var deletedCount = 0
  var problems: [MirroringProblem] = []
  var moreComing = false
  /// The position the page's token says.
  var sequence: Int64 = 0

  var isEmpty: Bool { savedCount + deletedCount == 0 && problems.isEmpty }
}

/// Remembers, as long as this worker runs, which stores are in the middle of an import, and how far each has come.
actor ImportJournal {
  private struct Run {
    var event: StoredEvent
    var problems: [MirroringProblem] = []
  }

  private var runs: [Int64: Run] = [:]
  private var positions: [Int64: Int64] = [:]
  /// More stores than this are not remembered; only figures of events and of `status` depend on it.
  private static let limit = 100_000
  private static let problemLimit = 1000

  /// - Returns: the event to store for this page, if any; its `number` is 0 when it is new.
  func note(_ page: ImportedPage, of mirror: Int64, at now: Int64, identifier: String) -> StoredEvent? {
    if positions.count >= Self.limit { positions = [:] }
    positions[mirror] = page.sequence
    guard !page.isEmpty || runs[mirror] != nil else { return nil }
    let isNew = runs[mirror] == nil
    var run = runs[mirror] ?? Run(event: StoredEvent(identifier: identifier, kind: .import, startedAt: now, succeeded: true))
    run.event.savedCount += page.savedCount
    run.event.deletedCount += page.deletedCount
    run.problems += page.problems.prefix(Self.problemLimit - run.problems.count)
    if !run.problems.isEmpty {
      run.event.succeeded = false
      run.event.errorJSON = MirrorErrors.partialFailure(run.problems)
    }
    if page.moreComing {
      if runs.count >= Self.limit { runs = [:] }
      runs[mirror] = run
      return isNew ? run.event : nil
    }
    runs[mirror] = nil
    run.event.endedAt = now
    return run.event
  }

  /// The number the start of a run's event was stored under.
  func stored(_ number: Int64, of mirror: Int64) { runs[mirror]?.event.number = number }

  /// How far the store had come with its last page; nil when that is not known.
  func position(of mirror: Int64) -> Int64? { positions[mirror] }

  func forget(_ mirror: Int64) {
    runs[mirror] = nil
    positions[mirror] = nil
  }
}
