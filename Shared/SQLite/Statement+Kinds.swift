// What a statement says of itself: whether it writes, and the types of its results.

import CSQLite

extension Statement {
  public enum Kind: Sendable { case null, integer, real, text, blob }

  /// Whether running it changes nothing.
  public var isReadOnly: Bool { sqlite3_stmt_readonly(handle) != 0 }
  public var columnCount: Int32 { sqlite3_column_count(handle) }

  /// The storage class of a column of the current row.
  public func kind(_ column: Int32) -> Kind {
    switch sqlite3_column_type(handle, column) {
    case SQLITE_INTEGER: .integer
    case SQLITE_FLOAT: .real
    case SQLITE_TEXT: .text
    case SQLITE_BLOB: .blob
    default: .null
    }
  }
}
