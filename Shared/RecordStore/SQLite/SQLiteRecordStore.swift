// The embedded store: one SQLite file a shard, one writing thread each.

public import Assets
import CLinux
public import Crypto
import Glibc
import SQLite

/// Shards as files `shard-<n>.sqlite` (with `-wal` while open) and `shard-<n>.lock` in one folder.
public final class SQLiteRecordStore: RecordStore {
  /// Limits, with the values products use.
  public struct Options: Sendable {
    /// Bodies that may wait for a shard's writer; more are answered `overloaded`.
    public var queueLimit = 4096
    /// … of one party (`ShardStore.turns`), so that nobody fills the queue for all.
    public var partyQueueLimit = 1024
    /// What one commit takes at most: bodies, and then until this many records or bytes of records are written.
    public var groupBodyLimit = 1000
    public var groupRecordLimit = 1000
    public var groupByteLimit = 4 << 20
    /// Pages of the write-ahead log after which it is copied into the file (`ShardCheckpoints`). More of them are fewer copies, but savers wait longer for
    /// each. The log is some 12 MB long then, and 24 beside a slow disk, which is read once after a crash.
    public var checkpointPages = 3000
    /// A log that reads keep from beginning anew grows. At four times so many pages they are waited for; at sixteen times those that go on are cut short,
    /// and begin anew. Copies and checks of the whole shard are waited for by nobody; one that was cut short twice may go on until the log has
    /// sixty-four times as many.
    public var longLogPages = 12_000
    /// How long saves wait for such reads to end.
    public var readerPatience = Duration.milliseconds(20)
    /// Records of a deleted zone that one commit removes.
    public var sweepLimit = 500
    /// What one commit fills into a new index at most: records, and for how long while saves wait and while none do.
    public var indexSliceLimit = 2000
    /// … names of records of any type that it looks at, and bytes of those it reads.
    public var indexSliceNameLimit = 50_000
    public var indexSliceByteLimit = 4 << 20
    public var indexSliceTime = Duration.milliseconds(3)
    public var idleIndexSliceTime = Duration.milliseconds(25)
    /// Whether states of records that later ones replace are kept until somebody forgets them (`forgetPast`).
    public var keepsPastStates = false
    /// Threads that read, shared by all shards, and reads that may wait for them.
    public var readerThreadCount = 4
    public var readLimit = 4096
    /// … of one party.
    public var partyReadLimit = 1024
    /// A read that takes longer while others wait is begun anew on threads that are there for such reads.
    public var briefReadTime = Duration.milliseconds(250)
    /// Those threads, and the reads that may wait for them.
    public var longReaderThreadCount = 2
    public var longReadLimit = 64
    /// … of one party, which in any case leaves one of those threads to others, if there are several.
    public var partyLongReadLimit = 16
    /// Threads for copies and checks of whole shards, so that those take none from users' reads.
    public var wholeReaderThreadCount = 2
    /// How long a read may take, waiting included, before it is given up: less than clients of the gateway wait.
    public var readTime = Duration.seconds(8)
    /// Only for the test that shows that power cuts are noticed: with anything but FULL they lose acknowledged writes.
    package var synchronous = "FULL"
    /// Only for tests of a disk that never has done writing back.
    package var isWritebackStuck = false

    public init() {}
  }

  /// The stored format that files are brought to when they are opened.
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
  ///   - directory: made if it is missing. Must be on a local file system.
  ///   - shardCount: the number the installation was created with; a shard's file refuses another.
  ///   - assets: where the files of assets are; nil: records' assets are counted, and their files are nobody's business.
  ///   - keys: what encrypted values rest under; without one, none is stored, and shards that have some are refused.
  ///   - installation: whose shards they are: files of others are refused; nil: nobody asks.
  ///   - makeIncarnation: draws the incarnations of databases, zones and mirrors; strong randomness unless a test says otherwise.
  ///   - now: milliseconds since 1970, for when assets became unused; the machine's clock unless a test says otherwise.
  ///   - report: told once of each damaged record that work in the background passed over, with what names shard, zone and sequence.
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
    // The writer's thread opens the file: its connection never leaves it.
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

  /// A writer thread's life.
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
