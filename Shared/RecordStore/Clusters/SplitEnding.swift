// Takes the last step of a division: lets the new shard be opened, and removes the note of it.

/// Run by each owner of a divided shard, because the one that divided it has lost it with the division.
struct SplitEnding: Sendable {
  let store: SQLiteShardStore
  let clusters: [String: PostgreSQLConfiguration]

  /// Costs a read if there is nothing to do.
  /// - Throws: `StoreError`; it is to be run again.
  func run() async throws {
    guard let (split, shard) = try await note() else { return }
    let clusters = clusters
    try await WorkerThread.value("split \(shard)") {
      var problem = StoreError.io("shard \(shard), which was split off, is in none of the clusters of --records")
      for (_, configuration) in clusters.sorted(by: { $0.key < $1.key }) {
        do {
          guard let found = try configuration.look(atShard: shard), found.move == nil || found.move == split else {
            continue
          }
          if found.move == split { try configuration.admit(shard: shard, move: split) }
          return
        } catch {
          problem = StoreError(migrating: shard, error)
        }
      }
      throw problem
    }
    try await store.enqueue(of: "", runsAlone: true) { try $0.forgetSplit() }.value
  }

  /// The number of the division, and the new shard.
  private func note() async throws -> (split: Int64, shard: Int)? {
    try await store.read { snapshot in
      guard let snapshot = snapshot as? SQLiteSnapshot else { return nil }
      func meta(_ key: MetaKey) throws -> Int64? {
        let statement = try snapshot.statement(ShardQuery.meta)
        try statement.bind(1, key.rawValue)
        return try statement.first { $0.int64(0) }
      }
      guard let split = try meta(.split), let shard = try meta(.splitShard) else { return nil }
      return (split, Int(shard))
    }
  }
}
