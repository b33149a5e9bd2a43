// The directory in a file of SQLite, which one process has to itself.

import Records
import SQLite

final class SQLiteDirectory: DirectoryStore {
  private let path: String
  private var file: Connection
  private(set) var connectionCount = 0
  /// Set after a failed sync: the kernel may have dropped unwritten pages, so the connection must not be used any more.
  private var mustReopen = false

  /// Opens the file, or creates it.
  /// - Throws: `InstallationProblem`.
  init(_ path: String) throws {
    self.path = path
    file = try DirectoryFormat.open(path)
  }

  func close() {
    // Dropped because the next start recovers the write-ahead log.
    if !mustReopen { _ = try? file.checkpoint(.truncate) }
    mustReopen = false
    file.close()
  }

  /// The open file. After a failed sync it is opened again; as long as that fails, every use throws and the next use
  /// tries again.
  var connection: DirectoryConnection {
    if mustReopen, let opened = try? DirectoryFormat.open(path) {
      // Dropped above because callers and the health check get the closed connection's error.
      mustReopen = false
      file = opened
      connectionCount += 1
    }
    return .sqlite(file)
  }

  /// The file is locked for this process.
  func confirm() {}

  /// True when this is still the connection in use.
  func isOpen(_ connection: Connection) -> Bool { !mustReopen && connection === file }

  /// Closes without a checkpoint: only the log on the disk decides which changes are durable.
  private func abandonFile() {
    file.close()
    mustReopen = true
  }

  /// Keeps the write-ahead log short. After a failed sync the change's fate is unknown: the log on the disk decides
  /// when the file is opened again.
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
}

extension SQLiteError: DirectoryEngineError {
  var recordError: RecordError? {
    if isFull { return .noSpace }
    guard isSyncError || isClosed else { return nil }
    // The next call opens the file again.
    return RecordError(
      .tryAgainLater, "The directory's disk failed; check whether the change was made before you repeat it",
      retryAfter: 1)
  }
}
