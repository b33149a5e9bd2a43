// The directory: users, credentials, access rights, containers and schemas. One actor over one SQLite file.

import Crypto
import Dispatch
import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit

/// The durable state of the share service.
///
/// Every change is on disk (`synchronous=FULL`) before a method returns; a method that throws changed nothing, except
/// after a failed sync (see `change`). Credentials are stored as SHA-256 only.
actor Directory {
  private let executor = BlockingExecutor(label: "directory")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private let path: String
  private var file: Connection
  /// Set after a failed sync: the kernel may have dropped unwritten pages, so the connection must not be used any more.
  private var mustReopen = false
  let clock: any WallClock
  let random: any RandomSource
  /// The number of shards that the installation was created with.
  nonisolated let shardCount: Int
  /// Of several share services, processes follow the one with the highest epoch; 0 without one.
  nonisolated let epoch: Int64
  nonisolated let signingKey: [UInt8]
  /// SHA-256 of the operator's token.
  nonisolated let operatorTokenHash: [UInt8]
  /// Rules for tokens of the sign-in page.
  nonisolated let sessions: SessionPolicy
  /// Environments as last read or written.
  var environments: [EnvironmentKey: EnvironmentState] = [:]

  /// Opens the directory in `path`, or creates it.
  /// - Parameter shardCount: of a new directory, nil: the default. An existing directory's number can't change.
  /// - Parameter epoch: the directory keeps the highest one.
  /// - Parameter operatorToken: called once this process has the file to itself.
  /// - Throws: `InstallationProblem` with one sentence for the operator.
  init(
    path: String, shardCount: Int?, epoch: Int64 = 0, operatorToken: () throws -> String,
    sessions: SessionPolicy = SessionPolicy(), clock: any WallClock, random: any RandomSource
  ) throws {
    let connection = try DirectoryFormat.open(path)
    self.shardCount = try DirectoryFormat.settleShardCount(shardCount, in: connection)
    self.epoch = try DirectoryFormat.settleEpoch(epoch, in: connection)
    signingKey = try DirectoryFormat.settleSigningKey(in: connection, random: random)
    self.path = path
    file = connection
    operatorTokenHash = SHA256.hash(try operatorToken())
    self.sessions = sessions
    self.clock = clock
    self.random = random
  }

  /// Closes the file; the directory must not be used afterwards.
  func close() {
    // Dropped because the next start recovers the write-ahead log.
    if !mustReopen { _ = try? file.checkpoint(.truncate) }
    mustReopen = false
    file.close()
  }

  /// The open file. After a failed sync it is opened again; as long as that fails, every use throws and the next use
  /// tries again.
  var connection: Connection {
    if mustReopen, let opened = try? DirectoryFormat.open(path) {
      // Dropped above because callers and the health check get the closed connection's error.
      mustReopen = false
      file = opened
      environments = [:]
    }
    return file
  }

  /// True when this is still the connection in use.
  func isOpen(_ connection: Connection) -> Bool { !mustReopen && connection === file }

  /// Closes without a checkpoint: only the log on the disk decides which changes are durable.
  private func abandonFile() {
    file.close()
    mustReopen = true
  }

  /// For health checks.
  var isReadable: Bool {
    // Dropped because the check only says that the directory can't be read; calls report the reason.
    (try? DirectoryFormat.value("shardCount", in: connection)) != nil
  }

  /// Runs `body` as one durable change and keeps the write-ahead log short.
  ///
  /// After a failed sync the change's fate is unknown: the log on the disk decides when the file is opened again.
  func change<Value>(_ body: () throws -> Value) throws -> Value {
    do {
      let value = try connection.transaction(body)
      shortenLog()
      return value
    } catch let error as SQLiteError where error.isSyncError {
      abandonFile()
      throw error
    }
  }

  private func shortenLog() {
    guard file.logPageCount >= Self.checkpointPageCount else { return }
    do {
      try file.checkpoint(.passive)
    } catch {
      // Dropped because the change is already durable, and the next change tries the checkpoint again.
      if error.isSyncError { abandonFile() }
    }
  }

  private static let checkpointPageCount = 1_000

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
