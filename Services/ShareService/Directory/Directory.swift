// The directory: users, credentials, access rights, containers and schemas. One actor over one engine.

import Crypto
import Dispatch
import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit
import Synchronization

/// The durable state of the share service.
///
/// Every change is durable before a method returns; a method that throws changed nothing, unless the outcome of its
/// commit is unknown (see `DirectoryStore`). Credentials are stored as SHA-256 only.
actor Directory {
  private let executor = BlockingExecutor(label: "directory")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  let store: any DirectoryStore
  private var knownConnectionCount = 0
  /// Tells of each new connection, once the directory is used. Changes whose outcome was unknown may turn out to be
  /// stored then, and a server that took the place of another one may lack the last changes.
  nonisolated let renewals: AsyncStream<Void>
  private let renewal: AsyncStream<Void>.Continuation
  let clock: any WallClock
  let random: any RandomSource
  /// The number of shards that the installation was created with.
  nonisolated let createdShardCount: Int
  /// The splits, as last read or written.
  private nonisolated let knownSplits: Mutex<[Int]>
  /// Of several share services, processes follow the one with the highest epoch; 0 without one.
  nonisolated let epoch: Int64
  nonisolated let signingKey: [UInt8]
  /// SHA-256 of the operator's token.
  nonisolated let operatorTokenHash: [UInt8]
  /// Rules for tokens of the sign-in page.
  nonisolated let sessions: SessionPolicy
  /// What keeps the directory from knowing of divisions that shards tell of, by shard.
  var splitProblems: [Int: String] = [:]
  /// The incarnation of registrations that this connection begins with its first revision.
  var ownIncarnation: (name: String, connectionCount: Int)?
  /// Registrations of devices that one statement ends.
  var endSliceCount = 10_000
  /// Environments as last read or written.
  var environments: [EnvironmentKey: EnvironmentState] = [:]

  /// Opens the directory, or creates it.
  /// - Parameters:
  ///   - shardCount: of a new directory, nil: the default. An existing directory's number can't change.
  ///   - epoch: the directory keeps the highest one. In PostgreSQL each opening raises it.
  ///   - operatorToken: called once this process has the directory to itself.
  ///   - onSuccession: called when another share service turns out to lead.
  /// - Throws: `InstallationProblem` with one sentence for the operator; `PostgreSQLDirectory.Led`, `PostgreSQLError`.
  init(
    _ place: DirectoryPlace, shardCount: Int?, epoch: Int64 = 0, operatorToken: () throws -> String,
    sessions: SessionPolicy = SessionPolicy(), clock: any WallClock, random: any RandomSource,
    onSuccession: @escaping @Sendable (Int64) -> Void = { _ in }
  ) throws {
    let store: any DirectoryStore
    switch place {
    case .file(let path):
      store = try SQLiteDirectory(path)
      self.epoch = try DirectoryFormat.settleEpoch(epoch, in: store.connection)
    case .database(let configuration):
      let database = try PostgreSQLDirectory(configuration, leastEpoch: epoch, onSuccession: onSuccession)
      self.epoch = database.epoch
      store = database
    }
    createdShardCount = try DirectoryFormat.settleShardCount(shardCount, in: store.connection)
    knownSplits = Mutex(try DirectoryFormat.splits(of: createdShardCount, in: store.connection))
    signingKey = try DirectoryFormat.settleSigningKey(in: store.connection, random: random)
    self.store = store
    operatorTokenHash = SHA256.hash(try operatorToken())
    self.sessions = sessions
    self.clock = clock
    self.random = random
    (renewals, renewal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// The shards of the installation.
  nonisolated var layout: ShardLayout {
    let splits = knownSplits.withLock(\.self)
    guard let layout = ShardLayout(createdCount: createdShardCount, splits: splits) else {
      preconditionFailure("the splits \(splits) of \(createdShardCount) shards were not looked at")
    }
    return layout
  }
  /// The number of shards.
  nonisolated var shardCount: Int { createdShardCount + knownSplits.withLock(\.count) }

  /// Reads the splits again, because the outcome of an earlier change may be unknown.
  func readSplits() throws { noted(try DirectoryFormat.splits(of: createdShardCount, in: connection)) }

  /// Takes splits that are stored.
  func noted(_ splits: [Int]) { knownSplits.withLock { $0 = splits } }

  /// Closes the directory; it must not be used afterwards.
  func close() { store.close() }

  /// The open connection. As long as there is none, every use throws and the next use tries again.
  var connection: DirectoryConnection {
    let connection = store.connection
    if store.connectionCount != knownConnectionCount {
      knownConnectionCount = store.connectionCount
      environments = [:]
      renewal.yield()
    }
    return connection
  }

  /// For health checks.
  var isReadable: Bool {
    // Dropped because the check only says that the directory can't be read; calls report the reason.
    (try? DirectoryFormat.value("shardCount", in: connection)) != nil
  }

  /// Runs `body` as one durable change.
  func change<Value>(_ body: () throws -> Value) throws -> Value {
    do {
      return try store.change(body)
    } catch let error as any DirectoryEngineError where !error.isUniqueViolation {
      // Whether the change is stored may be unknown.
      environments = [:]
      throw error
    }
  }

  // MARK: The cluster map

  /// The stored map; nil in a new installation or when another release wrote it. The version counts in any case.
  func clusterMap() throws -> (map: ClusterMap?, version: Int64) {
    let version =
      try DirectoryFormat.value("clusterMapVersion", in: connection).flatMap {
        Int64(String(decoding: $0, as: UTF8.self))
      } ?? 0
    let bytes = try DirectoryFormat.value("clusterMap", in: connection)
    // Dropped because the publisher makes a new map from the workers that are connected.
    return (bytes.flatMap { try? MessagePackDecoder().decode(ClusterMap.self, from: $0) }, version)
  }

  func store(_ map: ClusterMap) throws {
    let bytes = try MessagePackEncoder().encode(map)
    try change {
      try DirectoryFormat.set("clusterMap", bytes, in: connection)
      try DirectoryFormat.set("clusterMapVersion", Array(String(map.version).utf8), in: connection)
    }
  }
}

/// Runs an actor's jobs in order on a queue of their own, so that waiting for the disk delays no other task.
final class BlockingExecutor: SerialExecutor {
  private let queue: DispatchQueue

  init(label: String) { queue = DispatchQueue(label: label) }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
  }
}
