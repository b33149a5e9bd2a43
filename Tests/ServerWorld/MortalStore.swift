// A layer between a worker and its files that simulates the process's death: from some commit on, nothing is written.

import RecordStore
import Records
import Synchronization

/// The remaining life of a worker's process, and its current work.
final class Mortality: Sendable {
  private struct State {
    /// Commits that still succeed; nil: any number.
    var remaining: Int?
    var underWay = 0
    var total = 0
    var files: (any RecordStore)?
  }

  private let state = Mutex(State())

  /// The layer over these files.
  func store(over files: any RecordStore) -> MortalStore {
    state.withLock { $0.files = files }
    return MortalStore(shardCount: files.shardCount, life: self)
  }

  /// Releases the files and their threads: a service and its in-memory bus keep each other alive.
  func end() { _ = state.withLock { $0.files.take() } }

  fileprivate var files: (any RecordStore)? { state.withLock { $0.files } }

  /// Dies after `count` more commits.
  func die(after count: Int) { state.withLock { $0.remaining = count } }
  var isDead: Bool { state.withLock { $0.remaining == 0 } }
  /// Commits, reads and openings under way.
  var underWay: Int { state.withLock { $0.underWay } }
  /// The number of operations that ever began.
  var total: Int { state.withLock { $0.total } }

  fileprivate func beginsCommit() -> Bool {
    state.withLock { state in
      if state.remaining == 0 { return false }
      state.remaining = state.remaining.map { $0 - 1 }
      state.underWay += 1
      state.total += 1
      return true
    }
  }

  fileprivate func beginsRead() -> Bool {
    state.withLock { state in
      if state.remaining == 0 { return false }
      state.underWay += 1
      state.total += 1
      return true
    }
  }

  fileprivate func ends() { state.withLock { $0.underWay -= 1 } }
}

struct MortalStore: RecordStore {
  let shardCount: Int
  let life: Mortality

  /// A dead process opens nothing: a raised epoch would not be in the copy of its files.
  func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    guard let files = life.files, life.beginsRead() else { throw StoreError.closed(shard: shard) }
    defer { life.ends() }
    let opened = try await files.open(shard: shard, knownEpoch: knownEpoch, renewingBelow: bound)
    return MortalShard(base: opened, life: life)
  }
  func holder(ofShard shard: Int) -> String? { life.files?.holder(ofShard: shard) }
}

private struct MortalShard: ShardStore {
  let base: any ShardStore
  let life: Mortality

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var isEpochStored: Bool { base.isEpochStored }
  var statistics: [StoreStatistic] { base.statistics }
  var distributions: [StoreDistribution] { base.distributions }
  var failure: StoreError? { base.failure }
  var failures: AsyncStream<StoreError> { base.failures }

  func turns(of party: String) -> any ShardStore { MortalShard(base: base.turns(of: party), life: life) }

  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    guard life.beginsCommit() else { return NoCommit<Value>(shard: shard) }
    let commit = base.enqueue(expecting: lookups, body)
    Task { [life] in
      // Dropped because the caller of the commit gets the error.
      _ = try? await commit.value
      life.ends()
    }
    return commit
  }

  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    guard life.beginsRead() else { throw StoreError.closed(shard: shard) }
    defer { life.ends() }
    return try await base.read(body)
  }

  func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror? {
    life.isDead ? nil : base.committedMirror(identifier, of: database)
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    life.isDead ? NoCommit<Int>(shard: shard) : base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }

  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    if life.isDead { throw StoreError.closed(shard: shard) }
    return try await base.removeUnknownContent(after: part)
  }

  func close() async { await base.close() }
  func verify(readsAssets: Bool) async throws -> VerificationReport { try await base.verify(readsAssets: readsAssets) }
  func copy(to place: BackupPlace) async throws -> ShardCopy { try await base.copy(to: place) }
}

/// The outcome of a commit in a dead process.
private struct NoCommit<Value: Sendable>: CommitOutcome {
  let shard: Int
  var value: Value { get async throws { throw StoreError.closed(shard: shard) } }
}
