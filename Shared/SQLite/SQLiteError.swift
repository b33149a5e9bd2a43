// SQLite's errors in a form that is safe to log: codes and names of statements, never bound values.

import CSQLite

public struct SQLiteError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The extended result code, such as `SQLITE_CONSTRAINT_UNIQUE` (2067).
  public let code: Int32
  /// The name of the statement (`SQL.name`) or of the operation that failed.
  public let statement: String
  /// SQLite's text for the failure. It can name tables and columns, never values.
  public let message: String

  public init(code: Int32, statement: String, message: String) {
    self.code = code
    self.statement = statement
    self.message = message
  }

  init(code: Int32, statement: String, connection: OpaquePointer?) {
    let text = connection.flatMap(sqlite3_errmsg) ?? sqlite3_errstr(code)
    self.init(code: code, statement: statement, message: text.map { String(cString: $0) } ?? "unknown error")
  }

  /// The code without its extension, such as `SQLITE_CONSTRAINT` (19).
  public var primaryCode: Int32 { code & 0xff }

  public var isConstraintViolation: Bool { primaryCode == SQLITE_CONSTRAINT }
  public var isUniqueViolation: Bool {
    code == SQLiteError.constraintUnique || code == SQLiteError.constraintPrimaryKey
      || code == SQLiteError.constraintRowID
  }
  /// Another connection holds the lock.
  public var isBusy: Bool { primaryCode == SQLITE_BUSY || primaryCode == SQLITE_LOCKED }
  /// The device has no space left, or the file may not grow.
  public var isFull: Bool { primaryCode == SQLITE_FULL }
  /// The connection's `watch` ended the statement.
  public var isInterruption: Bool { primaryCode == SQLITE_INTERRUPT }
  /// The connection is closed, or a call breaks SQLite's rules of use.
  public var isClosed: Bool { primaryCode == SQLITE_MISUSE }
  /// A sync failed: the writes may or may not be on the disk, and the kernel may have dropped them. Never retry on this
  /// file.
  public var isSyncError: Bool { code == SQLiteError.ioFsync || code == SQLiteError.ioDirFsync }
  /// The disk fails to return data that it holds.
  public var isReadError: Bool {
    code == SQLiteError.ioRead || code == SQLiteError.ioShortRead || code == SQLiteError.ioCorruptFileSystem
  }
  /// A page differs from the one that SQLite wrote, or the file is no SQLite database.
  public var isCorruption: Bool { primaryCode == SQLITE_CORRUPT || primaryCode == SQLITE_NOTADB }

  public var description: String { "SQLite \(code) in \(statement): \(message)" }

  // The C header defines these as expressions, which Swift does not import.
  private static let constraintUnique: Int32 = SQLITE_CONSTRAINT | 8 << 8
  private static let constraintPrimaryKey: Int32 = SQLITE_CONSTRAINT | 6 << 8
  private static let constraintRowID: Int32 = SQLITE_CONSTRAINT | 10 << 8
  private static let ioRead: Int32 = SQLITE_IOERR | 1 << 8
  private static let ioShortRead: Int32 = SQLITE_IOERR | 2 << 8
  private static let ioCorruptFileSystem: Int32 = SQLITE_IOERR | 33 << 8
  private static let ioFsync: Int32 = SQLITE_IOERR | 4 << 8
  private static let ioDirFsync: Int32 = SQLITE_IOERR | 5 << 8
}
