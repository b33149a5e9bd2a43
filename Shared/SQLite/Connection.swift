// One connection to one SQLite file: opening, cached statements, transactions, checkpoints.

import CSQLite
import CSQLiteLog

/// A connection. Not Sendable: the thread (or actor) that opened it owns it, and SQLite's own locking is off.
///
/// The file is locked for other processes while it is open. The kernel gives that lock up as soon as anything else in this process opens and
/// closes the file: nothing may.
///
/// Write-ahead files of SQLite before 3.51.3 can be corrupted by two connections that write or checkpoint at once: exactly one
/// connection of a file may be `.readWrite`, and it must be closed last.
public final class Connection {
  public enum Mode: Sendable {
    /// Writes, and makes the file if there is none. Never checkpoints by itself: call `checkpoint`. A commit reaches the log in one write.
    case readWrite
    /// Reads only; the file must exist.
    case readOnly
  }

  /// Which readers a checkpoint may wait for or cut off.
  public enum Checkpoint: Sendable {
    /// Copies what no reader needs and never waits.
    case passive
    /// Waits (up to the busy time-out) for readers, then empties the log file.
    case truncate
  }

  public struct CheckpointResult: Hashable, Sendable {
    /// Pages in the write-ahead log.
    public let logPages: Int
    /// How many of them are in the database file now.
    public let checkpointedPages: Int
  }

  private var handle: OpaquePointer?
  private var statements: [String: Statement] = [:]
  /// Written by the commit hook; lives as long as the connection.
  private let logPages = UnsafeMutablePointer<Int>.allocate(capacity: 1)
  private var savepointDepth = 0
  private var startedWatch: StatementWatch?

