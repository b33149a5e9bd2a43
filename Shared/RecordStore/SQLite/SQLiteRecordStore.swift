// The embedded store: one SQLite file and one writing thread for each shard.

public import Assets
import CLinux
public import Crypto
import Glibc
import SQLite

/// Keeps shards as files `shard-<n>.sqlite` (with `-wal` while open) and `shard-<n>.lock` in one folder.
public final class SQLiteRecordStore: RecordStore {
  /// Limits. The defaults are those of production.
  public struct Options: Sendable {
    /// The most bodies that wait for a shard's writer. Further ones get `overloaded`.
    public var queueLimit = 4096
    /// The most waiting bodies of one party (`ShardStore.turns`), so that no party fills the queue.
    public var partyQueueLimit = 1024
    /// The limits of one commit: the number of bodies, and the numbers of written records and bytes after which it
    /// takes no more bodies.
    public var groupBodyLimit = 1000
    public var groupRecordLimit = 1000
    public var groupByteLimit = 4 << 20
    /// The pages of the write-ahead log after which it is copied into the file (`ShardCheckpoints`). More pages mean
    /// fewer copies, but savers wait longer for each. The log reaches some 12 MB, or 24 with a slow disk, and is read
    /// once after a crash.
    public var checkpointPages = 3000
    /// Reads can prevent the log from restarting, so that it grows. At four times this number of pages the writer waits
    /// for such reads, and at sixteen times it cuts them short, so that they begin again. It does not wait for copies
    /// and checks of the whole shard; one that was cut short twice may go on up to sixty-four times this number.
    public var longLogPages = 12_000
    /// The time that saves wait for such reads to end.
    public var readerPatience = Duration.milliseconds(20)
    /// The records of a deleted zone that one commit removes.
    public var sweepLimit = 500
    /// The most records that one commit adds to a new index.
    public var indexSliceLimit = 2000
    /// The most names of records of any type that one commit looks at for it, the bytes that it reads, and the time
    /// that it takes while saves wait and while none do.
    public var indexSliceNameLimit = 50_000
    public var indexSliceByteLimit = 4 << 20
    public var indexSliceTime = Duration.milliseconds(3)
    public var idleIndexSliceTime = Duration.milliseconds(25)
    /// True when replaced states of records are kept until `forgetPast` removes them.
    public var keepsPastStates = false
    /// The number of reading threads, shared by all shards, and of the reads that may wait for them.
    public var readerThreadCount = 4
    public var readLimit = 4096
    /// The most waiting reads of one party.
    public var partyReadLimit = 1024
    /// The time after which a read begins again on a thread for long reads, if others wait.
    public var briefReadTime = Duration.milliseconds(250)
    /// The number of threads for long reads, and of the reads that may wait for them.
    public var longReaderThreadCount = 2
    public var longReadLimit = 64
    /// The most waiting long reads of one party. If there are several threads for long reads, a party never occupies
    /// all of them.
    public var partyLongReadLimit = 16
    /// The number of threads for copies and checks of whole shards, which take no thread from users' reads.
    public var wholeReaderThreadCount = 2
    /// The time after which a read is given up, including its wait. It is less than clients of the gateway wait.
    public var readTime = Duration.seconds(8)
    /// For a test of the effect of power cuts only: every value except FULL loses acknowledged writes.
    package var synchronous = "FULL"
    /// For tests of a disk whose writeback never ends.
    package var isWritebackStuck = false

    public init() {}
  }

  /// The newest stored format. Opening a file upgrades it to this one.
  public static let format = FormatChange.allCases.map(\.rawValue).max() ?? 0

  public let shardCount: Int
  private let directory: String
  private let options: Options
  private let pool: ReaderPool
  private let writeback: WritebackThread
  private let makeIncarnation: @Sendable () -> UInt64
  private let assets: AssetStore?
  private let keys: KeyRing
  private let now: @Sendable () -> Int64
  private let installation: InstallationID?
  private let report: @Sendable (_ problem: String) -> Void

