// The embedded store: one SQLite file and one writing thread for each shard.

import Assets
import CLinux
import Crypto
import Glibc
import Records
import SQLite

/// Keeps shards in the files of a `SQLiteConfiguration`.
public final class SQLiteRecordStore: RecordStore {
  /// The newest stored format. Opening a file upgrades it to this one.
  public static let format = FormatChange.allCases.map(\.rawValue).max() ?? 0

  public let shardCount: Int
  private let configuration: SQLiteConfiguration
  private let pool: ReaderPool
  private let writeback: WritebackThread
  private let surroundings: StoreSurroundings

  /// - Parameters:
  ///   - shardCount: the number that the installation was created with. A shard's file refuses another number.
  ///   - makeIncarnation: draws the incarnations of databases, zones and mirrors; strong randomness by default.
  ///   - now: the current time in milliseconds since 1970; the machine's clock by default.
  ///   - report: called once for each damaged record that background work skipped, with a text that names shard, zone
  ///     and sequence.
  /// - Throws: `StoreError.io`, `.full`.
  public init(
    _ configuration: SQLiteConfiguration, shardCount: Int, makeIncarnation: (@Sendable () -> UInt64)? = nil,
    now: (@Sendable () -> Int64)? = nil,
    report: @escaping @Sendable (_ problem: String) -> Void = { _ in }
  ) throws(StoreError) {
    precondition(shardCount > 0, "an installation has at least one shard, not \(shardCount)")
    do throws(AssetError) {
      try Folder.make(configuration.directory)
    } catch {
      throw StoreError(error)
    }
    self.configuration = configuration
    self.shardCount = shardCount
    surroundings = StoreSurroundings(makeIncarnation: makeIncarnation, now: now, report: report)
    pool = try ReaderPool(configuration.options)
    writeback = try WritebackThread(shardCount: ShardLayout.countLimit, isStuck: configuration.options.isWritebackStuck)
  }

  public func open(shard: Int, knownEpoch epoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    guard shard >= 0 else { throw StoreError.io("there is no shard \(shard)") }
    // One that was split off exists, or is lost.
    let epoch = shard < shardCount ? epoch : max(epoch, 1)
    var file = ShardFile(configuration, shard: shard, shardCount: shardCount, knownEpoch: epoch)
    file.loss = LostEpochs(below: bound, now: surroundings.now)
    return try await open(file)
  }

  public func holder(ofShard shard: Int) -> String? {
    guard let holder = ShardLock.holder(of: configuration.lockPath(ofShard: shard)), holder != getpid() else {
      return nil
    }
    return "process \(holder)"
  }

  func open(_ file: ShardFile) async throws -> SQLiteShardStore {
    let lock = try await ShardLock.acquire(configuration.lockPath(ofShard: file.shard))
    let extent = ShardExtent()
    let readers: ShardReaders
    do {
      let keys = configuration.keys
      readers = try ShardReaders(shard: file.shard, pool: pool, deferredLimit: configuration.options.readLimit) {
        ShardSession(shard: file.shard, connection: .sqlite(try file.reader()), keys: keys, extent: extent)
      }
    } catch {
      lock.release()
      throw error
    }
    let (writeback, surroundings) = (writeback, surroundings)
    // The writer's thread opens the file, because its connection must never leave that thread.
    let core: ShardCore = try await withCheckedThrowingContinuation { continuation in
      do throws(StoreError) {
        try WorkerThread.start("shard \(file.shard)") {
          Self.own(file, lock, extent, readers, writeback, surroundings) { continuation.resume(with: $0) }
        }
      } catch {
        lock.release()
        continuation.resume(throwing: error)
      }
    }
    return SQLiteShardStore(core, pool: pool, assets: configuration.assets, keys: configuration.keys)
  }

  /// The body of a writer's thread, from taking the shard over to releasing its lock.
  private static func own(
    _ file: ShardFile, _ lock: ShardLock, _ extent: ShardExtent, _ readers: ShardReaders,
    _ writeback: WritebackThread, _ surroundings: StoreSurroundings, opened: (Result<ShardCore, any Error>) -> Void
  ) {
    do {
      let taken = try file.takeOver()
      try extent.settle(
        taken.part, isBeingCut: taken.isBeingCut, pending: taken.pending, .sqlite(taken.connection))
      let core = try ShardCore(
        shard: file.shard, epoch: taken.epoch, extent: extent, isRaised: taken.isRaised,
        options: file.configuration.options, readers: readers,
        databaseByteCount: { Folder.byteCount(of: file.path) ?? 0 })
      let checkpoints = try ShardCheckpoints(core: core, connection: taken.connection, file: file, thread: writeback)
      opened(.success(core))
      ShardWriter(
        core: core, tenure: SQLiteTenure(core: core, file: taken.connection, checkpoints: checkpoints),
        keys: file.configuration.keys, assets: file.configuration.assets, surroundings: surroundings
      ).run()
      lock.release()
      core.finish()
    } catch {
      lock.release()
      opened(.failure(error))
    }
  }
}
