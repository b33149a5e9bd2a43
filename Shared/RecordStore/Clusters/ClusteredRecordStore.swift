// Keeps the shards of an installation in several clusters of PostgreSQL, and moves them between these while they serve.

import Assets
import Synchronization

/// Opens each shard in the cluster where it is.
///
/// The directory's word is where it looks first. The shards themselves decide: one that has left has the number of its
/// move, and is looked for in all clusters.
public final class ClusteredRecordStore: RecordStore {
  struct Shard {
    /// As the directory has it.
    var told: ShardPlacement?
    var opened: ShardPlacement?
    weak var store: SQLiteShardStore?
    /// The move under way, or the pause before its next try.
    var move: Task<Void, Never>?
    /// The number of the last move. One that was given up finds another number, or no move.
    var moveNumber = 0
    /// The tries that have failed one after the other.
    var failureCount = 0
    /// The first removal of copies since the opening. A move that replaces one waits for it.
    var removal: Task<Void, Never>?
    /// Another cluster had the shard for its own as well. The next opening asks all clusters first.
    var isDoubtful = false

    mutating func note(_ store: SQLiteShardStore, in cluster: String) {
      self.store = store
      opened = ShardPlacement(
        cluster: cluster, target: told?.target == cluster ? nil : told?.target, split: told?.split)
      move = nil
      failureCount = 0
      isDoubtful = false
    }
  }

  public let shardCount: Int
  let clusters: [String: PostgreSQLConfiguration]
  private let stores: [String: PostgreSQLRecordStore]
  let report: @Sendable (_ news: String) -> Void
  let shards = Mutex<[Int: Shard]>([:])
  /// All clusters that the installation is known to have.
  private let named = Mutex<Set<String>>([])
  /// Moves, and the removal of their logs, which must not meet a move.
  let moves = Turns()
  /// The removal of copies. Apart, because a cluster that is away must not hold up moves between others.
  let removals = Turns()
  /// The last steps of divisions. Apart, because a half of a shard is out of service until then.
  let endings = Turns()
  /// Called before each step of a move with its number. Tests end a move by an error.
  let willTake: @Sendable (_ shard: Int, _ step: Int) async throws -> Void

