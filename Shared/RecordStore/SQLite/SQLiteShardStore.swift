// An open shard from its owner's side, and the state that the owner shares with the shard's threads.

import Assets
import CLinux
import Crypto
import Glibc
public import Records
import SQLite
import Synchronization

/// The state that a shard's owner, its writer and its readers share.
final class ShardCore: Sendable {
  private struct State {
    var failure: StoreError?
    var isFinished = false
    var closers: [CheckedContinuation<Void, Never>] = []
  }

  let shard: Int
  let epoch: Int64
  /// True when the file has the raised epoch.
  let isRaised: Atomic<Bool>
  private let path: String
  let options: SQLiteRecordStore.Options
  let queue: BlockingQueue<any QueuedBody>
  let readers: ShardReaders
  let statistics = SharedStatistics()
  let committedMirrors = CommittedMirrors()
  /// The number of copies in progress.
  let copyCount = Atomic(0)
  let failures: AsyncStream<StoreError>
  private let tellFailure: AsyncStream<StoreError>.Continuation
  private let state = Mutex(State())

  /// - Parameter path: the database file.
  init(
    shard: Int, epoch: Int64, isRaised: Bool = true, path: String, options: SQLiteRecordStore.Options,
    readers: ShardReaders
  ) throws(StoreError) {
    self.shard = shard
    self.path = path
    self.epoch = epoch
    self.isRaised = Atomic(isRaised)
    self.options = options
    self.readers = readers
    (failures, tellFailure) = AsyncStream.makeStream(of: StoreError.self, bufferingPolicy: .bufferingOldest(1))
    queue = try BlockingQueue(limit: options.queueLimit, partyLimit: options.partyQueueLimit)
  }

  /// The reason why the shard accepts no more writes; nil while it does.
  var failure: StoreError? { state.withLock { $0.failure } }

  /// The length of the database file in bytes, without its log.
  var databaseByteCount: Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  func fail(_ failure: StoreError) {
    let isFirst = state.withLock { state in
      if state.failure != nil { return false }
      state.failure = failure
      return true
    }
    if isFirst { tellFailure.yield(failure) }
  }

  /// The error for every call after a failure; nil when there was none.
  var refusal: StoreError? {
    switch failure {
    case nil: nil
    case .fenced(let shard, let epoch): .fenced(shard: shard, epoch: epoch)
    default: .outOfService(shard: shard)
    }
  }

  /// Handles a failed statement of a read.
  /// - Returns: the error for the caller of the read.
  func readFailed(_ error: SQLiteError) -> StoreError {
    let failure = StoreError(error, shard: shard)
    if error.isCorruption || error.isReadError { fail(failure) }
    return failure
  }

  /// Notes that the writer has ended and the file is closed.
  func finish() {
    let closers = state.withLock { state in
      state.isFinished = true
      defer { state.closers = [] }
      return state.closers
    }
    tellFailure.finish()
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

/// A shard in a SQLite file of its own. Dropping it closes it like `close`, without waiting.
public final class SQLiteShardStore: ShardStore {
  let core: ShardCore
  /// Retained to keep the reader threads alive.
  let pool: ReaderPool
  let assets: (any AssetStore)?
  let keys: KeyRing

  init(_ core: ShardCore, pool: ReaderPool, assets: (any AssetStore)?, keys: KeyRing) {
    self.core = core
    self.keys = keys
    self.pool = pool
    self.assets = assets
  }

  deinit { core.queue.close() }

  public var shard: Int { core.shard }
  public var epoch: Int64 { core.epoch }
  public var isEpochStored: Bool { core.isRaised.load(ordering: .sequentiallyConsistent) }

  public func enqueue<Value: Sendable>(_ body: @escaping @Sendable (any ShardTransaction) throws -> Value)
    -> PendingCommit<Value>
  {
    enqueue(QueuedCommit(body))
  }

  public func turns(of party: String) -> any ShardStore { party.isEmpty ? self : ShardTurns(base: self, party: party) }

  func enqueue<Value: Sendable>(_ commit: QueuedCommit<Value>, of party: String = "") -> PendingCommit<Value> {
    switch core.queue.push(commit, of: party) {
    case .pushed: break
    case .full:
      core.statistics.update { $0.overloads += 1 }
      commit.settle(StoreError.overloaded(shard: shard))
    case .closed: commit.settle(StoreError.closed(shard: shard))
    }
    return commit
  }

  /// Collects nothing while the shard is being copied, because the copy links the files after it has read the rows.
  public func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    if core.copyCount.load(ordering: .sequentiallyConsistent) > 0 { return enqueue { _ in 0 } }
    return enqueue(QueuedCommit(runsAlone: true) { try $0.collectAssets(orphanedBefore: cutoff, limit: limit) })
  }

  /// Lists contents before the commit, so that the writer need not wait for the list.
  public func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    guard let assets else { return nil }
    let shard = shard
    let found: (part: Int, hashes: [[UInt8]])?
    do throws(AssetError) {
      found = try await assets.apart { assets throws(AssetError) in
        guard let next = try assets.parts(of: shard).first(where: { $0 > part ?? -1 }) else { return nil }
        return (next, try assets.hashes(in: next, of: shard))
      }
    } catch {
      throw StoreError(error)
    }
    guard let found else { return nil }
    let commit = QueuedCommit(runsAlone: true) { try $0.removeUnknown(found.hashes) }
    return RemovedContent(part: found.part, count: try await enqueue(commit).value)
  }

