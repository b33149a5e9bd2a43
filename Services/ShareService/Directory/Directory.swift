// The directory: who may do what with which container, and its schemas. One actor over one SQLite file.

import Crypto
import Dispatch
import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit

/// Everything durable of the share service.
///
/// Every change is on disk (`synchronous=FULL`) before a method returns; what a method throws changed nothing.
/// Credentials are kept as SHA-256 only.
actor Directory {
  private let executor = BlockingExecutor(label: "directory")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  private let path: String
  private var file: Connection
  /// After a sync that failed the kernel may have dropped what it could not write: nothing is read or written through that connection any more.
  private var mustReopen = false
  let clock: any WallClock
  let random: any RandomSource
  /// How many shards the installation was created with.
  nonisolated let shardCount: Int
  nonisolated let signingKey: [UInt8]
  /// SHA-256 of the operator's token.
  nonisolated let operatorTokenHash: [UInt8]
  /// Of tokens that the sign-in page gives out.
  nonisolated let sessions: SessionPolicy
  /// Environments as they were last read or written.
  var environments: [EnvironmentKey: EnvironmentState] = [:]

  /// Opens the directory in `path`, or makes it.
  /// - Parameter shardCount: for a new directory (nil: the default); for an existing one it must be what it was made with.
  /// - Parameter operatorToken: asked for once the file is this process's alone.
  /// - Throws: `InstallationProblem` with one sentence for the operator.
  init(
    path: String, shardCount: Int?, operatorToken: () throws -> String, sessions: SessionPolicy = SessionPolicy(), clock: any WallClock, random: any RandomSource
  ) throws {
    let connection = try DirectoryFormat.open(path)
    self.shardCount = try DirectoryFormat.settleShardCount(shardCount, in: connection)
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
    // Dropped because the next start recovers the log that stays.
    if !mustReopen { _ = try? file.checkpoint(.truncate) }
    mustReopen = false
    file.close()
  }

  /// The file, opened anew where a sync of it has failed. While it can't be, every use of it throws, and the next one tries again.
  var connection: Connection {
    if mustReopen, let opened = try? DirectoryFormat.open(path) {
      // Dropped above because who asks meets the closed connection, and the health check with him.
      mustReopen = false
      file = opened
      environments = [:]
    }
    return file
  }

  /// Whether that is still the connection that everybody uses.
  func isOpen(_ connection: Connection) -> Bool { !mustReopen && connection === file }

  /// Without a checkpoint: what is to be known of the file is what its log has on the disk.
  private func abandonFile() {
    file.close()
    mustReopen = true
  }

  /// For health checks.
  var isReadable: Bool {
    // Dropped because a check says only that it failed; calls report why.
    (try? DirectoryFormat.value("shardCount", in: connection)) != nil
  }

  /// Runs `body` as one durable change and keeps the write-ahead log short.
  ///
  /// After a sync that failed nobody knows whether it is: the log that is found when the file is opened again decides.
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
      // Dropped because the change is durable already; the next one tries again.
      if error.isSyncError { abandonFile() }
    }
  }

  private static let checkpointPageCount = 1_000

  // MARK: the cluster map

  /// The last map that was kept, nil in a new installation or when another release wrote it; its version counts in any case.
  func clusterMap() throws -> (map: ClusterMap?, version: Int64) {
    let version = try DirectoryFormat.value("clusterMapVersion", in: connection).flatMap { Int64(String(decoding: $0, as: UTF8.self)) } ?? 0
    let bytes = try DirectoryFormat.value("clusterMap", in: connection)
    // Dropped because a map is made anew from who is there.
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

/// Runs an actor's jobs one after the other on a queue of its own, so that waiting for the disk holds up no one else.
final class BlockingExecutor: SerialExecutor {
  private let queue: DispatchQueue

  init(label: String) { queue = DispatchQueue(label: label) }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
  }
}
