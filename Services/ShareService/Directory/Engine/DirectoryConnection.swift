// The directory's connection with the engine that keeps it: a file of SQLite, or a schema of PostgreSQL.

import PostgreSQL
import SQLite

/// Runs statements of one text for both engines. The directory's thread owns it.
enum DirectoryConnection {
  case sqlite(Connection)
  case postgreSQL(PostgreSQLDirectory)

  func statement(_ sql: SQL) throws -> DirectoryStatement {
    switch self {
    case .sqlite(let connection): .sqlite(try connection.statement(sql))
    case .postgreSQL(let directory): .postgreSQL(directory.command(sql))
    }
  }

  /// Runs `body` as one change. `Directory.change` does more.
  func transaction<Value>(_ body: () throws -> Value) throws -> Value {
    switch self {
    case .sqlite(let connection): try connection.transaction(body)
    case .postgreSQL(let directory): try directory.change(body)
    }
  }

  /// Rows that the latest statement inserted, changed or deleted.
  var changes: Int {
    switch self {
    case .sqlite(let connection): connection.changes
    case .postgreSQL(let directory): directory.changedCount
    }
  }

  /// The key of the row that the latest insertion of this change made, where the engine gives keys out.
  func insertedKey() throws -> Int64 {
    switch self {
    case .sqlite(let connection): connection.lastInsertRowID
    case .postgreSQL(let directory): try directory.insertedKey()
    }
  }

  /// A condition: the address in a column is that of a parameter, whatever the case of their ASCII letters.
  func isAddress(_ column: String, _ parameter: Int) -> String {
    switch self {
    // The column compares so.
    case .sqlite: "\(column) = ?\(parameter)"
    case .postgreSQL: "lower(\(column)) = lower(?\(parameter) COLLATE \"C\")"
    }
  }
}