  /// - Parameters:
  ///   - directory: the folder of the files, made if it is missing. Must be on a local file system.
  ///   - shardCount: the number that the installation was created with. A shard's file refuses another number.
  ///   - assets: the store of asset files; nil counts assets without touching files.
  ///   - keys: the keys that seal encrypted values. Without one, such values are refused, and so are shards that
  ///     contain some.
  ///   - installation: the owner of the shards. Files of other installations are refused; nil skips the check.
  ///   - makeIncarnation: draws the incarnations of databases, zones and mirrors; strong randomness by default.
  ///   - now: the current time in milliseconds since 1970; the machine's clock by default.
  ///   - report: called once for each damaged record that background work skipped, with a text that names shard, zone
  ///     and sequence.
  /// - Throws: `StoreError.io`, `.full`.
  public init(
    directory: String, shardCount: Int, assets: AssetStore? = nil, keys: KeyRing = KeyRing(), options: Options = Options(), installation: InstallationID? = nil,
    makeIncarnation: (@Sendable () -> UInt64)? = nil,
    now: (@Sendable () -> Int64)? = nil, report: @escaping @Sendable (_ problem: String) -> Void = { _ in }
  ) throws(StoreError) {
    precondition(shardCount > 0, "an installation has at least one shard, not \(shardCount)")
    do throws(AssetError) {
      try Folder.make(directory)
    } catch {
      throw StoreError(error)
    }
    self.directory = directory
    self.shardCount = shardCount
    self.options = options
    self.assets = assets
    self.keys = keys
    self.report = report
    self.installation = installation
    self.now = now ?? Self.wallClock
    self.makeIncarnation = makeIncarnation ?? { SecureRandom.uint64() }
    pool = try ReaderPool(options)
    writeback = try WritebackThread(shardCount: shardCount, isStuck: options.isWritebackStuck)
  }

  public func open(shard: Int, knownEpoch epoch: Int64) async throws -> any ShardStore {
    guard (0..<shardCount).contains(shard) else { throw StoreError.io("there is no shard \(shard) of \(shardCount)") }
    var file = file(ofShard: shard)
    file.knownEpoch = epoch
    return try await open(file)
  }

  private func file(ofShard shard: Int) -> ShardFile {
    ShardFile(
      directory: directory, shard: shard, shardCount: shardCount, assets: assets, keys: keys, installation: installation, synchronous: options.synchronous)
  }

  public func holder(ofShard shard: Int) -> Int32? {
    let pid = ShardLock.holder(of: file(ofShard: shard).lockPath)
    return pid == getpid() ? nil : pid
  }

  func open(_ file: ShardFile) async throws -> SQLiteShardStore {
    let lock = try await ShardLock.acquire(file.lockPath)
    let readers: ShardReaders
    do {
      readers = try ShardReaders(file: file, pool: pool, deferredLimit: options.readLimit)
    } catch {
      lock.release()
      throw error
    }
    let (options, writeback, makeIncarnation, now, report) = (options, writeback, makeIncarnation, now, report)
    // The writer's thread opens the file, because its connection must never leave that thread.
    let core: ShardCore = try await withCheckedThrowingContinuation { continuation in
      do throws(StoreError) {
        try WorkerThread.start("shard \(file.shard)") {
          Self.own(file, lock, readers, writeback, options, makeIncarnation, now, report) { continuation.resume(with: $0) }
        }
      } catch {
        lock.release()
        continuation.resume(throwing: error)
      }
    }
    return SQLiteShardStore(core, pool: pool, assets: file.assets, keys: file.keys)
  }

  static let wallClock: @Sendable () -> Int64 = {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// The body of a writer's thread, from taking the shard over to releasing its lock.
  private static func own(
    _ file: ShardFile, _ lock: ShardLock, _ readers: ShardReaders, _ writeback: WritebackThread, _ options: Options,
    _ makeIncarnation: @escaping @Sendable () -> UInt64, _ now: @escaping @Sendable () -> Int64, _ report: @escaping @Sendable (String) -> Void,
    opened: (Result<ShardCore, any Error>) -> Void
  ) {
    do {
      let taken = try file.takeOver()
      let core = try ShardCore(shard: file.shard, epoch: taken.epoch, isRaised: taken.isRaised, path: file.path, options: options, readers: readers)
      let checkpoints = try ShardCheckpoints(core: core, connection: taken.connection, file: file, thread: writeback)
      opened(.success(core))
      ShardWriter(
        core: core, connection: taken.connection, file: file, checkpoints: checkpoints, makeIncarnation: makeIncarnation, now: now, report: report
      ).run()
      lock.release()
      core.finish()
    } catch {
      lock.release()
      opened(.failure(error))
    }
  }
}
