// The counters of a shard.

import Synchronization

/// Counters since the opening. The writer updates them once a group, readers once a read.
struct ShardStatistics: Sendable {
  var commits = 0
  var bodies = 0
  var refusedBodies = 0
  var failedGroups = 0
  /// Look-ups of bodies that an engine across a network had to make one by one, because nobody had announced them.
  var unexpectedLookups = 0
  var records = 0
  var recordBytes = 0
  var largestGroup = 0
  /// The time from BEGIN to the end of the last body.
  var bodySeconds = 0.0
  /// The time in COMMIT, which writes and syncs the log.
  var commitSeconds = 0.0
  var logPages = 0
  /// Pages that the commits of groups wrote to the log.
  private var writtenLogPages = 0
  var checkpoints = 0
  var checkpointPages = 0
  var checkpointSeconds = 0.0
  var checkpointFailures = 0
  /// Checkpoints that kept readers out because the log had grown too long.
  var exclusiveCheckpoints = 0
  var sweptRecords = 0
  /// Records added to new indexes, and entries removed from dropped ones.
  var indexedRecords = 0
  /// Commits of such work.
  var indexSlices = 0
  /// Objects noted in databases that got their first store, and commits of such work.
  var placedRecords = 0
  var placementSlices = 0
  /// Damaged records that background work skipped.
  var passedOverRecords = 0
  /// Identifiers of purged transactions that were forgotten early because of a limit.
  var forgottenTransactions = 0
  var overloads = 0
  var reads = 0
  /// Distributions over groups: the writes of one commit, its duration, and the time for syncing the log.
  var commitBodies = StoreDistribution(name: "commit_bodies", bounds: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
  var commitDurations = StoreDistribution(name: "commit_duration_seconds", bounds: ShardStatistics.durationBounds)
  var syncDurations = StoreDistribution(name: "sync_duration_seconds", bounds: ShardStatistics.durationBounds)

  /// Seconds, from a tenth of a millisecond to ten seconds.
  private static let durationBounds = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
  ]

  /// A page and its header in the write-ahead log.
  static let logPageByteCount = 4096 + 24

  /// Notes the length of the log after a commit. A log that has restarted is shorter, and all of it was written since.
  mutating func note(logPages pages: Int) {
    writtenLogPages += pages < logPages ? pages : pages - logPages
    logPages = pages
  }

  func list(queueLength: Int, longReads: Int, givenUpReads: Int, isFailed: Bool, databaseByteCount: Int64)
    -> [StoreStatistic]
  {
    [
      ("commits_total", Double(commits)), ("bodies_total", Double(bodies)),
      ("bodies_refused_total", Double(refusedBodies)),
      ("unexpected_lookups_total", Double(unexpectedLookups)),
      ("groups_failed_total", Double(failedGroups)), ("records_written_total", Double(records)),
      ("record_bytes_written_total", Double(recordBytes)),
      ("group_bodies_max", Double(largestGroup)), ("body_seconds_total", bodySeconds),
      ("commit_seconds_total", commitSeconds),
      ("wal_bytes", Double(logPages * Self.logPageByteCount)), ("checkpoints_total", Double(checkpoints)),
      ("checkpoint_pages_total", Double(checkpointPages)), ("checkpoint_seconds_total", checkpointSeconds),
      ("checkpoint_failures_total", Double(checkpointFailures)),
      ("checkpoints_exclusive_total", Double(exclusiveCheckpoints)),
      ("swept_records_total", Double(sweptRecords)), ("indexed_records_total", Double(indexedRecords)),
      ("wal_pages_total", Double(writtenLogPages)), ("placed_records_total", Double(placedRecords)),
      ("placement_slices_total", Double(placementSlices)),
      ("index_slices_total", Double(indexSlices)),
      ("passed_over_records_total", Double(passedOverRecords)),
      ("transactions_forgotten_total", Double(forgottenTransactions)),
      ("overloads_total", Double(overloads)),
      ("reads_total", Double(reads)), ("reads_long_total", Double(longReads)),
      ("reads_given_up_total", Double(givenUpReads)),
      ("queue_length", Double(queueLength)), ("failed", isFailed ? 1 : 0),
      ("database_bytes", Double(databaseByteCount)),
    ].map(StoreStatistic.init)
  }
}

/// The statistics, shared between a shard's threads.
final class SharedStatistics: Sendable {
  private let statistics = Mutex(ShardStatistics())

  func update(_ change: (inout ShardStatistics) -> Void) { statistics.withLock { change(&$0) } }
  var current: ShardStatistics { statistics.withLock { $0 } }
}

extension Duration {
  /// The duration in seconds.
  var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
