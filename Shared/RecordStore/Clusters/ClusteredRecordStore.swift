// Keeps the shards of an installation in several clusters of PostgreSQL, and moves them between these while they serve.

import Assets
import Synchronization

/// Opens each shard in the cluster where it is.
///
/// The directory's word is where it looks first. The shards themselves decide: one that has left has the number of its
/// move, and is looked for in all clusters.
public final class ClusteredRecordStore: RecordStore {
  private struct Shard {
    /// As the directory has it.
    var told: ShardPlacement?
    var opened: ShardPlacement?
    weak var store: SQLiteShardStore?
    var move: Task<Void, Never>?

    mutating func note(_ store: SQLiteShardStore, in cluster: String) {
      self.store = store
      opened = ShardPlacement(cluster: cluster, target: told?.target == cluster ? nil : told?.target)
      move = nil
    }
  }

  public let shardCount: Int
  private let clusters: [String: PostgreSQLConfiguration]
  private let stores: [String: PostgreSQLRecordStore]
  private let report: @Sendable (_ news: String) -> Void
  private let shards = Mutex<[Int: Shard]>([:])
  /// The last move or removal. Each waits for the one before.
  private let lastWork = Mutex<Task<Void, Never>?>(nil)
  /// Called before each step of a move with its number. Tests end a move by an error.
  let willTake: @Sendable (_ shard: Int, _ step: Int) async throws -> Void

  /// How long a shard that could not move waits for its next turn.
  private static let pause = Duration.seconds(10)
  private static let tidyPause = Duration.seconds(60)

  /// - Parameters:
  ///   - clusters: by name. They have the same prefix of schemas.
  ///   - problem: as `report` of the engines' stores.
  ///   - report: called with a sentence about each shard that has moved, and each failure.
  /// - Throws: `StoreError.io`.
  public convenience init(
    _ clusters: [String: PostgreSQLConfiguration], shardCount: Int,
    problem: @escaping @Sendable (_ problem: String) -> Void = { _ in },
    report: @escaping @Sendable (_ news: String) -> Void = { _ in }
  ) throws(StoreError) {
    try self.init(clusters, shardCount: shardCount, problem: problem, report: report, willTake: { _, _ in })
  }

  init(
    _ clusters: [String: PostgreSQLConfiguration], shardCount: Int,
    problem: @escaping @Sendable (_ problem: String) -> Void = { _ in },
    report: @escaping @Sendable (_ news: String) -> Void = { _ in },
    makeIncarnation: (@Sendable () -> UInt64)? = nil, now: (@Sendable () -> Int64)? = nil,
    willTake: @escaping @Sendable (_ shard: Int, _ step: Int) async throws -> Void
  ) throws(StoreError) {
    precondition(!clusters.isEmpty, "a store has at least one cluster")
    self.clusters = clusters
    self.shardCount = shardCount
    self.report = report
    self.willTake = willTake
    var stores: [String: PostgreSQLRecordStore] = [:]
    for (name, configuration) in clusters {
      stores[name] = try PostgreSQLRecordStore(
        configuration, shardCount: shardCount, makeIncarnation: makeIncarnation, now: now, report: problem)
    }
    self.stores = stores
  }

  // MARK: Opening

  public func open(shard: Int, knownEpoch epoch: Int64) async throws -> any ShardStore {
    let told = shards.withLock { $0[shard]?.told?.cluster }
    let first = told ?? (clusters.count == 1 ? clusters.keys.first : nil) ?? ClusterAddress.main
    let (cluster, opened) = try await openWhereItIs(shard, epoch, first)
    guard let store = opened as? SQLiteShardStore else { return opened }
    shards.withLock { $0[shard, default: Shard()].note(store, in: cluster) }
    inTurn { await self.tidy(store, cluster) }
    moveIfAsked(shard)
    return store
  }

  private func openWhereItIs(_ shard: Int, _ epoch: Int64, _ first: String) async throws -> (String, any ShardStore) {
    func open(_ cluster: String, _ epoch: Int64) async throws -> (String, any ShardStore) {
      guard let store = stores[cluster] else {
        throw StoreError.foreign("shard \(shard) is in the cluster \(cluster), which --records does not name")
      }
      let opened = try await store.open(shard: shard, knownEpoch: epoch)
      return (cluster, opened)
    }
    // A shard may be made only where none is anywhere.
    if epoch == 0, clusters.count > 1, let found = try await find(shard) { return try await open(found, 1) }
    do {
      return try await open(first, epoch)
    } catch StoreError.foreign(let reason) {
      guard let found = try await find(shard), found != first else { throw StoreError.foreign(reason) }
      return try await open(found, max(epoch, 1))
    }
  }

  /// The cluster that has the shard; nil: none. Takes the last step of a move that was interrupted there.
  private func find(_ shard: Int) async throws -> String? {
    let clusters = clusters.sorted { $0.key < $1.key }
    return try await WorkerThread.value("find \(shard)") {
      var present: [String] = []
      var left: [(name: String, standing: ShardStanding)] = []
      for (name, configuration) in clusters {
        guard let standing = try configuration.look(atShard: shard) else { continue }
        if standing.move == nil { present.append(name) } else { left.append((name, standing)) }
      }
      if present.count > 1 {
        throw StoreError.foreign("shard \(shard) is in several clusters: \(present.joined(separator: ", "))")
      }
      if let name = present.first { return name }
      guard let last = left.max(by: { $0.standing.epoch < $1.standing.epoch }), let move = last.standing.move,
        left.contains(where: { $0.name != last.name && $0.standing.move == move })
      else { return nil }
      try clusters.first { $0.key == last.name }?.value.admit(shard: shard, move: move)
      return last.name
    }
  }

