// An open shard as its owner holds it, and what the owner shares with the shard's threads.

import Assets
import Glibc
public import Records
import SQLite
import Synchronization

/// What a shard's owner, its writer and its readers share.
final class ShardCore: Sendable {
  private struct State {
    var failure: StoreError?
    var isFinished = false
    var closers: [CheckedContinuation<Void, Never>] = []
  }

  let shard: Int
  let epoch: Int64
  private let path: String
  let options: SQLiteRecordStore.Options
  let queue: BlockingQueue<any QueuedBody>
  let readers: ShardReaders
  let statistics = SharedStatistics()
  let committedMirrors = CommittedMirrors()
  private let state = Mutex(State())

  /// - Parameter path: of the database file.
  init(shard: Int, epoch: Int64, path: String, options: SQLiteRecordStore.Options, readers: ShardReaders) throws(StoreError) {
    self.shard = shard
    self.path = path
    self.epoch = epoch
    self.options = options
    self.readers = readers
    queue = try BlockingQueue(limit: options.queueLimit)
  }

  /// Why the shard takes no more writes; nil while it does.
  var failure: StoreError? { state.withLock { $0.failure } }

  /// Length of the database file, without its log.
  var databaseByteCount: Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  func fail(_ failure: StoreError) {
    state.withLock { state in
      if state.failure == nil { state.failure = failure }
    }
  }

  /// The writer has ended and the file is closed.
  func finish() {
    let closers = state.withLock { state in
      state.isFinished = true
      defer { state.closers = [] }
      return state.closers
    }
    for closer in closers { closer.resume() }
  }

  func waitUntilFinished() async {
    await withCheckedContinuation { continuation in
      let isFinished = state.withLock { state in
        if !state.isFinished { state.closers.append(continuation) }
        return state.isFinished
      }
      if isFinished { continuation.resume() }
    }
  }
}

/// A shard in a SQLite file of its own. Letting go of it closes it as `close` does, only later.
public final class SQLiteShardStore: ShardStore {
  private let core: ShardCore
  /// Keeps the reader threads alive.
  private let pool: ReaderPool
  let assets: AssetStore?

  init(_ core: ShardCore, pool: ReaderPool, assets: AssetStore?) {
    self.core = core
    self.pool = pool
    self.assets = assets
  }

  deinit { core.queue.close() }

  public var shard: Int { core.shard }
  public var epoch: Int64 { core.epoch }

  public func enqueue<Value: Sendable>(_ body: @escaping @Sendable (any ShardTransaction) throws -> Value) -> PendingCommit<Value> {
    enqueue(QueuedCommit(body))
  }

  private func enqueue<Value: Sendable>(_ commit: QueuedCommit<Value>) -> PendingCommit<Value> {
    switch core.queue.push(commit) {
    case .pushed: break
    case .full:
      core.statistics.update { $0.overloads += 1 }
      commit.settle(StoreError.overloaded(shard: shard))
    case .closed: commit.settle(StoreError.closed(shard: shard))
    }
    return commit
  }

  public func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    enqueue(QueuedCommit(runsAlone: true) { transaction in try (transaction as? SQLiteTransaction)?.collectAssets(orphanedBefore: cutoff, limit: limit) ?? 0 })
  }

  public func removeUnknownFiles(inFolder folder: Int) -> PendingCommit<Int> {
    enqueue(QueuedCommit(runsAlone: true) { transaction in try (transaction as? SQLiteTransaction)?.removeUnknownFiles(inFolder: folder) ?? 0 })
  }

  public func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    try await read(within: core.options.readTime, body)
  }

  public func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror? {
    core.committedMirrors[CommittedMirrors.Name(database: database, identifier: identifier)]
  }

  /// - Parameter time: how long it may take, waiting included.
  func read<Value: Sendable>(within time: Duration, _ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    // A shard that failed to sync shows nothing either: what it would show may be gone after a power cut.
    if case .io(let reason) = failure { throw StoreError.io(reason) }
    core.statistics.update { $0.reads += 1 }
    return try await withCheckedThrowingContinuation { continuation in
      core.readers.submit(SnapshotRead(shard: shard, body: body, continuation: continuation), within: time)
    }
  }

  public func close() async {
    core.queue.close()
    await core.waitUntilFinished()
  }

  public var statistics: [StoreStatistic] {
    let (long, givenUp) = core.readers.longReadCounts
    return core.statistics.current.list(
      queueLength: core.queue.count, longReads: long, givenUpReads: givenUp, isFailed: failure != nil, databaseByteCount: core.databaseByteCount)
  }

  public var distributions: [StoreDistribution] {
    let statistics = core.statistics.current
    return [statistics.commitBodies, statistics.commitDurations, statistics.syncDurations]
  }

  public var failure: StoreError? { core.failure }
}

/// A body that reads, and the task that waits for it.
private struct SnapshotRead<Value: Sendable>: QueuedRead {
  let shard: Int
  let body: @Sendable (any ShardSnapshot) throws -> Value
  let continuation: CheckedContinuation<Value, any Error>

  func run(in snapshot: SQLiteSnapshot, isCutShort: () -> Bool) -> Bool {
    let result = Result { try body(snapshot) }
    if isCutShort() { return false }
    continuation.resume(with: result.mapError { error in (error as? SQLiteError).map { StoreError($0, shard: shard) } ?? error })
    return true
  }

  func fail(_ error: any Error) { continuation.resume(throwing: error) }
}
