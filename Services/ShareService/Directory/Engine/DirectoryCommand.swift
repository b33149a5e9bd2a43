// A statement of the directory in PostgreSQL: its parameters, and its rows while they are read.

import PostgreSQL
import SQLite

/// The directory's thread owns it. Its rows are in memory, all of them.
final class DirectoryCommand {
  private let command: Command
  private unowned let directory: PostgreSQLDirectory
  var values: [Value] = []
  private var row: Row?
  /// The first column that had another type than it was read as.
  private var failure: PostgreSQLError?

  init(_ sql: SQL, of directory: PostgreSQLDirectory) {
    command = Command(sql.name, Self.text(of: sql.text))
    self.directory = directory
  }

  /// PostgreSQL marks parameters as `$1` and reserves the word `user`, which is a table and a column of the directory.
  /// No text of a statement has either in a constant.
  static func text(of text: String) -> String {
    var (result, word) = ("", "")
    for character in text + " " {
      if character.isLetter || character.isNumber || character == "_" || character == "\"" {
        word.append(character)
        continue
      }
      result += word == "user" ? "\"user\"" : word
      word = ""
      result.append(character == "?" ? "$" : character)
    }
    return String(result.dropLast())
  }

  func run() throws { _ = try directory.rows(command, values) }

  /// Calls `body` for each row.
  /// - Parameter limit: the most rows that are looked at.
  func read(limit: Int = .max, _ body: () throws -> Void) throws {
    let rows = try directory.rows(command, values)
    let outer = (row, failure)
    failure = nil
    defer { (row, failure) = outer }
    for row in rows.prefix(limit) {
      self.row = row
      try body()
      if let failure { throw failure }
    }
  }

  // MARK: Columns of the current row; nil for NULL

  func isNull(_ column: Int32) -> Bool { row?.isNull(column) ?? true }

  /// A condition counts as 1 or 0, as in SQLite.
  func integer(_ column: Int32) -> Int64? {
    field { row throws(PostgreSQLError) in
      do throws(PostgreSQLError) { return try row.optionalInteger(column) } catch {
        guard error.kind == .invalidValue else { throw error }
        return try row.optionalBoolean(column).map { $0 ? 1 : 0 }
      }
    }
  }

  func text(_ column: Int32) -> String? { field { row throws(PostgreSQLError) in try row.optionalText(column) } }
  func bytes(_ column: Int32) -> [UInt8]? { field { row throws(PostgreSQLError) in try row.optionalBytes(column) } }

  private func field<Value>(_ body: (Row) throws(PostgreSQLError) -> Value?) -> Value? {
    guard let row else { return nil }
    do throws(PostgreSQLError) {
      return try body(row)
    } catch {
      if failure == nil { failure = error }
      return nil
    }
  }
}