  public func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws
    -> Value
  {
    try await read(within: core.options.readTime, body)
  }

  public func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror? {
    // After a failure nil makes the caller read, which throws the error.
    core.failure == nil ? core.committedMirrors[CommittedMirrors.Name(database: database, identifier: identifier)] : nil
  }

  /// Runs a read.
  /// - Parameters:
  ///   - time: the most time that the read may take, including its wait.
  ///   - isLong: whether the read is known to take long.
  ///   - party: the party that the read belongs to.
  func read<Value: Sendable>(
    within time: Duration, isLong: Bool = false, of party: String = "",
    _ body: @escaping @Sendable (any ShardSnapshot) throws -> Value
  ) async throws -> Value {
    // After a failed sync reads are refused as well, because a power cut can undo the commit that they would show.
    if let refusal = core.refusal, case .outOfService = refusal { throw refusal }
    core.statistics.update { $0.reads += 1 }
    return try await withCheckedThrowingContinuation { continuation in
      core.readers.submit(
        SnapshotRead(core: core, body: body, continuation: continuation), within: time, of: party, isLong: isLong)
    }
  }

  /// Reads the whole shard, which takes a while, on a thread for such reads. The body runs again when the log has grown
  /// too long meanwhile.
  /// - Parameter body: gets a snapshot, and a cancellation to ask whether the caller still waits.
  func readWhole<Value: Sendable>(_ body: @escaping @Sendable (SQLiteSnapshot, ReadCancellation) throws -> Value)
    async throws -> Value
  {
    if let refusal = core.refusal, case .outOfService = refusal { throw refusal }
    core.statistics.update { $0.reads += 1 }
    let cancellation = ReadCancellation()
    let core = core
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isAccepted = pool.submitWhole {
          let result = Result { try core.readers.readWhole(cancellation) { try body($0, cancellation) } }
          continuation.resume(with: result.mapError { error in (error as? SQLiteError).map(core.readFailed) ?? error })
        }
        if !isAccepted { continuation.resume(throwing: StoreError.overloaded(shard: core.shard)) }
      }
    } onCancel: {
      cancellation.cancel()
    }
  }

  public func close() async {
    core.queue.close()
    await core.waitUntilFinished()
  }

  public var statistics: [StoreStatistic] {
    let (long, givenUp) = core.readers.longReadCounts
    return core.statistics.current.list(
      queueLength: core.queue.count, longReads: long, givenUpReads: givenUp, isFailed: failure != nil,
      databaseByteCount: core.databaseByteCount)
  }

  public var distributions: [StoreDistribution] {
    let statistics = core.statistics.current
    return [statistics.commitBodies, statistics.commitDurations, statistics.syncDurations]
  }

  public var failure: StoreError? { core.failure }
  public var failures: AsyncStream<StoreError> { core.failures }
}

/// A reading body and the continuation of its caller.
private struct SnapshotRead<Value: Sendable>: QueuedRead {
  let core: ShardCore
  let body: @Sendable (any ShardSnapshot) throws -> Value
  let continuation: CheckedContinuation<Value, any Error>

  func run(in snapshot: SQLiteSnapshot, isCutShort: () -> Bool) -> Bool {
    let result = Result { try body(snapshot) }
    if isCutShort() { return false }
    continuation.resume(with: result.mapError(told))
    return true
  }

  func fail(_ error: any Error) { continuation.resume(throwing: told(error)) }

  private func told(_ error: any Error) -> any Error { (error as? SQLiteError).map(core.readFailed) ?? error }
}
