// The embedded store: one SQLite file and one writing thread for each shard.

import Assets
import CLinux
import Crypto
import Glibc
import SQLite

/// Keeps shards in the files of a `SQLiteConfiguration`.
public final class SQLiteRecordStore: RecordStore {
  /// The newest stored format. Opening a file upgrades it to this one.
  public static let format = FormatChange.allCases.map(\.rawValue).max() ?? 0

  public let shardCount: Int
  private let configuration: SQLiteConfiguration
  private let pool: ReaderPool
  private let writeback: WritebackThread
  private let makeIncarnation: @Sendable () -> UInt64
  private let now: @Sendable () -> Int64
  private let report: @Sendable (_ problem: String) -> Void

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
    self.report = report
    self.now = now ?? Self.wallClock
    self.makeIncarnation = makeIncarnation ?? { SecureRandom.uint64() }
    pool = try ReaderPool(configuration.options)
    writeback = try WritebackThread(shardCount: shardCount, isStuck: configuration.options.isWritebackStuck)
  }

  public func open(shard: Int, knownEpoch epoch: Int64) async throws -> any ShardStore {
    guard (0..<shardCount).contains(shard) else { throw StoreError.io("there is no shard \(shard) of \(shardCount)") }
    return try await open(ShardFile(configuration, shard: shard, shardCount: shardCount, knownEpoch: epoch))
  }

  public func holder(ofShard shard: Int) -> String? {
    guard let holder = ShardLock.holder(of: configuration.lockPath(ofShard: shard)), holder != getpid() else {
      return nil
    }
    return "process \(holder)"
  }

  func open(_ file: ShardFile) async throws -> SQLiteShardStore {
    let lock = try await ShardLock.acquire(configuration.lockPath(ofShard: file.shard))
    let readers: ShardReaders
    do {
      readers = try ShardReaders(file: file, pool: pool, deferredLimit: configuration.options.readLimit)
    } catch {
      lock.release()
      throw error
    }
    let (writeback, makeIncarnation, now, report) = (writeback, makeIncarnation, now, report)
    // The writer's thread opens the file, because its connection must never leave that thread.
    let core: ShardCore = try await withCheckedThrowingContinuation { continuation in
      do throws(StoreError) {
        try WorkerThread.start("shard \(file.shard)") {
          Self.own(file, lock, readers, writeback, makeIncarnation, now, report) { continuation.resume(with: $0) }
        }
      } catch {
        lock.release()
        continuation.resume(throwing: error)
      }
    }
    return SQLiteShardStore(core, pool: pool, assets: configuration.assets, keys: configuration.keys)
  }

  static let wallClock: @Sendable () -> Int64 = {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// The body of a writer's thread, from taking the shard over to releasing its lock.
  private static func own(
    _ file: ShardFile, _ lock: ShardLock, _ readers: ShardReaders, _ writeback: WritebackThread,
    _ makeIncarnation: @escaping @Sendable () -> UInt64, _ now: @escaping @Sendable () -> Int64,
    _ report: @escaping @Sendable (String) -> Void,
    opened: (Result<ShardCore, any Error>) -> Void
  ) {
    do {
      let taken = try file.takeOver()
      let core = try ShardCore(
        shard: file.shard, epoch: taken.epoch, isRaised: taken.isRaised, path: file.path,
        options: file.configuration.options, readers: readers)
      let checkpoints = try ShardCheckpoints(core: core, connection: taken.connection, file: file, thread: writeback)
      opened(.success(core))
      ShardWriter(
        core: core, connection: taken.connection, file: file, checkpoints: checkpoints,
        makeIncarnation: makeIncarnation, now: now, report: report
      ).run()
      lock.release()
      core.finish()
    } catch {
      lock.release()
      opened(.failure(error))
    }
  }
}