  public func holder(ofShard shard: Int) -> String? { nil }

  // MARK: Moving

  public func follow(_ placements: [ShardPlacement]) {
    for (number, told) in placements.enumerated() {
      let ended = shards.withLock { shards -> Task<Void, Never>? in
        var shard = shards[number] ?? Shard()
        defer { shards[number] = shard }
        let isOther = shard.told?.target != told.target
        shard.told = told
        let cluster = shard.opened?.cluster
        shard.opened?.target = told.target == cluster ? nil : told.target
        guard isOther else { return nil }
        shard.opened?.problem = nil
        defer { shard.move = nil }
        return shard.move
      }
      ended?.cancel()
      moveIfAsked(number)
    }
  }

  public func placement(ofShard shard: Int) -> ShardPlacement? { shards.withLock { $0[shard]?.opened } }

  /// Begins the move of an open shard, unless one is under way.
  private func moveIfAsked(_ shard: Int) {
    shards.withLock { shards in
      guard let state = shards[shard], state.move == nil, let opened = state.opened, let target = opened.target,
        let store = state.store, let from = clusters[opened.cluster]
      else { return }
      guard let to = clusters[target] else {
        shards[shard]?.opened?.problem = "--records does not name the cluster \(target)"
        return
      }
      shards[shard]?.move = inTurn { await self.move(store, from, to, target) }
    }
  }

  private func move(
    _ store: SQLiteShardStore, _ source: PostgreSQLConfiguration, _ target: PostgreSQLConfiguration, _ name: String
  ) async {
    let shard = store.shard
    let isOver = ReadCancellation()
    let move = ShardMove(
      store: store, shardCount: shardCount, source: source, target: target, isOver: { isOver.isCancelled },
      report: { count in self.shards.withLock { $0[shard]?.opened?.movedRowCount? += count } },
      willTake: { try await self.willTake(shard, $0) })
    note(store) { $0.movedRowCount = 0 }
    do {
      let count = try await withTaskCancellationHandler {
        try await move.run()
      } onCancel: {
        isOver.cancel()
      }
      shards.withLock { $0[shard]?.told?.cluster = name }
      report("shard \(shard) has moved to the cluster \(name), with \(count) rows")
      let next: PendingCommit<Void> = store.enqueue { _ in }
      try await next.value
    } catch StoreError.fenced, StoreError.closed, is CancellationError {
      // Dropped because that is how the owner notices, or another one has the shard, or the move was taken back.
      note(store) { $0.movedRowCount = nil }
    } catch {
      report("shard \(shard) could not move to the cluster \(name), and tries again: \(error)")
      note(store) {
        $0.movedRowCount = nil
        $0.problem = "\(error)"
      }
      if Task.isCancelled { return }
      let next = Task {
        // Dropped because a cancelled pause ends the tries.
        guard (try? await Task.sleep(for: Self.pause)) != nil else { return }
        await self.inTurn { await self.move(store, source, target, name) }.value
      }
      shards.withLock { if $0[shard]?.store === store, $0[shard]?.opened?.target == name { $0[shard]?.move = next } }
    }
  }

  private func note(_ store: SQLiteShardStore, _ change: (inout ShardPlacement) -> Void) {
    shards.withLock { shards in
      guard shards[store.shard]?.store === store, var opened = shards[store.shard]?.opened else { return }
      change(&opened)
      shards[store.shard]?.opened = opened
    }
  }

  /// Removes what moves have left of an open shard.
  private func tidy(_ store: SQLiteShardStore, _ cluster: String) async {
    let others = clusters.filter { $0.key != cluster }.sorted { $0.key < $1.key }
    do {
      guard let own = clusters[cluster] else { return }
      let pending: PendingCommit<Void> = store.enqueue(of: "", runsAlone: true) { transaction in
        guard case .postgreSQL(let session) = transaction.session.connection,
          try MoveLog.isThere(own, shard: transaction.shard, session)
        else { return }
        try MoveLog.end(own, shard: transaction.shard, session)
      }
      try await pending.value
      for (name, configuration) in others {
        let isRemoved = try await WorkerThread.value("tidy \(store.shard)") {
          try configuration.removeCopy(ofShard: store.shard, knownTo: store.epoch)
        }
        if isRemoved { report("shard \(store.shard) has no copy in the cluster \(name) any more") }
      }
    } catch StoreError.fenced, StoreError.closed {
      // Dropped because the next owner does it.
    } catch {
      // Dropped because it is tried again, and a copy that was left harms nobody.
      Task { [weak store] in
        // Dropped because nothing cancels this task.
        try? await Task.sleep(for: Self.tidyPause)
        guard let store else { return }
        self.inTurn { await self.tidy(store, cluster) }
      }
    }
  }

  @discardableResult private func inTurn(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    lastWork.withLock { last in
      let before = last
      let next = Task {
        await before?.value
        if !Task.isCancelled { await work() }
      }
      last = next
      return next
    }
  }
}