  /// Opens the file at `path`, or a private database for `":memory:"`.
  /// - Parameter busyMilliseconds: how long statements wait for another connection's lock.
  public init(path: String, mode: Mode, busyMilliseconds: Int32 = 5000) throws(SQLiteError) {
    _ = Self.configuration
    logPages.initialize(to: 0)
    let flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (mode == .readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
    let code = sqlite3_open_v2(path, &handle, flags, mode == .readWrite ? csqlitelog_name : csqlitelog_reader_name)
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
      // Nor on closing: after a failed sync nothing more may be written.
      csqlite_no_checkpoint_on_close(handle)
      // Replaces SQLite's own hook, which would checkpoint.
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

  /// Process-wide and once; SQLite refuses it after its first use, which only costs speed.
  private static let configuration = (csqlite_disable_memory_statistics(), csqlitelog_register())

  /// How long the calling thread has waited for write-ahead logs to be synced, since it began.
  public static var secondsInSync: Double { csqlitelog_seconds_in_sync() }

  /// Closes for good; every statement of it is finalized. Closing twice is fine.
  public func close() {
    for statement in statements.values { statement.finalize() }
    statements = [:]
    sqlite3_close_v2(handle)
    handle = nil
  }

  // MARK: Time

  /// What ends this connection's statements early; made, and asked by them, from its first use on.
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

  /// The statement `sql`, prepared on first use and kept. Names must be unique within the connection.
  public func statement(_ sql: SQL) throws(SQLiteError) -> Statement {
    if let statement = statements[sql.name] {
      precondition(statement.text == sql.text, "two statements are named \(sql.name)")
      return statement
    }
    let statement = try prepare(sql)
    statements[sql.name] = statement
    return statement
  }

  /// A statement that is not kept, for text that is put together at run time. It must not outlive the connection's `close`.
  public func prepare(_ sql: SQL) throws(SQLiteError) -> Statement {
    try Statement(sql, connection: open("prepare \(sql.name)"))
  }

  /// Runs one or several statements without parameters or results: schema, pragmas.
  public func execute(_ text: String) throws(SQLiteError) {
    let connection = try open("execute")
    let code = sqlite3_exec(connection, text, nil, nil, nil)
    guard code == SQLITE_OK else { throw SQLiteError(code: code, statement: Self.name(of: text), connection: connection) }
  }

  /// Rows that the latest statement inserted, changed or deleted.
  public var changes: Int { Int(sqlite3_changes64(handle)) }
  public var lastInsertRowID: Int64 { sqlite3_last_insert_rowid(handle) }

  // MARK: Transactions

  public var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  /// Runs `body` in a transaction that takes the write lock at once; commits when it returns, rolls back when it throws.
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

  /// Runs `body` within the current transaction; what it wrote is undone when it throws. Savepoints nest.
  ///
  /// Some errors (disk full, I/O) make SQLite roll the whole transaction back: then `isInTransaction` is false.
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

  /// The pieces of `transaction`, for a writer that groups the work of several callers.
  public func beginImmediateTransaction() throws(SQLiteError) { try begin(Self.beginImmediate) }
  public func beginReadTransaction() throws(SQLiteError) { try begin(Self.begin) }
  /// A commit that fails may leave the transaction open: roll back.
  public func commit() throws(SQLiteError) { try statement(Self.commit).run() }
  /// Does nothing outside a transaction: SQLite may have rolled back by itself.
  public func rollback() throws(SQLiteError) {
    savepointDepth = 0
    if isInTransaction { try statement(Self.rollback).run() }
  }

  private func begin(_ sql: SQL) throws(SQLiteError) {
    savepointDepth = 0
    try statement(sql).run()
  }

  /// The pieces of `savepoint`. They nest: release and rollback mean the innermost open one.
  public func openSavepoint() throws(SQLiteError) {
    try statement(Self.savepointStatements(savepointDepth).open).run()
    savepointDepth += 1
  }
  /// Keeps what was written since the savepoint was opened (or rolled back to), and closes it.
  public func releaseSavepoint() throws(SQLiteError) {
    try statement(Self.savepointStatements(max(savepointDepth - 1, 0)).release).run()
    savepointDepth -= 1
  }
  /// Undoes what was written since the savepoint was opened; it stays open.
  public func rollbackToSavepoint() throws(SQLiteError) {
    try statement(Self.savepointStatements(max(savepointDepth - 1, 0)).rollback).run()
  }

  // MARK: Write-ahead log

  /// Pages in the write-ahead log after the latest commit (or checkpoint) by this connection.
  public var logPageCount: Int { logPages.pointee }

  /// Copies pages of the write-ahead log into the database file. Not within a transaction.
  ///
  /// The file is synced when all of the log is in it, and not while a reader needs what is there of earlier commits: then the log goes on, and has
  /// whatever the file may lose with the power.
  @discardableResult public func checkpoint(_ kind: Checkpoint) throws(SQLiteError) -> CheckpointResult {
    let connection = try open("checkpoint")
    var log: Int32 = 0
    var done: Int32 = 0
    let code = sqlite3_wal_checkpoint_v2(connection, nil, kind == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE, &log, &done)
    guard code == SQLITE_OK else { throw SQLiteError(code: code, statement: "checkpoint", connection: connection) }
    // SQLite tells its hook of commits only. Without a log there are -1 pages.
    logPages.pointee = max(Int(log), 0)
    return CheckpointResult(logPages: Int(log), checkpointedPages: Int(done))
  }

  // MARK: Copies

  /// Copies the database as this connection sees it into a new file of its own, whole, synced, and without a log. Within a transaction that has read
  /// something it is the state that the transaction sees.
  /// - Parameter mustStop: asked every megabyte.
  /// - Returns: false when it was stopped; the file is of no use then.
  public func copy(to path: String, mustStop: () -> Bool = { false }) throws(SQLiteError) -> Bool {
    let copy = try beginCopy(to: path)
    while try copy.step() { if mustStop() { return false } }
    return true
  }

  /// Begins such a copy, for whoever copies step by step. What this connection writes between two steps is in the copy, too; nobody else may write.
  public func beginCopy(to path: String) throws(SQLiteError) -> DatabaseCopy { try DatabaseCopy(of: open("copy"), to: path) }

  // MARK: Pieces

  private func open(_ operation: String) throws(SQLiteError) -> OpaquePointer {
    guard let handle else { throw SQLiteError(code: SQLITE_MISUSE, statement: operation, message: "the connection is closed") }
    return handle
  }

  /// The first words of a statement without parameters: `CREATE TABLE record`.
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
