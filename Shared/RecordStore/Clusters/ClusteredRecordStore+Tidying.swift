// What moves and divisions have left: their last steps, logs and copies.

import Assets
import Synchronization

extension ClusteredRecordStore {
  /// The first and the longest pause before the last step of a division is tried again.
  static let endingPause = Duration.milliseconds(200)
  private static let longestEndingPause = Duration.seconds(5)
  /// The first and the longest pause before what a move has left is removed again.
  static let tidyPause = Duration.seconds(60)
  private static let longestTidyPause = Duration.seconds(300)

  /// Returns when what moves have left is removed, or is going to be removed after a pause.
  func whenTidy() async {
    await endings.wait()
    await moves.wait()
    await removals.wait()
  }

  /// Takes the last step of a division.
  func endSplit(_ store: SQLiteShardStore, after pause: Duration = ClusteredRecordStore.endingPause) async {
    if store.core.queue.isClosed { return }
    do {
      try await SplitEnding(store: store, clusters: clusters).run()
      note(store) { $0.problem = nil }
      moveIfAsked(store.shard)
    } catch StoreError.fenced, StoreError.closed {
      // Dropped because the next owner does it.
    } catch {
      let problem = "the division of shard \(store.shard) waits for its last step: \(error)"
      if shards.withLock({ $0[store.shard]?.opened?.problem }) != problem { report(problem) }
      note(store) { $0.problem = problem }
      later(pause, store) { store in
        self.endings.add { await self.endSplit(store, after: min(pause * 2, Self.longestEndingPause)) }
      }
    }
  }

  /// Ends the log that a move has left of an open shard. Costs a read if there is none, as nearly always.
  func endLog(
    _ store: SQLiteShardStore, _ cluster: String, after pause: Duration = ClusteredRecordStore.tidyPause
  ) async {
    guard let own = clusters[cluster] else { return }
    do {
      let isThere = try await store.read { snapshot in
        guard case .postgreSQL(let session)? = (snapshot as? SQLiteSnapshot)?.session.connection else { return false }
        return try MoveLog.isThere(own, shard: store.shard, session)
      }
      if !isThere { return }
      let pending: PendingCommit<Void> = store.enqueue(of: "", runsAlone: true) { transaction in
        guard case .postgreSQL(let session) = transaction.session.connection else { return }
        try MoveLog.end(own, shard: transaction.shard, session)
      }
      try await pending.value
    } catch StoreError.fenced, StoreError.closed {
      // Dropped because the next owner does it.
    } catch {
      // Dropped because it is tried again.
      later(pause, store) { store in
        self.moves.add { await self.endLog(store, cluster, after: Self.next(pause)) }
      }
    }
  }

  /// Removes the copies of an open shard that moves have left in other clusters, and those of new shards that its
  /// divisions have left in any.
  func removeCopies(
    _ store: SQLiteShardStore, _ cluster: String, after pause: Duration = ClusteredRecordStore.tidyPause
  ) async {
    var areSome = false
    for (name, configuration) in clusters.sorted(by: { $0.key < $1.key }) {
      if store.core.queue.isClosed { return }
      do {
        try await removeLeft(store, in: name, configuration, isOwn: name == cluster)
        if name == cluster { continue }
        let isRemoved = try await WorkerThread.value("tidy \(store.shard)") {
          try configuration.removeCopy(ofShard: store.shard, knownTo: store.epoch)
        }
        if !isRemoved, try await isOwn(store, cluster, as: name) { return }
        if isRemoved { report("shard \(store.shard) has no copy in the cluster \(name) any more") }
      } catch {
        // Dropped because it is tried again, and a copy that was left harms nobody.
        areSome = true
      }
    }
    guard areSome else { return }
    later(pause, store) { store in
      self.removals.add { await self.removeCopies(store, cluster, after: Self.next(pause)) }
    }
  }

  /// Removes the copies of new shards whose divisions were never carried out, and are not going to be: an owner before
  /// this one began them. A shard that was brought back to before its division still has the other half's databases:
  /// the map tells that the new shard is one.
  /// - Parameter isOwn: whether the cluster is the shard's own, which its readers can ask.
  private func removeLeft(
    _ store: SQLiteShardStore, in name: String, _ configuration: PostgreSQLConfiguration, isOwn: Bool
  ) async throws {
    let known = shards.withLock { Set($0.filter { $0.value.told != nil }.keys) }
    guard known.contains(store.shard), let part = store.part(of: shardCount) else { return }
    let present =
      if isOwn {
        try await store.read { snapshot -> [Int] in
          guard case .postgreSQL(let session)? = (snapshot as? SQLiteSnapshot)?.session.connection else { return [] }
          return try configuration.shards(session)
        }
      } else {
        try await WorkerThread.value("tidy \(store.shard)") { try configuration.shards() }
      }
    let others = present.filter { $0 >= shardCount && !known.contains($0) }
    if others.isEmpty { return }
    let removed = try await WorkerThread.value("tidy \(store.shard)") {
      try configuration.removeSplits(of: store.shard, among: others, having: part, knownTo: store.epoch)
    }
    if !removed.isEmpty {
      report("a division of shard \(store.shard) was not carried out, and has no copy in the cluster \(name) any more")
    }
  }

  /// Takes a shard out of service that two clusters have for their own: one was brought back to before a move. Nobody
  /// can tell here which one has the later saves.
  private func isOwn(_ store: SQLiteShardStore, _ cluster: String, as other: String) async throws -> Bool {
    guard let here = clusters[cluster], let there = clusters[other] else { return false }
    let areBoth = try await WorkerThread.value("tidy \(store.shard)") {
      guard let copy = try there.look(atShard: store.shard), copy.move == nil else { return false }
      // A former owner finds the shard where a later one has moved it.
      guard let own = try here.look(atShard: store.shard) else { return false }
      return own.move == nil && own.epoch == store.epoch
    }
    if !areBoth { return false }
    shards.withLock { $0[store.shard]?.isDoubtful = true }
    store.core.fail(.inSeveral(store.shard, [cluster, other]))
    return true
  }

  private static func next(_ pause: Duration) -> Duration { min(pause * 2, longestTidyPause) }

  private func later(
    _ pause: Duration, _ store: SQLiteShardStore, _ work: @escaping @Sendable (SQLiteShardStore) -> Void
  ) {
    Task { [weak store] in
      // Dropped because nothing cancels this task.
      try? await Task.sleep(for: pause)
      if let store { work(store) }
    }
  }
}
