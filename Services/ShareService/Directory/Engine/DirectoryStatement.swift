// A statement of the directory, whichever engine runs it: binding, running, and the columns of its rows.

import PostgreSQL
import SQLite

/// A statement of one connection. Parameters count from 1, columns from 0. A NULL is read as 0, "" or no bytes, unless
/// the column is read as an optional.
enum DirectoryStatement {
  case sqlite(Statement)
  case postgreSQL(DirectoryCommand)

  /// Binds all parameters in order, beginning with `?1`.
  func binding<each Value: DirectoryValue>(_ values: repeat each Value) throws -> DirectoryStatement {
    switch self {
    case .sqlite(let statement): return .sqlite(try statement.binding(repeat each values))
    case .postgreSQL(let command):
      command.values = []
      for value in repeat each values { command.values.append(value.parameter) }
      return self
    }
  }

  /// Binds all parameters in order: numbers, then texts.
  func binding(_ numbers: [Int64], then texts: [String]) throws -> DirectoryStatement {
    switch self {
    case .sqlite(let statement):
      for (index, number) in numbers.enumerated() { try statement.bind(Int32(index + 1), number) }
      for (index, text) in texts.enumerated() { try statement.bind(Int32(numbers.count + index + 1), text) }
    case .postgreSQL(let command): command.values = numbers.map { .integer($0) } + texts.map { .text($0) }
    }
    return self
  }

  func run() throws {
    switch self {
    case .sqlite(let statement): try statement.run()
    case .postgreSQL(let command): try command.run()
    }
  }

  /// Calls `body` for each row.
  func forEach(_ body: (DirectoryStatement) throws -> Void) throws {
    switch self {
    case .sqlite(let statement):
      defer { statement.reset() }
      while try statement.step() { try body(self) }
    case .postgreSQL(let command): try command.read { try body(self) }
    }
  }

  /// `transform` of the first row, nil when there is none.
  func first<Value>(_ transform: (DirectoryStatement) throws -> Value) throws -> Value? {
    switch self {
    case .sqlite(let statement): return try statement.first { _ in try transform(self) }
    case .postgreSQL(let command):
      var found: Value?
      try command.read(limit: 1) { found = try transform(self) }
      return found
    }
  }

  /// `transform` of every row, in order.
  func all<Value>(_ transform: (DirectoryStatement) throws -> Value) throws -> [Value] {
    var values: [Value] = []
    try forEach { values.append(try transform($0)) }
    return values
  }

  // MARK: Columns of the current row

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

  func int64(_ column: Int32) -> Int64 { optionalInt64(column) ?? 0 }
  func int(_ column: Int32) -> Int { Int(truncatingIfNeeded: int64(column)) }
  func bool(_ column: Int32) -> Bool { int64(column) != 0 }
  func text(_ column: Int32) -> String { optionalText(column) ?? "" }
  func blob(_ column: Int32) -> [UInt8] { optionalBlob(column) ?? [] }
  func isNull(_ column: Int32) -> Bool {
    switch self {
    case .sqlite(let statement): statement.isNull(column)
    case .postgreSQL(let command): command.isNull(column)
    }
  }
}

/// A value that statements of both engines take.
protocol DirectoryValue: SQLiteBindable {
  /// The parameter for PostgreSQL, which has a type for NULL as well.
  static func parameter(_ value: Self?) -> PostgreSQL.Value
}

extension DirectoryValue {
  fileprivate var parameter: PostgreSQL.Value { Self.parameter(self) }
}

extension Int64: DirectoryValue {
  static func parameter(_ value: Int64?) -> PostgreSQL.Value { .integer(value) }
}
extension Int: DirectoryValue {
  static func parameter(_ value: Int?) -> PostgreSQL.Value { .integer(value.map { Int64($0) }) }
}
extension Bool: DirectoryValue {
  static func parameter(_ value: Bool?) -> PostgreSQL.Value { .integer(value.map { $0 ? 1 : 0 }) }
}
extension String: DirectoryValue {
  static func parameter(_ value: String?) -> PostgreSQL.Value { .text(value) }
}
extension [UInt8]: DirectoryValue {
  static func parameter(_ value: [UInt8]?) -> PostgreSQL.Value { .bytes(value) }
}
extension Optional: DirectoryValue where Wrapped: DirectoryValue {
  static func parameter(_ value: Wrapped??) -> PostgreSQL.Value { Wrapped.parameter(value ?? nil) }
}
