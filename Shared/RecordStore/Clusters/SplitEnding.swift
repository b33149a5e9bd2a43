// Takes the last step of a division: lets the new shard be opened, and removes the note of it.

import Records

/// Run by each owner of a divided shard, because the one that divided it has lost it with the division.
struct SplitEnding: Sendable {
  let store: SQLiteShardStore
  let clusters: [String: PostgreSQLConfiguration]

  /// Does nothing if there is no note.
  /// - Throws: `StoreError`; it is to be run again.
  func run() async throws {
    guard let pending = store.pendingSplit else { return }
    try await WorkerThread.value("split \(pending.shard)") { try admit(pending) }
    try await store.enqueue(of: "", runsAlone: true) { try $0.forgetSplit() }.value
  }

  private func admit(_ pending: PendingSplit) throws {
    var problem = StoreError.io("shard \(pending.shard), which was split off, is in none of the clusters of --records")
    // The noted one comes first, because others that are away take a while.
    let names = clusters.keys.sorted()
    for name in names.filter({ $0 == pending.cluster }) + names.filter({ $0 != pending.cluster }) {
      do {
        guard let configuration = clusters[name], let found = try configuration.look(atShard: pending.shard) else {
          continue
        }
        guard isNewShard(found, pending) else {
          problem = .io("shard \(pending.shard) in the cluster \(name) is not of this division")
          continue
        }
        if found.lacksRest { throw StoreError.lacksRest(pending.shard, in: name) }
        // With another number, or none, it was opened already.
        if found.move == pending.number { try configuration.admit(shard: pending.shard, move: pending.number) }
        return
      } catch {
        problem = StoreError(migrating: pending.shard, error)
      }
    }
    throw problem
  }

  private func isNewShard(_ found: ShardStanding, _ pending: PendingSplit) -> Bool {
    guard found.source == store.shard, found.origin == pending.number, let staying = store.part,
      let leaving = ShardPart(modulus: staying.modulus, remainder: staying.remainder + staying.modulus / 2),
      let part = found.part(ofShard: pending.shard)
    else { return false }
    // It can have been divided since.
    return leaving.contains(part)
  }
}

extension ShardPart {
  /// True when the part has all that another one has.
  func contains(_ other: ShardPart) -> Bool {
    other.modulus % modulus == 0 && other.remainder % modulus == remainder
  }
}
