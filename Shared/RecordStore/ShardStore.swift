// The store protocol: the durable state of one shard, behind transactions that are committed in groups. It names no
// engine; only an engine's own configuration knows where and how it keeps shards.

public import Crypto
public import Records

/// The errors of a store. `reason` names the shard and the remedy.
public enum StoreError: Error, Hashable, Sendable {
  /// Another worker took the shard over: forget what is cached, answer "not mine" (design: fencing).
  case fenced(shard: Int, epoch: Int64)
  /// No space is left. Nothing was stored, reads go on, and the caller may retry later.
  case full(String)
  /// Stored data differ from the written ones. The shard goes out of service.
  case corrupt(String)
  /// The shard's storage has failed or is damaged (see `ShardStore.failures`). The shard serves nothing until it is
  /// opened again.
  case outOfService(shard: Int)
  /// The shard is closed, or was never opened here.
  case closed(shard: Int)
  /// Too much work waits for this shard's threads, in total or of one party.
  case overloaded(shard: Int)
  /// The read took longer than the store allows. Neither the read nor the shard is damaged.
  case tooSlow(shard: Int)
  /// A newer release wrote the shard.
  case newerFormat(found: Int, known: Int)
  /// The stored shard is not the current one: it is missing, an older copy, or another installation's. Nothing was
  /// changed.
  case foreign(String)
  /// Something is sealed with a missing key, or is to be sealed while there is no key. Nothing was stored; works once
  /// the process has the key.
  case missingKey(String)
  /// The store of assets does not answer. Nothing was stored, and the caller may retry later.
  case unavailable(String)
  /// The database that keeps the shard does not answer, or takes no writes now. Nothing was stored, and the caller may
  /// retry later.
  case unreachable(String)
  case io(String)
}

/// A write that contradicts the stored state: an unknown key, a number out of order, a name that is taken. It is always
/// the caller's mistake, and its body leaves nothing behind.
public struct ContradictingWrite: Error, Hashable, Sendable {
  /// Names tables and keys, never values.
  public let reason: String

  public init(_ reason: String) { self.reason = reason }
}

/// A record or transaction names an asset whose content neither the shard nor the spool has. Its body leaves nothing
/// behind.
public struct MissingAsset: Error, Hashable, Sendable {
  public let asset: Asset

  public init(_ asset: Asset) { self.asset = asset }
}

/// The shards of one installation, as far as the engine reaches them.
public protocol RecordStore: Sendable {
  /// The number of shards that the installation was created with. It never changes. Divisions make more.
  var shardCount: Int { get }

  /// Takes over shard `shard`: waits until the previous owner has released it, then raises its epoch by one.
  /// - Parameters:
  ///   - epoch: the last known epoch; 0 when the shard may never have been opened, and may be made. A shard that came
  ///     by a division is never made so.
  ///   - bound: a shard with a lower epoch has lost what clients have seen, and one that is made now has lost all. The
  ///     same commit renews it (`ShardRenewal`). 0 renews nothing.
  /// - Throws: `StoreError`, such as `foreign` for a shard that is missing or has a lower epoch. Nothing is held then.
  ///   A cancelled task stops waiting.
  func open(shard: Int, knownEpoch epoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore
  /// The other worker that holds the shard, in the engine's words for operators, such as `process 4711`; nil when none
  /// does or it is unknown.
  func holder(ofShard shard: Int) -> String?
  /// Takes the clusters of shards as the directory has them, in the order of the shards. The store moves open shards to
  /// their targets. An engine without clusters does nothing.
  /// - Parameter named: all clusters that the installation is known to have. A shard is made only by a store that has
  ///   all of them.
  func follow(_ clusters: [ShardPlacement], named: Set<String>)
  /// Where the shard was opened last; nil for an engine without clusters, and before.
  func placement(ofShard shard: Int) -> ShardPlacement?
}

extension RecordStore {
  /// Opens a shard without knowing its epoch.
  public func open(shard: Int) async throws -> any ShardStore { try await open(shard: shard, knownEpoch: 0) }
  public func open(shard: Int, knownEpoch epoch: Int64) async throws -> any ShardStore {
    try await open(shard: shard, knownEpoch: epoch, renewingBelow: 0)
  }
  public func holder(ofShard shard: Int) -> String? { nil }
  public func follow(_ clusters: [ShardPlacement], named: Set<String>) {}
  public func placement(ofShard shard: Int) -> ShardPlacement? { nil }
}

/// One open shard. Bodies write one after the other and are committed in groups, because making a commit durable costs
/// more than a write.
public protocol ShardStore: Sendable {
  var shard: Int { get }
  /// The fencing epoch of this owner, checked in every commit.
  var epoch: Int64 { get }
  /// The databases that the shard has; nil for a shard that was never divided. It is the same as long as the shard is
  /// open. Reads and writes of other databases throw `closed`, and no list has rows of them.
  var part: ShardPart? { get }
  /// The division whose new shard may not be opened yet; nil: none is, or the shard's tables have no note of it now.
  var pendingSplit: PendingSplit? { get }
  /// False for a shard that was taken over while no space was left, until its first commit.
  var isEpochStored: Bool { get }

  /// The same shard for one party, a user. The waiting work of all parties takes turns, for writes and for reads,
  /// and a party with too much waiting work gets `overloaded`. Work that is queued on the shard itself is the server's
  /// own and counts as one more party.
  func turns(of party: String) -> any ShardStore

