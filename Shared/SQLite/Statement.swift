// A prepared statement: typed binding, stepping and columns, without implicit conversions.

import CSQLite

/// The text of a statement, and the name that caches and errors know it by.
public struct SQL: Hashable, Sendable {
  /// Unique within a connection. Appears in errors.
  public let name: String
  public let text: String

  public init(_ name: String, _ text: String) {
    self.name = name
    self.text = text
  }
}

/// A prepared statement of one connection. Like the connection, one thread at a time may use it.
///
/// Parameters count from 1, columns from 0. SQLite copies bound bytes, so they need not outlive the call.
public final class Statement {
  public let name: String
  let text: String
  private(set) var handle: OpaquePointer?

  /// `SQLITE_TRANSIENT`: makes SQLite copy the bound bytes.
  private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

  init(_ sql: SQL, connection: OpaquePointer) throws(SQLiteError) {
    name = sql.name
    text = sql.text
    var prepared: OpaquePointer?
    let code = sqlite3_prepare_v3(connection, sql.text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
    guard code == SQLITE_OK, let prepared else {
      throw SQLiteError(code: code == SQLITE_OK ? SQLITE_MISUSE : code, statement: sql.name, connection: connection)
    }
    handle = prepared
  }

  deinit { finalize() }

  func finalize() {
    sqlite3_finalize(handle)
    handle = nil
  }

  // MARK: Parameters

  public func bind(_ index: Int32, _ value: Int64) throws(SQLiteError) {
    try check(sqlite3_bind_int64(handle, index, value))
  }
  public func bind(_ index: Int32, _ value: Int) throws(SQLiteError) { try bind(index, Int64(value)) }
  public func bind(_ index: Int32, _ value: Double) throws(SQLiteError) {
    try check(sqlite3_bind_double(handle, index, value))
  }
  public func bind(_ index: Int32, _ value: Bool) throws(SQLiteError) { try bind(index, value ? Int64(1) : 0) }
  public func bindNull(_ index: Int32) throws(SQLiteError) { try check(sqlite3_bind_null(handle, index)) }

  public func bind(_ index: Int32, _ value: String) throws(SQLiteError) {
    var value = value
    let code = value.withUTF8 { utf8 in
      utf8.withMemoryRebound(to: CChar.self) { text in
        sqlite3_bind_text64(
          handle, index, text.baseAddress ?? Self.nothing, UInt64(text.count), Self.transient, UInt8(SQLITE_UTF8))
      }
    }
    try check(code)
  }

  /// Binds a blob; an empty one is not NULL.
  public func bind(_ index: Int32, _ bytes: UnsafeRawBufferPointer) throws(SQLiteError) {
    let code =
      bytes.count == 0
      ? sqlite3_bind_zeroblob(handle, index, 0)
      : sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), Self.transient)
    try check(code)
  }

  public func bind(_ index: Int32, _ bytes: [UInt8]) throws(SQLiteError) {
    let code = bytes.withUnsafeBytes { bytes in
      bytes.count == 0
        ? sqlite3_bind_zeroblob(handle, index, 0)
        : sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), Self.transient)
    }
    try check(code)
  }

  public func bind(_ index: Int32, _ value: Int64?) throws(SQLiteError) {
    if let value { try bind(index, value) } else { try bindNull(index) }
  }
  public func bind(_ index: Int32, _ value: Double?) throws(SQLiteError) {
    if let value { try bind(index, value) } else { try bindNull(index) }
  }
  public func bind(_ index: Int32, _ value: String?) throws(SQLiteError) {
    if let value { try bind(index, value) } else { try bindNull(index) }
  }
  public func bind(_ index: Int32, _ bytes: [UInt8]?) throws(SQLiteError) {
    if let bytes { try bind(index, bytes) } else { try bindNull(index) }
  }

  /// Binds all parameters in order, beginning with `?1`. Short to write, for statements off the hot path.
  public func binding<each Value: SQLiteBindable>(_ values: repeat each Value) throws(SQLiteError) -> Statement {
    var index: Int32 = 0
    for value in repeat each values {
      index += 1
      try value.bind(to: self, at: index)
    }
    return self
  }

  // MARK: Running

  /// Advances to the next row.
  /// - Returns: false after the last row.
  ///
  /// The statement can be bound again after the last row and after an error. A reader that stops earlier must
  /// `reset()`.
  public func step() throws(SQLiteError) -> Bool {
    let code = sqlite3_step(handle)
    if code == SQLITE_ROW { return true }
    if code == SQLITE_DONE {
      sqlite3_reset(handle)
      return false
    }
    let error = failure(code)
    sqlite3_reset(handle)
    throw error
  }

  /// Leaves the current row; the bindings stay.
  public func reset() { sqlite3_reset(handle) }

  /// Runs to the end, ignoring rows.
  public func run() throws(SQLiteError) { while try step() {} }

  /// Runs a statement whose unique value may exist already.
  /// - Returns: false when the value exists; nothing is written then.
  public func runUnlessTaken() throws(SQLiteError) -> Bool {
    do {
      try run()
      return true
    } catch  where error.isUniqueViolation {
      return false
    }
  }

  /// Rows that the connection's latest statement inserted, changed or deleted.
  public var changes: Int { Int(sqlite3_changes64(sqlite3_db_handle(handle))) }
  /// The row ID of the connection's latest insertion.
  public var lastInsertRowID: Int64 { sqlite3_last_insert_rowid(sqlite3_db_handle(handle)) }

  /// Calls `body` for each row. Resets the statement afterwards, also when `body` throws.
  public func forEach(_ body: (Statement) throws -> Void) throws {
    defer { reset() }
    while try step() { try body(self) }
  }

  /// `transform` of the first row, nil when there is none.
  public func first<Value>(_ transform: (Statement) throws -> Value) throws -> Value? {
    defer { reset() }
    return try step() ? transform(self) : nil
  }

  /// `transform` of every row, in order.
  public func all<Value>(_ transform: (Statement) throws -> Value) throws -> [Value] {
    defer { reset() }
    var values: [Value] = []
    while try step() { values.append(try transform(self)) }
    return values
  }

  // MARK: Columns of the current row

  public func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }
  public func isBlob(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_BLOB }

  public func int64(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
  public func int(_ column: Int32) -> Int { Int(truncatingIfNeeded: int64(column)) }
  public func bool(_ column: Int32) -> Bool { int64(column) != 0 }
  public func double(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

  /// The column as text; invalid UTF-8 is repaired, NULL is empty.
  public func text(_ column: Int32) -> String {
    guard let start = sqlite3_column_text(handle, column) else { return "" }
    return String(
      decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))), as: UTF8.self)
  }

  /// A copy of the column's bytes; NULL is empty.
  public func blob(_ column: Int32) -> [UInt8] { withBytes(column) { Array($0) } }

  /// Lends the column's bytes (of a blob, or of a text's UTF-8). The pointer is invalid once `body` returns.
  public func withBytes<Value, Failure: Error>(
    _ column: Int32, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    let start = sqlite3_column_blob(handle, column)
    return try body(
      UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, column))))
  }

  public func optionalInt64(_ column: Int32) -> Int64? { isNull(column) ? nil : int64(column) }
  public func optionalDouble(_ column: Int32) -> Double? { isNull(column) ? nil : double(column) }
  public func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }
  public func optionalBlob(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : blob(column) }

  // MARK: Failures

  /// Stands in for the address of an empty text: SQLite reads a null pointer as NULL.
  nonisolated(unsafe) private static let nothing = UnsafePointer(UnsafeMutablePointer<CChar>.allocate(capacity: 1))

  private func check(_ code: Int32) throws(SQLiteError) {
    if code != SQLITE_OK { throw failure(code) }
  }

  private func failure(_ code: Int32) -> SQLiteError {
    SQLiteError(code: code, statement: name, connection: handle.flatMap { sqlite3_db_handle($0) })
  }
}

/// A value that `Statement.binding(_:)` takes.
public protocol SQLiteBindable {
  func bind(to statement: Statement, at index: Int32) throws(SQLiteError)
}

extension Int64: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) { try statement.bind(index, self) }
}
extension Int: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) {
    try statement.bind(index, Int64(self))
  }
}
extension Double: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) { try statement.bind(index, self) }
}
extension Bool: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) { try statement.bind(index, self) }
}
extension String: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) { try statement.bind(index, self) }
}
extension [UInt8]: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) { try statement.bind(index, self) }
}
extension Optional: SQLiteBindable where Wrapped: SQLiteBindable {
  public func bind(to statement: Statement, at index: Int32) throws(SQLiteError) {
    if let self { try self.bind(to: statement, at: index) } else { try statement.bindNull(index) }
  }
}
