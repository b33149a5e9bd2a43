// A shard from one party's side: work queued through it waits in that party's line.

import Crypto
import Records

struct ShardTurns: ShardStore {
  let base: SQLiteShardStore
  let party: String

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var part: ShardPart? { base.part }
  var pendingSplit: PendingSplit? { base.pendingSplit }
  var isEpochStored: Bool { base.isEpochStored }

  func turns(of party: String) -> any ShardStore { base.turns(of: party) }

  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    base.enqueue(of: party, expecting: lookups, body)
  }

  func enqueue<First: Sendable, Second: Sendable>(
    _ first: AnnouncedBody<First>, followedBy second: AnnouncedBody<Second>
  ) -> (PendingCommit<First>, PendingCommit<Second>) { base.enqueue(of: party, first, followedBy: second) }

  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    try await base.read(within: base.core.options.readTime, of: party, body)
  }

  func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror? {
    base.committedMirror(identifier, of: database)
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    try await base.removeUnknownContent(after: part)
  }

  func missingContentKeys() async throws -> [KeyRing.ID] { try await base.missingContentKeys() }

  func close() async { await base.close() }

  var statistics: [StoreStatistic] { base.statistics }
  var distributions: [StoreDistribution] { base.distributions }
  var failure: StoreError? { base.failure }
  var outage: StoreError? { base.outage }
  var failures: AsyncStream<StoreError> { base.failures }

  func verify(readsAssets: Bool) async throws -> VerificationReport { try await base.verify(readsAssets: readsAssets) }
  func copy(to place: BackupPlace) async throws -> ShardCopy { try await base.copy(to: place) }
}