  /// Queues `body` for the writer and returns at once. Bodies run one at a time, and those of one party in their order.
  ///
  /// A body that returns is durable once `value` returns. A body that throws leaves nothing behind, and does not affect
  /// the rest of its group. A commit that fails throws `StoreError` to the whole group, and nothing of it is stored.
  /// A body that throws `AssetCalls` is queued again after these calls, behind later bodies.
  /// - Parameter lookups: the rows that the body is going to look up. Engines that need not fetch them don't ask.
  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value>

  /// Queues two bodies, of which the second builds on the first. They share a commit unless its group is full, and each
  /// one succeeds or fails as if it was queued alone.
  func enqueue<First: Sendable, Second: Sendable>(
    _ first: AnnouncedBody<First>, followedBy second: AnnouncedBody<Second>
  ) -> (PendingCommit<First>, PendingCommit<Second>)

  /// Runs `body` on a consistent snapshot, which includes every commit acknowledged before the call. A body that throws
  /// `AssetCalls` runs again after these calls.
  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value

  /// A mirror's row, including every commit acknowledged before the call, if memory holds it; nil does not mean that it
  /// is missing.
  func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror?

  /// Removes the content of assets unused since before `cutoff` (milliseconds since 1970), the longest unused first, at
  /// most `limit`. Returns their number. Runs in the order of bodies, in a commit of its own. It never removes content
  /// whose use is not committed, and content that is used again later is adopted again.
  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int>
  /// Removes content that no commit knows of, because the commits that adopted it failed or never came; or has
  /// `collectAssets` remove it. Each call looks at one part of the shard's content, in a commit of its own.
  /// - Parameter part: the part of the call before; nil for the first call.
  /// - Returns: nil when no part is left.
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent?

  /// The keys that contents of the shard are sealed with and that this process lacks. Such contents can't be read.
  func missingContentKeys() async throws -> [KeyRing.ID]

  /// Finishes the queued work, checkpoints, and releases the shard. Later calls throw `closed`.
  func close() async

  /// Counters and gauges since the opening, by metric name without prefix, e.g. `commits_total`.
  var statistics: [StoreStatistic] { get }
  /// Distributions since the opening.
  var distributions: [StoreDistribution] { get }
  /// The reason why the shard accepts no more writes for good: fenced, or failed or damaged storage. nil while it does.
  var failure: StoreError? { get }

  /// The reason why the shard's last write or read could not reach its storage; nil since the next one that could.
  var outage: StoreError? { get }

  /// The reason why the shard goes out of service: failed or damaged storage. The stream yields at most one element, to
  /// one listener. Only closing and opening the shard helps then. A single damaged record is no reason.
  var failures: AsyncStream<StoreError> { get }

  /// Checks the whole shard as of the beginning of the call: its structure, every checksum, counters. It reads
  /// everything while the shard serves, which takes a while.
  /// - Parameter readsAssets: whether to read the content of every used asset as well.
  /// - Throws: `StoreError` when the shard cannot be read at all.
  func verify(readsAssets: Bool) async throws -> VerificationReport

  /// Copies the shard as of the beginning of the call, with the assets that it uses, into a backup while it serves.
  /// Replaces the leftovers of an earlier attempt.
  /// - Throws: `StoreError`. The copy is unusable then.
  func copy(to place: BackupPlace) async throws -> ShardCopy
}

/// The result of looking at one part of a shard's content.
public struct RemovedContent: Hashable, Sendable {
  public let part: Int
  /// The number of assets whose content no commit knew of.
  public let count: Int

  public init(part: Int, count: Int) {
    self.part = part
    self.count = count
  }
}

extension ShardStore {
  public var distributions: [StoreDistribution] { [] }
  public var failure: StoreError? { nil }
  public var outage: StoreError? { nil }
  public var failures: AsyncStream<StoreError> { AsyncStream.makeStream(of: StoreError.self).stream }
  public func verify(readsAssets: Bool) async throws -> VerificationReport { VerificationReport() }
  public func copy(to place: BackupPlace) async throws -> ShardCopy {
    throw StoreError.io("shard \(shard): its engine makes no backups")
  }
  public func removeUnknownContent(after part: Int?) async throws -> RemovedContent? { nil }
  public func missingContentKeys() async throws -> [KeyRing.ID] { [] }
}

extension ShardStore {
  public var part: ShardPart? { nil }
  public var pendingSplit: PendingSplit? { nil }
  public var isEpochStored: Bool { true }
  public func turns(of party: String) -> any ShardStore { self }

  /// Queues a body whose look-ups nobody announces.
  public func enqueue<Value: Sendable>(_ body: @escaping @Sendable (any ShardTransaction) throws -> Value)
    -> PendingCommit<Value>
  {
    enqueue(expecting: { [] }, body)
  }

  public func enqueue<Value: Sendable>(_ body: AnnouncedBody<Value>) -> PendingCommit<Value> {
    enqueue(expecting: body.lookups, body.body)
  }

  public func enqueue<First: Sendable, Second: Sendable>(
    _ first: AnnouncedBody<First>, followedBy second: AnnouncedBody<Second>
  ) -> (PendingCommit<First>, PendingCommit<Second>) { (enqueue(first), enqueue(second)) }

  public func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror? { nil }
}

/// A write that has its place in the order but is not durable yet.
public protocol CommitOutcome<Value>: Sendable {
  associatedtype Value: Sendable
  /// Returns once the write is durable.
  var value: Value { get async throws }
  /// True when the body was run again behind later ones, after `AssetCalls`.
  var wasQueuedAgain: Bool { get }
}
extension CommitOutcome {
  public var wasQueuedAgain: Bool { false }
}
public typealias PendingCommit<Value> = any CommitOutcome<Value>
