// The rows of some of a shard's databases, table by table.

import SQLite

@testable import RecordStore

enum OwnRows {
  /// Counts and digests of the rows that belong to a database, of all tables that have such rows.
  static func tallies(of databases: [Int64], in snapshot: SQLiteSnapshot) throws -> [TableTally] {
    let connection = snapshot.session.connection
    let tables = try StoredTable.all()
    let copy = RowCopy(shard: 0, tables: tables) { _ in }
    return try tables.compactMap { table in
      guard let own = condition(table, databases) else { return nil }
      let columns = StoredTable.list(table.columns.map(\.name))
      let rows = SQL(
        "own \(table.name) \(databases)",
        "SELECT \(columns) FROM \(table.name) WHERE \(own) ORDER BY \(StoredTable.list(table.key))")
      return try copy.run(table, connection.statement(rows))
    }
  }

  /// The tables that have rows of no database, or of others than these.
  static func strangers(to databases: [Int64], in snapshot: SQLiteSnapshot) throws -> [String] {
    try StoredTable.all().filter { table in
      guard let own = condition(table, databases) else { return false }
      let rows = SQL("strange \(table.name) \(databases)", "SELECT count(*) FROM \(table.name) WHERE NOT (\(own))")
      return try snapshot.session.connection.statement(rows).first { $0.int64(0) } ?? 0 > 0
    }.map(\.name)
  }

  private static func condition(_ table: StoredTable, _ databases: [Int64]) -> String? {
    let own = "(\(databases.map(String.init).joined(separator: ", ")))"
    // A zone that is a text is a name, beside the key of its database or store.
    let columns = Set(table.columns.filter { $0.kind == .integer }.map(\.name))
    if table.name == "database" { return "id IN \(own)" }
    if columns.contains("database") { return "database IN \(own)" }
    if columns.contains("zone") { return "zone IN (SELECT id FROM zone WHERE database IN \(own))" }
    guard columns.contains("mirror") else { return nil }
    return """
      mirror IN (SELECT id FROM mirror WHERE database IN \(own) \
      UNION SELECT lineage FROM mirror WHERE database IN \(own) UNION SELECT id FROM former WHERE database IN \(own))
      """
  }
}

extension ShardStore {
  /// Makes empty commits until no rows wait for their removal, and no index or object for its turn.
  func settle() async throws {
    try await settleIndexes()
    while try await read({ snapshot in
      guard let snapshot = snapshot as? SQLiteSnapshot else { return false }
      let doomed = try snapshot.statement(SweepQuery.zones).all { $0.int64(0) }
      return snapshot.session.extent.hasOthers || !doomed.isEmpty
    }) { try await write { _ in } }
  }
}
