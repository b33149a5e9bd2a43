// The tables of a shard as both engines have them, so that rows move without an engine's own code for each table.

import SQLite

/// A table whose rows move. The tables of SQLite's format say which there are; those of PostgreSQL have the same
/// columns.
struct StoredTable: Sendable {
  /// A column's content, which each engine stores in its own way.
  enum Kind: Sendable {
    case integer, text, bytes
    /// A record name (`StoredName`).
    case recordName
  }

  let name: String
  let columns: [(name: String, kind: Kind)]
  /// The columns of the primary key, in its order.
  let key: [String]

  /// Every table but `meta`, whose rows are each engine's own.
  static func all() throws -> [StoredTable] {
    let connection = try Connection(path: ":memory:", mode: .readWrite)
    defer { connection.close() }
    try connection.execute(ShardFile.metaTable)
    for change in FormatChange.allCases {
      for statement in change.statements { try connection.execute(statement) }
    }
    let names = try connection.statement(
      SQL(
        "tables",
        """
        SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'meta' \
        ORDER BY name
        """
      )
    ).all { $0.text(0) }
    return try names.map { try StoredTable($0, in: connection) }
  }

  private init(_ table: String, in connection: Connection) throws {
    let rows = try connection.statement(SQL("columns", "SELECT name, type, pk FROM pragma_table_info(?1)"))
      .binding(table).all { (name: $0.text(0).lowercased(), type: $0.text(1), place: $0.int(2)) }
    name = table.lowercased()
    columns = rows.map { ($0.name, Self.kind(of: $0.type)) }
    key = rows.filter { $0.place > 0 }.sorted { $0.place < $1.place }.map(\.name)
  }

  /// A table that is not among those of a shard.
  init(name: String, columns: [(name: String, kind: Kind)], key: [String]) {
    self.name = name
    self.columns = columns
    self.key = key
  }

  /// Columns of names have no type, because a name is a text or a blob.
  private static func kind(of type: String) -> Kind {
    switch type {
    case "INTEGER": .integer
    case "TEXT": .text
    case "BLOB": .bytes
    default: .recordName
    }
  }

  /// True when the primary key is a number, which an engine may give out.
  var hasNumberedRows: Bool { key == ["id"] && columns.contains { $0.name == "id" && $0.kind == .integer } }

  /// All rows, in an order that both engines have.
  var select: SQL {
    SQL("migrate.read.\(name)", "SELECT \(Self.list(columns.map(\.name))) FROM \(name) ORDER BY \(Self.list(key))")
  }

  func insert(_ dialect: Dialect) -> SQL {
    let values = (1...columns.count).map { "?\($0)" }.joined(separator: ", ")
    return SQL(
      "migrate.write.\(name)",
      "INSERT INTO \(name)(\(Self.list(columns.map(\.name))))\(dialect.keepingKeys) VALUES (\(values))")
  }

  static func list(_ names: [String]) -> String { names.map { "\"\($0)\"" }.joined(separator: ", ") }
}
