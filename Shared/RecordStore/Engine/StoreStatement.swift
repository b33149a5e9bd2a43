// A statement of a shard, whichever engine runs it: typed binding, stepping and columns.

import PostgreSQL
import SQLite

/// A prepared statement of one connection. Like the connection, one thread at a time may use it.
///
/// Parameters count from 1, columns from 0. Bindings stay until they are replaced. A NULL is read as 0, "" or no bytes,
/// unless the column is read as an optional.
enum StoreStatement {
  case sqlite(Statement)
  case postgreSQL(ShardCommand)

  // MARK: Parameters

  func bind(_ index: Int32, _ value: Int64) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, value)
    case .postgreSQL(let command): command.bind(index, .integer(value))
    }
  }

  func bind(_ index: Int32, _ value: Int) throws { try bind(index, Int64(value)) }
  func bind(_ index: Int32, _ value: Bool) throws { try bind(index, value ? Int64(1) : 0) }

  func bind(_ index: Int32, _ value: Int64?) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, value)
    case .postgreSQL(let command): command.bind(index, .integer(value))
    }
  }

  func bind(_ index: Int32, _ value: String) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, value)
    case .postgreSQL(let command): command.bind(index, .text(value))
    }
  }

  func bind(_ index: Int32, _ value: String?) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, value)
    case .postgreSQL(let command): command.bind(index, .text(value))
    }
  }

  func bind(_ index: Int32, _ bytes: [UInt8]) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, bytes)
    case .postgreSQL(let command): command.bind(index, .bytes(bytes))
    }
  }

  func bind(_ index: Int32, _ bytes: [UInt8]?) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, bytes)
    case .postgreSQL(let command): command.bind(index, .bytes(bytes))
    }
  }

  /// Binds a record name in its stored form.
  func bind(_ index: Int32, recordName: String) throws {
    switch self {
    case .sqlite(let statement): try statement.bind(index, recordName: recordName)
    case .postgreSQL(let command): command.bind(index, .bytes(StoredName.bytes(of: recordName)))
    }
  }

  /// As `bind(_:recordName:)`; nil is NULL.
  func bind(_ index: Int32, optionalRecordName recordName: String?) throws {
    if let recordName { return try bind(index, recordName: recordName) }
    switch self {
    case .sqlite(let statement): try statement.bindNull(index)
    case .postgreSQL(let command): command.bind(index, .bytes(nil))
    }
  }

  /// As `bind(_:recordName:)`; nil comes before all names.
  func bind(_ index: Int32, afterRecordName recordName: String?) throws {
    if let recordName { return try bind(index, recordName: recordName) }
    switch self {
    // Every text and every blob sorts after every number.
    case .sqlite(let statement): try statement.bind(index, 0)
    case .postgreSQL(let command): command.bind(index, .bytes([]))
    }
  }

  /// Binds the limit of bytes of a statement whose rows PostgreSQL sends up to it (`Query.within`). The statement of
  /// SQLite, whose rows come one by one, has no such parameter.
  func bind(_ index: Int32, byteLimit: Int) throws {
    if case .postgreSQL(let command) = self { command.bind(index, .integer(Int64(byteLimit))) }
  }

  // MARK: Running

  /// Advances to the next row.
  /// - Returns: false after the last row. A reader that stops earlier must `reset()`.
  func step() throws -> Bool {
    switch self {
    case .sqlite(let statement): try statement.step()
    case .postgreSQL(let command): try command.step()
    }
  }

  /// Leaves the current row; the bindings stay.
  func reset() {
    switch self {
    case .sqlite(let statement): statement.reset()
    case .postgreSQL(let command): command.reset()
    }
  }

  /// Runs a statement whose rows and outcome nobody needs. PostgreSQL may report its failure at a later statement.
  func run() throws {
    switch self {
    case .sqlite(let statement): try statement.run()
    case .postgreSQL(let command): try command.queue()
    }
  }

  /// Runs the statement.
  /// - Returns: the number of rows that it wrote or deleted.
  func runCounting() throws -> Int {
    switch self {
    case .sqlite(let statement):
      try statement.run()
      return statement.changes
    case .postgreSQL(let command): return try command.runCounting()
    }
  }

  /// Runs a statement that writes one row, whose unique values may be taken.
  /// - Parameter isKnownFree: whether the caller knows that they are free. If they are not, the whole group may fail.
  /// - Returns: false when one is taken; nothing is written then.
  func runUnlessTaken(isKnownFree: Bool = false) throws -> Bool {
    switch self {
    case .sqlite(let statement): return try statement.runUnlessTaken()
    case .postgreSQL(let command):
      if !isKnownFree { return try command.runUnlessTaken() }
      try command.queue()
      return true
    }
  }

  /// As `runUnlessTaken(isKnownFree:)`, for a new row.
  /// - Parameter key: its key, which is bound as well; nil when SQLite gives one out.
  /// - Returns: its key; nil when a unique value is taken.
  func runUnlessTaken(key: Int64?, isKnownFree: Bool) throws -> Int64? {
    guard try runUnlessTaken(isKnownFree: isKnownFree) else { return nil }
    if case .sqlite(let statement) = self { return statement.lastInsertRowID }
    return key
  }

  /// Inserts a row whose key the engine gives out (`Dialect.returningKey`), and whose unique values are free.
  func runForKey() throws -> Int64 {
    switch self {
    case .sqlite(let statement):
      try statement.run()
      return statement.lastInsertRowID
    case .postgreSQL: return try first { $0.int64(0) } ?? 0
    }
  }

  // MARK: Fetching, for engines across a network

  /// Sends a look-up ahead of the bodies that need it.
  func fetch() throws {
    if case .postgreSQL(let command) = self { try command.fetch() }
  }

  /// True when the look-up costs no round trip.
  var isFetched: Bool {
    switch self {
    case .sqlite: true
    case .postgreSQL(let command): command.isFetched
    }
  }

  /// Forgets the fetched answer of this look-up, because its row is written.
  func forgetFetched() {
    if case .postgreSQL(let command) = self { command.forgetFetched() }
  }

  // MARK: All rows

  /// Calls `body` for each row. Resets the statement afterwards, also when `body` throws.
  func forEach(_ body: (StoreStatement) throws -> Void) throws {
    defer { reset() }
    while try step() { try body(self) }
  }

  /// `transform` of the first row, nil when there is none.
  func first<Value>(_ transform: (StoreStatement) throws -> Value) throws -> Value? {
    defer { reset() }
    guard try step() else { return nil }
    let value = try transform(self)
    try checkColumns()
    return value
  }

  /// `transform` of every row, in order.
  func all<Value>(_ transform: (StoreStatement) throws -> Value) throws -> [Value] {
    defer { reset() }
    var values: [Value] = []
    while try step() { values.append(try transform(self)) }
    return values
  }

  /// - Throws: when a column of the current row had another type than it was read as. Each later step throws as well.
  private func checkColumns() throws {
    if case .postgreSQL(let command) = self { try command.checkColumns() }
  }

  // MARK: Columns of the current row

  func int64(_ column: Int32) -> Int64 {
    switch self {
    case .sqlite(let statement): statement.int64(column)
    case .postgreSQL(let command): command.integer(column) ?? 0
    }
  }

  func int(_ column: Int32) -> Int { Int(truncatingIfNeeded: int64(column)) }
  func bool(_ column: Int32) -> Bool { int64(column) != 0 }

  func text(_ column: Int32) -> String {
    switch self {
    case .sqlite(let statement): statement.text(column)
    case .postgreSQL(let command): command.text(column) ?? ""
    }
  }

  /// A copy of the column's bytes.
  func blob(_ column: Int32) -> [UInt8] {
    switch self {
    case .sqlite(let statement): statement.blob(column)
    case .postgreSQL(let command): command.bytes(column) ?? []
    }
  }

  /// Lends the column's bytes. The pointer is invalid once `body` returns.
  func withBytes<Value>(_ column: Int32, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
    switch self {
    case .sqlite(let statement): try statement.withBytes(column, body)
    case .postgreSQL(let command): try command.withBytes(column, body)
    }
  }

  func optionalInt64(_ column: Int32) -> Int64? {
    switch self {
    case .sqlite(let statement): statement.optionalInt64(column)
    case .postgreSQL(let command): command.integer(column)
    }
  }

  func optionalText(_ column: Int32) -> String? {
    switch self {
    case .sqlite(let statement): statement.optionalText(column)
    case .postgreSQL(let command): command.text(column)
    }
  }

  func optionalBlob(_ column: Int32) -> [UInt8]? {
    switch self {
    case .sqlite(let statement): statement.optionalBlob(column)
    case .postgreSQL(let command): command.bytes(column)
    }
  }

  /// Reads a record name from its stored form; nil for NULL and when the column has neither form.
  func recordName(_ column: Int32) -> String? {
    switch self {
    case .sqlite(let statement): statement.recordName(column)
    case .postgreSQL(let command): command.recordName(column)
    }
  }

  /// Appends a record name in UTF-8 to bytes.
  /// - Returns: false for NULL and when the column has neither form.
  func appendRecordName(_ column: Int32, to bytes: inout [UInt8]) -> Bool {
    switch self {
    case .sqlite(let statement): return statement.appendRecordName(column, to: &bytes)
    case .postgreSQL(let command):
      guard let name = command.recordName(column) else { return false }
      bytes.append(contentsOf: name.utf8)
      return true
    }
  }
}