  /// How long a shard that could not move waits for its next turn, the first time.
  private let pause: Duration

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
    pause: Duration = .seconds(2),
    willTake: @escaping @Sendable (_ shard: Int, _ step: Int) async throws -> Void
  ) throws(StoreError) {
    precondition(!clusters.isEmpty, "a store has at least one cluster")
    self.clusters = clusters
    self.shardCount = shardCount
    self.report = report
    self.pause = pause
    self.willTake = willTake
    var stores: [String: PostgreSQLRecordStore] = [:]
    for (name, configuration) in clusters {
      stores[name] = try PostgreSQLRecordStore(
        configuration, shardCount: shardCount, makeIncarnation: makeIncarnation, now: now, report: problem)
    }
    self.stores = stores
  }

  // MARK: Opening

  public func open(shard: Int, knownEpoch epoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    let told = shards.withLock { $0[shard]?.told }
    // One that was split off is never made.
    let epoch = shard < shardCount ? epoch : max(epoch, 1)
    let first = told?.cluster ?? (clusters.count == 1 ? clusters.keys.first : nil) ?? ClusterAddress.main
    let (cluster, opened) = try await openWhereItIs(shard, epoch, bound, first, told)
    guard let store = opened as? SQLiteShardStore else { return opened }
    try await checkRenewed(store, since: epoch, isAccepted: bound > 0)
    shards.withLock { $0[shard, default: Shard()].note(store, in: cluster) }
    if store.pendingSplit != nil { endings.add { await self.endSplit(store) } }
    moves.add { await self.endLog(store, cluster) }
    let removal = removals.add { await self.removeCopies(store, cluster) }
    shards.withLock { $0[shard]?.removal = removal }
    moveIfAsked(shard)
    return store
  }

  private func openWhereItIs(
    _ shard: Int, _ epoch: Int64, _ bound: Int64, _ first: String, _ told: ShardPlacement?
  ) async throws -> (String, any ShardStore) {
    func open(_ cluster: String, _ epoch: Int64) async throws -> (String, any ShardStore) {
      guard let store = stores[cluster] else {
        throw StoreError.foreign("shard \(shard) is in the cluster \(cluster), which --records does not name")
      }
      let opened = try await store.open(shard: shard, knownEpoch: epoch, renewingBelow: bound)
      return (cluster, opened)
    }
    if epoch == 0 {
      // A shard may be made only where none is anywhere.
      let others = named.withLock { $0.subtracting(clusters.keys) }
      if clusters.count > 1 || !others.isEmpty, let found = try await find(shard, askingAll: true) {
        return try await open(found, 1)
      }
      if let other = others.min() {
        throw StoreError.foreign(
          "shard \(shard) is new to the directory, and could be in the cluster \(other), which --records does not name")
      }
    }
    let isDoubtful = bound == 0 && shards.withLock { $0[shard]?.isDoubtful == true }
    if isDoubtful || told?.arrival != nil,
      let found = try await find(shard, askingAll: isDoubtful, arrival: told?.arrival)
    {
      return try await open(found, max(epoch, 1))
    }
    do {
      return try await open(first, epoch)
    } catch StoreError.foreign(let reason) {
      guard let found = try await find(shard, askingAll: false), found != first else {
        throw StoreError.foreign(reason)
      }
      return try await open(found, max(epoch, 1))
    } catch StoreError.unreachable(let reason) {
      // The directory may not have heard of the end of a move.
      guard epoch > 0, let target = told?.target, await hasArrived(shard, in: target) else {
        throw StoreError.unreachable(reason)
      }
      return try await open(target, epoch)
    }
  }

  private func hasArrived(_ shard: Int, in target: String) async -> Bool {
    guard let configuration = clusters[target] else { return false }
    // Dropped because a cluster that is away as well is tried again with the other one.
    let standing = try? await WorkerThread.value("find \(shard)") { try configuration.look(atShard: shard) }
    return standing?.hasArrived == true
  }

  /// Closes a shard whose epoch is a renewed one if another cluster has the shard as well: its own may have been
  /// brought back to before a move. Its epoch would keep the directory from the other one.
  /// - Parameter isAccepted: whether the operator has accepted the shard's losses. Then a cluster that is away, and
  ///   perhaps lost, does not matter.
  private func checkRenewed(_ store: SQLiteShardStore, since known: Int64, isAccepted: Bool) async throws {
    // A shard that was split off and never opened has its source's epoch, and the directory knows the first one.
    let isOpened = store.shard < shardCount || known > 1
    guard clusters.count > 1, known > 0, isOpened, ShardRenewal.isRenewed(store.epoch, since: known) else { return }
    do {
      _ = try await find(store.shard, askingAll: !isAccepted)
    } catch {
      shards.withLock { $0[store.shard]?.isDoubtful = true }
      await store.close()
      throw error
    }
  }

  /// The cluster that has the shard; nil: none. Takes the last step of a move, or of a division, that was interrupted
  /// there.
  private func find(_ shard: Int, askingAll: Bool, arrival: Int64? = nil) async throws -> String? {
    let clusters = clusters
    return try await WorkerThread.value("find \(shard)") {
      var search = ShardSearch(shard: shard)
      for (name, configuration) in clusters.sorted(by: { $0.key < $1.key }) {
        do {
          search.note(try configuration.look(atShard: shard), in: name)
        } catch {
          search.note(error)
        }
      }
      switch try search.finding(askingAll: askingAll, arrival: arrival) {
      case .nowhere: return nil
      case .present(let cluster): return cluster
      case .arrived(let cluster, let move):
        try clusters[cluster]?.admit(shard: shard, move: move)
        return cluster
      }
    }
  }

  public func holder(ofShard shard: Int) -> String? { nil }

  // MARK: Moving

  public func follow(_ placements: [ShardPlacement], named: Set<String>) {
    self.named.withLock { $0 = named }
    for (number, told) in placements.enumerated() {
      let ended = shards.withLock { shards -> Task<Void, Never>? in
        var shard = shards[number] ?? Shard()
        defer { shards[number] = shard }
        let isOther = shard.told?.target != told.target || shard.told?.split != told.split
        shard.told = told
        let cluster = shard.opened?.cluster
        shard.opened?.target = told.target == cluster ? nil : told.target
        shard.opened?.split = told.split
        guard isOther else { return nil }
        shard.opened?.problem = nil
        shard.failureCount = 0
        defer { shard.move = nil }
        return shard.move
      }
      ended?.cancel()
      moveIfAsked(number)
    }
  }

  public func placement(ofShard shard: Int) -> ShardPlacement? { shards.withLock { $0[shard]?.opened } }

  /// Begins the move of an open shard, unless one is under way.
  func moveIfAsked(_ shard: Int) {
    shards.withLock { shards in
      guard let state = shards[shard], state.move == nil, let opened = state.opened, let store = state.store else {
        return
      }
      var split = opened.split
      if opened.target != nil || split?.part != store.part(of: shardCount) { split = nil }
      guard let target = opened.target ?? split?.cluster else { return }
      guard clusters[target] != nil else {
        shards[shard]?.opened?.problem = "--records does not name the cluster \(target)"
        return
      }
      // The end of the last step asks again.
      if split != nil, store.pendingSplit != nil { return }
      let number = state.moveNumber + 1
      shards[shard]?.moveNumber = number
      let newShard = split?.shard
      shards[shard]?.move = moves.add {
        await self.move(store, from: opened.cluster, to: target, newShard, number)
      }
    }
  }

  /// - Parameter newShard: gets a half of the databases; nil: all move.
  private func move(
    _ store: SQLiteShardStore, from cluster: String, to name: String, _ newShard: Int?, _ number: Int
  ) async {
    guard let source = clusters[cluster], let target = clusters[name] else { return }
    let shard = store.shard
    await shards.withLock { $0[shard]?.removal }?.value
    let isOver = ReadCancellation()
    let move = ShardMove(
      store: store, shardCount: shardCount, source: source, target: target, newShard: newShard, targetName: name,
      isOver: { isOver.isCancelled },
      report: { count in self.shards.withLock { $0[shard]?.opened?.movedRowCount? += count } },
      willTake: { try await self.willTake(shard, $0) })
    note(store) { $0.movedRowCount = 0 }
    do {
      let count = try await withTaskCancellationHandler {
        try await move.run()
      } onCancel: {
        isOver.cancel()
      }
      if let newShard {
        report("shard \(newShard) was split off shard \(shard) into the cluster \(name), with \(count) rows")
      } else {
        shards.withLock { $0[shard]?.told?.cluster = name }
        report("shard \(shard) has moved to the cluster \(name), with \(count) rows")
      }
      let next: PendingCommit<Void> = store.enqueue { _ in }
      try await next.value
      return
    } catch StoreError.fenced, StoreError.closed, is CancellationError {
      // Dropped because that is how the owner notices, or another one has the shard, or the move was taken back.
      note(store) { $0.movedRowCount = nil }
    } catch {
      note(store) { $0.movedRowCount = nil }
      if !Task.isCancelled {
        let isNews = shards.withLock { $0[shard]?.opened?.problem != "\(error)" }
        let what = newShard == nil ? "move to" : "be divided into"
        if isNews { report("shard \(shard) could not \(what) the cluster \(name), and tries again: \(error)") }
        note(store) { $0.problem = "\(error)" }
        moveLater(shard, number)
      }
    }
    moves.add { await self.endLog(store, cluster) }
  }

  /// Tries a move again after a pause, unless it is taken back, or the shard is opened anew.
  private func moveLater(_ shard: Int, _ number: Int) {
    @Sendable func isSame(_ state: Shard?) -> Bool { state?.moveNumber == number && state?.move != nil }
    // A copy of all rows that fails again and again must not be all that the clusters do.
    let failureCount = shards.withLock { $0[shard]?.failureCount ?? 0 }
    let wait = pause * (1 << min(failureCount, 5))
    let nextTry = Task {
      // Dropped because a cancelled pause ends the tries.
      guard (try? await Task.sleep(for: wait)) != nil else { return }
      shards.withLock { if isSame($0[shard]) { $0[shard]?.move = nil } }
      moveIfAsked(shard)
    }
    let isTakenBack = shards.withLock { shards in
      guard isSame(shards[shard]) else { return true }
      shards[shard]?.move = nextTry
      shards[shard]?.failureCount += 1
      return false
    }
    if isTakenBack { nextTry.cancel() }
  }

  func note(_ store: SQLiteShardStore, _ change: (inout ShardPlacement) -> Void) {
    shards.withLock { shards in
      guard shards[store.shard]?.store === store, var opened = shards[store.shard]?.opened else { return }
      change(&opened)
      shards[store.shard]?.opened = opened
    }
  }
}
