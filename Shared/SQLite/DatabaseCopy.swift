// Copies a database into a file of its own, a megabyte at a time, so that the caller can pause or stop between steps.

import CSQLite

/// A copy in progress. It belongs to its connection's thread and must not be used after the connection is closed.
public final class DatabaseCopy {
  private var target: OpaquePointer?
  private var copying: OpaquePointer?

  private static let pageCount: Int32 = 256
  /// SQLite's own for files of one process: its locks cost no system calls.
  private static let fileSystem = "unix-excl"

  init(of source: OpaquePointer, to path: String) throws(SQLiteError) {
    let flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    let code = sqlite3_open_v2(path, &target, flags, Self.fileSystem)
    guard code == SQLITE_OK else { throw failure(code) }
    copying = sqlite3_backup_init(target, "main", source, "main")
    guard copying != nil else { throw failure(sqlite3_extended_errcode(target)) }
  }

  deinit { end() }

  /// Copies the next megabyte. After the last one the copy is complete, synced, and without a log.
  /// - Returns: false when the copy is finished.
  public func step() throws(SQLiteError) -> Bool {
    guard let copying else { return false }
    var code = sqlite3_backup_step(copying, Self.pageCount)
    if code == SQLITE_OK { return true }
    self.copying = nil
    let finished = sqlite3_backup_finish(copying)
    guard code == SQLITE_DONE, finished == SQLITE_OK else { throw failure(code == SQLITE_DONE ? finished : code) }
    code = sqlite3_exec(target, "PRAGMA journal_mode=DELETE", nil, nil, nil)
    guard code == SQLITE_OK else { throw failure(code) }
    end()
    return false
  }

  private func failure(_ code: Int32) -> SQLiteError {
    defer { end() }
    return SQLiteError(code: code, statement: "copy", connection: target)
  }

  private func end() {
    if let copying { sqlite3_backup_finish(copying) }
    sqlite3_close_v2(target)
    (copying, target) = (nil, nil)
  }
}
