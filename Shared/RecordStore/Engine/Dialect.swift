// The differences between the engines' SQL. All other text of a statement is one for both.

/// The SQL of an engine.
enum Dialect: CaseIterable, Sendable {
  case sqlite, postgreSQL

  /// A constant of bytes.
  func bytes(_ hex: String) -> String { self == .sqlite ? "x'\(hex)'" : "'\\x\(hex)'::bytea" }

  /// Binds a table to an index. PostgreSQL's planner chooses by itself.
  func indexed(by index: String) -> String { self == .sqlite ? "INDEXED BY \(index)" : "" }

  /// Joins two tables. SQLite reads the left one of a CROSS JOIN first.
  var orderedJoin: String { self == .sqlite ? "CROSS JOIN" : "JOIN" }

  /// Ends an insertion of a row whose key the engine gives out. SQLite tells it without.
  var returningKey: String { self == .sqlite ? "" : " RETURNING id" }

  /// Allows an insertion to bring a key that the engine would give out.
  var keepingKeys: String { self == .sqlite ? "" : " OVERRIDING SYSTEM VALUE" }

  /// Tells the bytes of all tables and indexes of the shard.
  var byteCount: String {
    self == .sqlite
      ? "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
      : """
      SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bigint) FROM pg_class c \
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'
      """
  }

  /// The column and the value of a record's key, which SQLite gives out.
  var recordKey: (column: String, value: String) { self == .sqlite ? ("", "") : (", id", ", ?11") }
}
