// The distributed store: each shard in a schema of a PostgreSQL database, written by one thread of its owner.

import PostgreSQL

/// Keeps shards in the database of a `PostgreSQLConfiguration`.
public final class PostgreSQLRecordStore: RecordStore {
  public let shardCount: Int
  private let configuration: PostgreSQLConfiguration
  private let pool: ReaderPool
  private let surroundings: StoreSurroundings

  /// Idle sessions for reads, for each open shard. The server has a process for each.
  private static let idleSessionLimit = 2

  /// - Parameters: as those of `SQLiteRecordStore`.
  /// - Throws: `StoreError.io`.
  public init(
    _ configuration: PostgreSQLConfiguration, shardCount: Int, makeIncarnation: (@Sendable () -> UInt64)? = nil,
    now: (@Sendable () -> Int64)? = nil,
    report: @escaping @Sendable (_ problem: String) -> Void = { _ in }
  ) throws(StoreError) {
    precondition(shardCount > 0, "an installation has at least one shard, not \(shardCount)")
    self.configuration = configuration
    self.shardCount = shardCount
    surroundings = StoreSurroundings(makeIncarnation: makeIncarnation, now: now, report: report)
    pool = try ReaderPool(configuration.options, idleLimit: Self.idleSessionLimit)
  }

  public func open(shard: Int, knownEpoch epoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    guard shard >= 0 else { throw StoreError.io("there is no shard \(shard)") }
    // One that was split off exists, or is lost.
    let epoch = shard < shardCount ? epoch : max(epoch, 1)
    let extent = ShardExtent()
    let (configuration, surroundings, shardCount) = (configuration, surroundings, shardCount)
    let loss = LostEpochs(below: bound, now: surroundings.now)
    let readers = try ShardReaders(
      shard: shard, pool: pool, deferredLimit: configuration.options.readLimit
    ) {
      try configuration.reader(ofShard: shard, extent)
    }
    // The writer's thread connects, because its session must never leave that thread.
    let cancellation = ReadCancellation()
    let core: ShardCore = try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        do throws(StoreError) {
          try WorkerThread.start("shard \(shard)") {
            Self.own(configuration, shard, of: shardCount, epoch, loss, extent, readers, surroundings, cancellation) {
              continuation.resume(with: $0)
            }
          }
        } catch {
          continuation.resume(throwing: error)
        }
      }
    } onCancel: {
      cancellation.cancel()
    }
    return SQLiteShardStore(core, pool: pool, assets: configuration.assets, keys: configuration.keys)
  }

  /// The body of a writer's thread, from taking the shard over to closing its session.
  private static func own(
    _ configuration: PostgreSQLConfiguration, _ shard: Int, of shardCount: Int, _ knownEpoch: Int64,
    _ loss: LostEpochs, _ extent: ShardExtent, _ readers: ShardReaders, _ surroundings: StoreSurroundings,
    _ cancellation: ReadCancellation, opened: (Result<ShardCore, any Error>) -> Void
  ) {
    do {
      let tenure = try PostgreSQLTenure.takeOver(
        configuration, shard: shard, shardCount: shardCount, knownEpoch: knownEpoch, loss: loss,
        isCancelled: { cancellation.isCancelled })
      let found = tenure.found
      try extent.settle(found.part, isBeingCut: found.isBeingCut, pending: found.pending, tenure.connection)
      let core = try ShardCore(
        shard: shard, epoch: tenure.epoch, extent: extent, options: configuration.options, readers: readers,
        confirmed: tenure.confirmed, databaseByteCount: { 0 })
      tenure.isAwaited = { [queue = core.queue] in !queue.isClosed }
      // Reads must see what the writer commits from now on, and the former primary may still answer them.
      tenure.hasConnectedAgain = { readers.discardIdle() }
      opened(.success(core))
      ShardWriter(
        core: core, tenure: tenure, keys: configuration.keys, assets: configuration.assets, surroundings: surroundings
      ).run()
      core.finish()
    } catch {
      opened(.failure(error))
    }
  }
}

extension PostgreSQLConfiguration {
  /// A session for reads.
  fileprivate func reader(ofShard shard: Int, _ extent: ShardExtent) throws -> ShardSession {
    var reading = session(ofShard: shard)
    reading.isReadOnly = true
    let session = ShardSession(
      shard: shard, connection: .postgreSQL(try Session(reading)), keys: keys, fetched: FetchedRows(),
      extent: extent)
    session.knownKeys = KnownKeys()
    return session
  }
}
