// Opens files that belong to one process: every other process is locked out, and a commit reaches the log in one write.

import CSQLiteLog
public import SQLite

extension Connection {
  /// Opens the file at `path`, which belongs to this process alone.
  ///
  /// The kernel drops the lock against other processes as soon as any other code in this process opens and closes the
  /// file, so no other code may open it. The index of the log lies in this process's memory.
  ///
  /// The log of a `.readWrite` connection is written with one system call a commit, and rewritten and synced when it is
  /// found at an opening (`Shared/CSQLiteLog`).
  public convenience init(exclusive path: String, mode: Mode) throws(SQLiteError) {
    _ = Self.registration
    try self.init(
      path: path, mode: mode, fileSystem: String(cString: mode == .readWrite ? csqlitelog_name : csqlitelog_reader_name)
    )
  }

  /// Seconds that the calling thread has spent syncing write-ahead logs since the thread began.
  static var secondsInSync: Double { csqlitelog_seconds_in_sync() }

  /// Registers the file system, once. It finds the one below it by name, so SQLite must be configured by then.
  private static let registration = { () -> Int32 in
    configureLibrary()
    return csqlitelog_register()
  }()
}
