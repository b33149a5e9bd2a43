// One connection to one SQLite file: opening, cached statements, transactions, checkpoints.

import CSQLite

/// A connection. Not Sendable: the thread (or actor) that opened it owns it, and SQLite's own locking is off.
///
/// SQLite before 3.51.3 can corrupt a write-ahead log when two connections write or checkpoint at once. Open exactly
/// one connection of a file as `.readWrite`, and close it last.
public final class Connection {
  public enum Mode: Sendable {
    /// Reads and writes, and creates the file if it is missing. Only `checkpoint` copies the log into the file.
    case readWrite
    /// Reads only; the file must exist.
    case readOnly
  }

  /// How a checkpoint treats readers that still use the log.
  public enum Checkpoint: Sendable {
    /// Copies the pages that no reader needs and never waits.
    case passive
    /// Waits (up to the busy time-out) for readers, then empties the log file.
    case truncate
  }

  public struct CheckpointResult: Hashable, Sendable {
    /// Pages in the write-ahead log.
    public let logPages: Int
    /// Pages of the log that are in the database file.
    public let checkpointedPages: Int
  }

  private var handle: OpaquePointer?
  private var statements: [String: Statement] = [:]
  /// The commit hook writes it. It lives as long as the connection.
  private let logPages = UnsafeMutablePointer<Int>.allocate(capacity: 1)
  private var savepointDepth = 0
  private var startedWatch: StatementWatch?

