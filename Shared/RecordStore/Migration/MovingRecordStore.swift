// Lets workers serve shards while these move to another place, one at a time.

import Assets
import Synchronization

/// Opens each shard in the place where it is, and moves those of the source, one after the other.
///
/// A shard that moves answers reads. Its writes wait, because the copy is made in the turn of a write. Afterwards its
/// owner finds another epoch, and opens it again: at the target.
public final class MovingRecordStore: RecordStore {
  public let shardCount: Int
  private let migration: StoreMigration
  private let source, target: any RecordStore
  private let report: @Sendable (_ news: String) -> Void
  /// The move of the shard that was opened last. Each waits for the one before.
  private let lastMove = Mutex<Task<Void, Never>?>(nil)

  /// How long a shard that could not move waits for its next turn.
  private static let pause = Duration.seconds(10)

  /// - Parameters:
  ///   - source: the place that the shards leave. Both places have the installation's identifier.
  ///   - problem: as `report` of the engines' stores.
  ///   - report: called with a sentence about each shard that has moved, and each failure.
  /// - Throws: `StoreError.io`, `.full`.
  public convenience init(
    from source: ShardPlace, to target: ShardPlace, shardCount: Int,
    problem: @escaping @Sendable (_ problem: String) -> Void = { _ in },
    report: @escaping @Sendable (_ news: String) -> Void
  ) throws(StoreError) {
    try self.init(from: source.engine, to: target.engine, shardCount: shardCount, problem: problem, report: report)
  }

  init(
    from source: any MigrationPlace, to target: any MigrationPlace, shardCount: Int,
    problem: @escaping @Sendable (_ problem: String) -> Void = { _ in },
    report: @escaping @Sendable (_ news: String) -> Void
  ) throws(StoreError) {
    self.shardCount = shardCount
    self.report = report
    migration = StoreMigration(from: source, to: target)
    self.source = try source.store(shardCount: shardCount, report: problem)
    self.target = try target.store(shardCount: shardCount, report: problem)
  }

  public func open(shard: Int, knownEpoch epoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    do {
      let store = try await source.open(shard: shard, knownEpoch: epoch, renewingBelow: bound)
      if let store = store as? SQLiteShardStore { moveInTurn(store) }
      return store
    } catch StoreError.foreign(let reason) {
      // It has moved, so it is never made anew: a known epoch says that there is one.
      let epoch = max(epoch, 1)
      do {
        return try await target.open(shard: shard, knownEpoch: epoch, renewingBelow: bound)
      } catch StoreError.foreign(let other) {
        // The last step of the move may be missing.
        try await WorkerThread.value("move \(shard)") { [migration] in
          guard case .admit(let move, isAtTarget: true) = try migration.step(of: shard) else {
            throw StoreError.foreign("\(reason); \(other)")
          }
          try migration.target.admit(shard: shard, move: move)
        }
        return try await target.open(shard: shard, knownEpoch: epoch, renewingBelow: bound)
      }
    }
  }

  public func holder(ofShard shard: Int) -> String? {
    source.holder(ofShard: shard) ?? target.holder(ofShard: shard)
  }

  private func moveInTurn(_ store: SQLiteShardStore) {
    lastMove.withLock { last in
      let before = last
      last = Task {
        await before?.value
        await self.move(store)
      }
    }
  }

  /// Moves an open shard, and lets its owner notice.
  private func move(_ store: SQLiteShardStore) async {
    do {
      let count = try await migration.copy(
        store, shardCount: store.modulus(shardCount), installation: migration.source.installation?.text)
      report("shard \(store.shard) has moved to \(migration.target.name), with \(count) rows")
      let next: PendingCommit<Void> = store.enqueue { _ in }
      try await next.value
    } catch StoreError.fenced, StoreError.closed, is CancellationError {
      // Dropped because that is how the owner notices, or another one has the shard.
    } catch {
      report("shard \(store.shard) could not move, and tries again: \(error)")
      Task {
        try await Task.sleep(for: Self.pause)
        self.moveInTurn(store)
      }
    }
  }
}
