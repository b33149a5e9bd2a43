// An open shard from its owner's side.

import Assets
import Crypto
public import Records
import SQLite
import Synchronization

/// A shard in a SQLite file of its own. Dropping it closes it like `close`, without waiting.
public final class SQLiteShardStore: ShardStore {
  let core: ShardCore
  /// Retained to keep the reader threads alive.
  let pool: ReaderPool
  let assets: (any AssetStore)?
  let keys: KeyRing

  init(_ core: ShardCore, pool: ReaderPool, assets: (any AssetStore)?, keys: KeyRing) {
    self.core = core
    part = core.extent.part
    self.keys = keys
    self.pool = pool
    self.assets = assets
  }

  deinit { core.queue.close() }

  public var shard: Int { core.shard }
  public var epoch: Int64 { core.epoch }
  public let part: ShardPart?
  public var pendingSplit: PendingSplit? { core.extent.pending }
  public var isEpochStored: Bool { core.isRaised.load(ordering: .sequentiallyConsistent) }

  public func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    enqueue(of: "", expecting: lookups, body)
  }

  public func enqueue<First: Sendable, Second: Sendable>(
    _ first: AnnouncedBody<First>, followedBy second: AnnouncedBody<Second>
  ) -> (PendingCommit<First>, PendingCommit<Second>) { enqueue(of: "", first, followedBy: second) }

  func enqueue<First: Sendable, Second: Sendable>(
    of party: String, _ first: AnnouncedBody<First>, followedBy second: AnnouncedBody<Second>
  ) -> (PendingCommit<First>, PendingCommit<Second>) {
    let commits = (
      QueuedCommit(in: core, of: party, runsAlone: false, expecting: first.lookups, first.body),
      QueuedCommit(in: core, of: party, runsAlone: false, expecting: second.lookups, second.body)
    )
    core.push(commits.0, followedBy: commits.1)
    return commits
  }

  public func turns(of party: String) -> any ShardStore { party.isEmpty ? self : ShardTurns(base: self, party: party) }

  /// - Parameter runsAlone: whether the body needs a commit of its own.
  func enqueue<Value: Sendable>(
    of party: String, runsAlone: Bool = false, expecting lookups: @escaping @Sendable () -> [ExpectedLookup] = { [] },
    _ body: @escaping @Sendable (SQLiteTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    let commit = QueuedCommit(in: core, of: party, runsAlone: runsAlone, expecting: lookups, body)
    core.push(commit)
    return commit
  }

  /// Collects nothing while the shard is being copied, because the copy links the files after it has read the rows.
  public func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    if core.copyCount.load(ordering: .sequentiallyConsistent) > 0 { return enqueue { _ in 0 } }
    let removal = ContentRemoval()
    return enqueue(of: "", runsAlone: true) {
      try $0.collectAssets(orphanedBefore: cutoff, limit: limit, by: removal)
    }
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
    let commit = enqueue(of: "", runsAlone: true) { try $0.removeUnknown(found.hashes) }
    return RemovedContent(part: found.part, count: try await commit.value)
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
    var runCount = 1
    while true {
      do {
        return try await readOnce(within: time, isLong: isLong, of: party, body)
      } catch let calls as AssetCalls where runCount < AssetCalls.runLimit {
        runCount += 1
        do throws(AssetError) { try await calls.make(of: party) } catch { throw StoreError(error) }
      }
    }
  }

  private func readOnce<Value: Sendable>(
    within time: Duration, isLong: Bool, of party: String,
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
          let result = Result {
            try core.readers.readWhole(cancellation) { snapshot in
              try core.read(snapshot.session) { try body(snapshot, cancellation) }
            }
          }
          continuation.resume(
            with: result.mapError { error in (error as? any EngineError).map(core.readFailed) ?? error })
        }
        if !isAccepted { continuation.resume(throwing: StoreError.overloaded(shard: core.shard)) }
      }
    } onCancel: {
      cancellation.cancel()
    }
  }

  public func close() async {
    await core.endCalls()
    core.queue.close()
    await core.waitUntilFinished()
  }

  public var statistics: [StoreStatistic] {
    let (long, givenUp) = core.readers.longReadCounts
    return core.statistics.current.list(
      queueLength: core.queue.count, longReads: long, givenUpReads: givenUp, isFailed: failure != nil,
      databaseByteCount: core.databaseByteCount())
  }

  public var distributions: [StoreDistribution] {
    let statistics = core.statistics.current
    return [statistics.commitBodies, statistics.commitDurations, statistics.syncDurations]
  }

  public var failure: StoreError? { core.failure }
  public var outage: StoreError? { core.outage }
  public var failures: AsyncStream<StoreError> { core.failures }
}

/// A reading body and the continuation of its caller.
private struct SnapshotRead<Value: Sendable>: QueuedRead {
  let core: ShardCore
  let body: @Sendable (any ShardSnapshot) throws -> Value
  let continuation: CheckedContinuation<Value, any Error>

  func run(in snapshot: SQLiteSnapshot, isCutShort: () -> Bool) -> Bool {
    let result = Result { try core.read(snapshot.session) { try body(snapshot) } }
    if isCutShort() { return false }
    core.noteReach()
    continuation.resume(with: result.mapError(told))
    return true
  }

  func fail(_ error: any Error) { continuation.resume(throwing: told(error)) }

  private func told(_ error: any Error) -> any Error { (error as? any EngineError).map(core.readFailed) ?? error }
}
