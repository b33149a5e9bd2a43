// Opens files whose log is written with one call a commit, and rewritten and synced when it is found at an opening.

import CSQLiteLog

extension Connection {
  /// Opens the file at `path`, which belongs to this process alone: every other process is locked out.
  ///
  /// The kernel drops the lock against other processes as soon as any other code in this process opens and closes the
  /// file, so no other code may open it. The index of the log lies in this process's memory.
  public convenience init(exclusive path: String, mode: Mode) throws(SQLiteError) {
    _ = Self.registration
    try self.init(
      path: path, mode: mode,
      fileSystem: String(cString: mode == .readWrite ? csqlitelog_exclusive_name : csqlitelog_exclusive_reader_name))
  }

  /// Opens the file at `path`, which other processes may read meanwhile. One process at a time may have it open as
  /// `.readWrite`.
  public convenience init(shared path: String, mode: Mode) throws(SQLiteError) {
    _ = Self.registration
    try self.init(
      path: path, mode: mode,
      fileSystem: String(cString: mode == .readWrite ? csqlitelog_shared_name : csqlitelog_shared_reader_name))
  }

  /// Seconds that the calling thread has spent syncing write-ahead logs since the thread began.
  public static var secondsInSync: Double { csqlitelog_seconds_in_sync() }

  /// Registers the file systems, once. They find the ones below them by name, so SQLite must be configured by then.
  private static let registration = { () -> Int32 in
    configureLibrary()
    return csqlitelog_register()
  }()
}
