// The store protocol: everything durable of one shard, behind transactions that are committed in groups.

public import Records

/// What a store refuses; `reason` names the shard and what to do.
public enum StoreError: Error, Hashable, Sendable {
  /// Another process took the shard over: forget what is cached, answer "not mine" (design: fencing).
  case fenced(shard: Int, epoch: Int64)
  /// No space left; nothing was stored, reads go on, retry later.
  case full(String)
  /// A page, checksum or file is not what was written; the shard goes out of service.
  case corrupt(String)
  /// What the shard's file is on has failed, or it is damaged (`ShardStore.failures` said how): nothing is served until it is opened anew.
  case outOfService(shard: Int)
  /// The shard was closed, or never opened here.
  case closed(shard: Int)
  /// Too much is waiting for this shard's writer, or of one party.
  case overloaded(shard: Int)
  /// A read took longer than the store allows; nothing is wrong with it or the shard.
  case tooSlow(shard: Int)
  /// The file was written by a newer release.
  case newerFormat(found: Int, known: Int)
  /// The file is not the one that is in use: it is missing, an older copy, or another installation's. Nothing was changed.
  case foreign(String)
  /// Something is sealed with a key that is not there, or is to be sealed and there is none: nothing was stored; works once the process has the key.
  case missingKey(String)
  case io(String)
}

/// A write that contradicts what is stored: an unknown key, a number out of its order, a name that is taken. Always the caller's
/// mistake; the body that made it leaves nothing behind.
public struct ContradictingWrite: Error, Hashable, Sendable {
  /// Names tables and keys, never values.
  public let reason: String

  public init(_ reason: String) { self.reason = reason }
}

/// A record or transaction names an asset whose content the shard neither has nor finds among what was uploaded; its writer leaves nothing
/// behind.
public struct MissingAsset: Error, Hashable, Sendable {
  public let asset: Asset

  public init(_ asset: Asset) { self.asset = asset }
}

/// The shards of one installation on this machine or engine.
public protocol RecordStore: Sendable {
  /// How many shards the installation was created with; never changes.
  var shardCount: Int { get }

  /// Takes shard `shard` over: waits until its previous owner has let go, then raises its epoch by one.
  /// - Parameter epoch: the one it was last known to have; 0: it was never opened, and may be made.
  /// - Throws: `StoreError`, `foreign` for a shard that is missing or has a lower epoch; nothing is held afterwards. A cancelled task stops waiting.
  func open(shard: Int, knownEpoch epoch: Int64) async throws -> any ShardStore
  /// The other process on this machine that has the shard; nil: none, or nobody knows.
  func holder(ofShard shard: Int) -> Int32?
}

extension RecordStore {
  /// The same of a shard of which nobody knows whether it was ever opened.
  public func open(shard: Int) async throws -> any ShardStore { try await open(shard: shard, knownEpoch: 0) }
  public func holder(ofShard shard: Int) -> Int32? { nil }
}

/// One open shard. All writing goes through one thread, which commits waiting bodies in groups: a sync costs more than
/// a write.
public protocol ShardStore: Sendable {
  var shard: Int { get }
  /// The fencing epoch this owner holds; checked in every commit.
  var epoch: Int64 { get }
  /// False of a shard that was taken over on a full disk, until its first commit.
  var isEpochStored: Bool { get }

  /// The same shard for one party, a user: what waits of different parties takes turns, be it for the writer or for a thread that reads, and
  /// no party may have more than its share waiting (`overloaded`). What is queued otherwise is the server's own, which takes turns with them as
  /// one more party.
  func turns(of party: String) -> any ShardStore

  /// Queues `body` for the writer and returns at once; bodies run one at a time, those of one party in the order they were queued.
  ///
  /// The body either returns, and is durable once `value` returns, or throws, and then left nothing behind; its neighbours in the
  /// group don't notice. A commit that fails throws `StoreError` to everybody in the group, and nothing of it is stored.
  func enqueue<Value: Sendable>(_ body: @escaping @Sendable (any ShardTransaction) throws -> Value) -> PendingCommit<Value>

  /// Runs `body` on a consistent snapshot that holds every commit acknowledged before the call.
  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value

  /// A mirror's row with every commit acknowledged before the call, if it is at hand without reading; nil says nothing.
  func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror?

  /// Removes files that nobody has used since before `cutoff` (milliseconds since 1970), those first that are unused for longest, at most
  /// `limit`; gives how many. Runs in the order of bodies, in a commit of its own: a file whose use is not committed is never removed, and
  /// one that is used again later is linked again.
  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int>
  /// Removes the files in one of the shard's folders (`AssetStore.folders(of:)`) that it knows nothing of: links whose commit failed or never
  /// came. Gives how many.
  func removeUnknownFiles(inFolder folder: Int) -> PendingCommit<Int>

  /// Finishes what was queued, checkpoints, and lets go of the shard. Later calls throw `closed`.
  func close() async

  /// Counters and gauges since opening, by metric name (without prefix), e.g. `commits_total`.
  var statistics: [StoreStatistic] { get }
  /// Distributions since opening.
  var distributions: [StoreDistribution] { get }
  /// Why the shard takes no more writes, for good: fenced, a failed sync, damaged pages. nil while it does.
  var failure: StoreError? { get }

  /// Why the shard is out of service, if it ever is: a sync failed, a page is not what was written. One element at most; for one listener. Only
  /// closing and opening it anew helps then. A single record that is damaged is no reason.
  var failures: AsyncStream<StoreError> { get }

  /// Looks over the whole shard as it is when it begins: pages and indexes, every checksum, counters. Reads everything, which takes a while and no
  /// lock.
  /// - Parameter readsAssets: also reads every file that is used.
  /// - Throws: `StoreError` when it can't be read at all.
  func verify(readsAssets: Bool) async throws -> VerificationReport

  /// Copies the shard as it is when it begins, with the files that it uses, into a backup's folder (`ShardCopy`), while it serves; what an earlier try
  /// left there is replaced.
  /// - Throws: `StoreError`; what is there then is of no use.
  func copy(to folder: String) async throws -> ShardCopy
}

extension ShardStore {
  public var distributions: [StoreDistribution] { [] }
  public var failure: StoreError? { nil }
  public var failures: AsyncStream<StoreError> { AsyncStream.makeStream(of: StoreError.self).stream }
  public func verify(readsAssets: Bool) async throws -> VerificationReport { VerificationReport() }
  public func copy(to folder: String) async throws -> ShardCopy { throw StoreError.io("shard \(shard) is not kept in files") }
}

extension ShardStore {
  public var isEpochStored: Bool { true }
  public func turns(of party: String) -> any ShardStore { self }
  public func committedMirror(_ identifier: String, of database: DatabaseID) -> StoredMirror? { nil }
}

/// A write that has its place in the order, but is not yet durable.
public protocol CommitOutcome<Value>: Sendable {
  associatedtype Value: Sendable
  /// Returns once the write is durable.
  var value: Value { get async throws }
}
public typealias PendingCommit<Value> = any CommitOutcome<Value>