  /// Opens the file at `path`, or a private database for `":memory:"`.
  /// - Parameters:
  ///   - fileSystem: the name of one of SQLite's file systems; nil: the platform's, which several processes can share.
  ///   - busyMilliseconds: how long a statement waits for another connection's lock before it throws.
  public init(path: String, mode: Mode, fileSystem: String? = nil, busyMilliseconds: Int32 = 5000) throws(SQLiteError) {
    Self.configureLibrary()
    logPages.initialize(to: 0)
    let flags =
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
      | (mode == .readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
    let code = sqlite3_open_v2(path, &handle, flags, fileSystem)
    guard code == SQLITE_OK else {
      let error = SQLiteError(code: code, statement: "open", connection: handle)
      sqlite3_close_v2(handle)
      handle = nil
      throw error
    }
    sqlite3_busy_timeout(handle, busyMilliseconds)
    if mode == .readOnly {
      try execute("PRAGMA query_only=1")
    } else {
      // Closing does not checkpoint either: after a failed sync nothing may be written to the file.
      csqlite_no_checkpoint_on_close(handle)
      // Replaces SQLite's own hook, which checkpoints.
      sqlite3_wal_hook(
        handle,
        { cell, _, _, pages in
          cell?.assumingMemoryBound(to: Int.self).pointee = Int(pages)
          return SQLITE_OK
        }, logPages)
    }
  }

  deinit {
    close()
    logPages.deallocate()
  }

  /// Configures SQLite for the process, once; each opening does. SQLite refuses the setting after its first use, which
  /// only costs speed, so code that registers a file system calls this before.
  public static func configureLibrary() { _ = configuration }

  private static let configuration = csqlite_disable_memory_statistics()

  /// Closes for good and finalizes every cached statement. Closing twice does nothing.
  public func close() {
    for statement in statements.values { statement.finalize() }
    statements = [:]
    sqlite3_close_v2(handle)
    handle = nil
  }

  // MARK: Time

  /// Ends this connection's statements early. The first access creates the watch and makes the statements ask it.
  public var watch: StatementWatch {
    if let startedWatch { return startedWatch }
    let watch = StatementWatch()
    startedWatch = watch
    sqlite3_progress_handler(
      handle, Self.watchSteps,
      { context in
        guard let context else { return 0 }
        return Unmanaged<StatementWatch>.fromOpaque(context).takeUnretainedValue().mustEnd() ? 1 : 0
      }, Unmanaged.passUnretained(watch).toOpaque())
    return watch
  }

  /// Steps of SQLite's virtual machine between two looks at the watch.
  private static let watchSteps: Int32 = 4000

  // MARK: Statements

  /// The statement `sql`, prepared on first use and cached by name. Two statements of one name are a programming error.
  public func statement(_ sql: SQL) throws(SQLiteError) -> Statement {
    if let statement = statements[sql.name] {
      precondition(statement.text == sql.text, "two statements are named \(sql.name)")
      return statement
    }
    let statement = try prepare(sql)
    statements[sql.name] = statement
    return statement
  }

  /// Prepares a statement without caching it, for text that is built at run time. It must not outlive `close`.
  public func prepare(_ sql: SQL) throws(SQLiteError) -> Statement {
    try Statement(sql, connection: open("prepare \(sql.name)"))
  }

  /// Runs one or several statements that have neither parameters nor results: schema, pragmas.
  public func execute(_ text: String) throws(SQLiteError) {
    let connection = try open("execute")
    let code = sqlite3_exec(connection, text, nil, nil, nil)
    guard code == SQLITE_OK else {
      throw SQLiteError(code: code, statement: Self.name(of: text), connection: connection)
    }
  }

  /// Rows that the latest statement inserted, changed or deleted.
  public var changes: Int { Int(sqlite3_changes64(handle)) }
  public var lastInsertRowID: Int64 { sqlite3_last_insert_rowid(handle) }

  // MARK: Transactions

  public var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  /// Runs `body` in a transaction that takes the write lock at once. Commits when it returns, rolls back when it
  /// throws.
  public func transaction<Value>(_ body: () throws -> Value) throws -> Value {
    try beginImmediateTransaction()
    do {
      let value = try body()
      try commit()
      return value
    } catch {
      try rollback()
      throw error
    }
  }

  /// Runs `body` within the current transaction, and undoes its writes when it throws. Savepoints nest.
  ///
  /// After some errors (disk full, I/O) SQLite rolls the whole transaction back; `isInTransaction` is false then.
  public func savepoint<Value>(_ body: () throws -> Value) throws -> Value {
    try openSavepoint()
    do {
      let value = try body()
      try releaseSavepoint()
      return value
    } catch {
      if isInTransaction {
        try rollbackToSavepoint()
        try releaseSavepoint()
      }
      throw error
    }
  }

  /// Transactions in steps, for a writer that groups the work of several callers.
  public func beginImmediateTransaction() throws(SQLiteError) { try begin(Self.beginImmediate) }
  public func beginReadTransaction() throws(SQLiteError) { try begin(Self.begin) }
  /// A commit that fails may leave the transaction open: roll back.
  public func commit() throws(SQLiteError) { try statement(Self.commit).run() }
  /// Does nothing outside a transaction: after some errors SQLite has rolled back by itself.
  public func rollback() throws(SQLiteError) {
    savepointDepth = 0
    if isInTransaction { try statement(Self.rollback).run() }
  }

  private func begin(_ sql: SQL) throws(SQLiteError) {
    savepointDepth = 0
    try statement(sql).run()
  }

  /// Savepoints in steps. They nest: release and rollback act on the innermost open one.
  public func openSavepoint() throws(SQLiteError) {
    try statement(Self.savepointStatements(savepointDepth).open).run()
    savepointDepth += 1
  }
  /// Closes the savepoint and keeps the writes since it was opened (or rolled back to).
  public func releaseSavepoint() throws(SQLiteError) {
    try statement(Self.savepointStatements(max(savepointDepth - 1, 0)).release).run()
    savepointDepth -= 1
  }
  /// Undoes the writes since the savepoint was opened. The savepoint stays open.
  public func rollbackToSavepoint() throws(SQLiteError) {
    try statement(Self.savepointStatements(max(savepointDepth - 1, 0)).rollback).run()
  }

  // MARK: Write-ahead log

  /// Pages in the write-ahead log after this connection's latest commit or checkpoint.
  public var logPageCount: Int { logPages.pointee }

  /// Copies pages of the write-ahead log into the database file. Must not run within a transaction.
  ///
  /// SQLite syncs the file once it holds the whole log. While a reader still needs older pages, the file stays unsynced
  /// and the log keeps every page that the file could lose in a power cut.
  @discardableResult public func checkpoint(_ kind: Checkpoint) throws(SQLiteError) -> CheckpointResult {
    let connection = try open("checkpoint")
    var log: Int32 = 0
    var done: Int32 = 0
    let code = sqlite3_wal_checkpoint_v2(
      connection, nil, kind == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE, &log, &done)
    guard code == SQLITE_OK else { throw SQLiteError(code: code, statement: "checkpoint", connection: connection) }
    // SQLite calls its hook for commits only. Without a log it reports -1 pages.
    logPages.pointee = max(Int(log), 0)
    return CheckpointResult(logPages: Int(log), checkpointedPages: Int(done))
  }

  // MARK: Copies

  /// Copies the database, as this connection sees it, into a complete, synced file without a log. Within a transaction
  /// that has already read, the copy holds the state that the transaction sees.
  /// - Parameter mustStop: asked after every megabyte.
  /// - Returns: false when `mustStop` stopped the copy; the file is unusable then.
  public func copy(to path: String, mustStop: () -> Bool = { false }) throws(SQLiteError) -> Bool {
    let copy = try beginCopy(to: path)
    while try copy.step() { if mustStop() { return false } }
    return true
  }

  /// Begins a copy for a caller that copies step by step. The copy includes the writes that this connection makes
  /// between two steps. No other connection may write meanwhile.
  public func beginCopy(to path: String) throws(SQLiteError) -> DatabaseCopy {
    try DatabaseCopy(of: open("copy"), to: path)
  }

  // MARK: Pieces

  func open(_ operation: String) throws(SQLiteError) -> OpaquePointer {
    guard let handle else {
      throw SQLiteError(code: SQLITE_MISUSE, statement: operation, message: "the connection is closed")
    }
    return handle
  }

  /// The first three words of a statement, for errors: `CREATE TABLE record`.
  private static func name(of text: String) -> String {
    text.split(whereSeparator: { $0 == " " || $0 == "\n" || $0 == "(" || $0 == "=" }).prefix(3).joined(separator: " ")
  }

  private static let begin = SQL("BEGIN", "BEGIN")
  private static let beginImmediate = SQL("BEGIN IMMEDIATE", "BEGIN IMMEDIATE")
  private static let commit = SQL("COMMIT", "COMMIT")
  private static let rollback = SQL("ROLLBACK", "ROLLBACK")

  private static func savepointStatements(_ depth: Int) -> (open: SQL, release: SQL, rollback: SQL) {
    if depth < savepoints.count { return savepoints[depth] }
    return makeSavepointStatements(depth)
  }

  private static let savepoints = (0..<4).map(makeSavepointStatements)

  private static func makeSavepointStatements(_ depth: Int) -> (open: SQL, release: SQL, rollback: SQL) {
    (
      open: SQL("SAVEPOINT s\(depth)", "SAVEPOINT s\(depth)"), release: SQL("RELEASE s\(depth)", "RELEASE s\(depth)"),
      rollback: SQL("ROLLBACK TO s\(depth)", "ROLLBACK TO s\(depth)")
    )
  }
}
