// Changes a record's references in an upgrade, in its row and in the index alike.

import SQLite

/// A row whose references change.
struct ReferenceChange {
  let row: Int64
  let zone: Int64
  /// The checksum of the changed row.
  let sum: Int64
  let earlier: [StoredReferences.Entry]
  let later: [StoredReferences.Entry]
  /// `later` as the row stores it.
  let references: [UInt8]

  func apply(to connection: Connection) throws {
    try connection.statement(SQL("upgradeRecord", "UPDATE record SET refs = ?2, sum = ?3 WHERE id = ?1")).binding(
      row, references, sum
    ).run()
    let delete = try connection.statement(
      SQL("upgradeDelete", "DELETE FROM reference WHERE zone = ?1 AND target = ?2 AND field = ?3 AND source = ?4"))
    for entry in earlier where !later.contains(entry) { try run(delete, entry) }
    let insert = try connection.statement(
      SQL("upgradeInsert", "INSERT OR IGNORE INTO reference(zone, target, field, source) VALUES (?1, ?2, ?3, ?4)"))
    for entry in later where !earlier.contains(entry) { try run(insert, entry) }
  }

  private func run(_ statement: Statement, _ entry: StoredReferences.Entry) throws {
    try statement.bind(1, zone)
    try statement.bind(2, recordName: entry.target)
    try statement.bind(3, entry.field)
    try statement.bind(4, row)
    try statement.run()
  }
}
