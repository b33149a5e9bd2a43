// The statements about field indexes.

/// On `fieldindex` and `entry`.
enum IndexQuery: Int, Query {
  static var subject: QuerySubject { .index }

  case inDatabase, after, all, make, update, remove
  case entriesUp, entriesDown, names, countEntries, sharedKeys, insertEntry, deleteEntry, dropEntries

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .inDatabase: Self.columns + " WHERE database = ?1 ORDER BY id"
    case .after: Self.columns + " WHERE id > ?1 AND state <> \(IndexState.dropping.rawValue) ORDER BY id LIMIT ?2"
    case .all: Self.columns + " ORDER BY id"
    case .make:
      """
      INSERT INTO fieldindex(id, database, type, field, kind, state, afterZone, afterName) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
      """
    case .update: "UPDATE fieldindex SET state = ?2, afterZone = ?3, afterName = ?4 WHERE id = ?1"
    case .remove: "DELETE FROM fieldindex WHERE id = ?1"

    // The entries are read first.
    case .entriesUp:
      Self.entries(dialect, "(e.key, e.name) > (?3, ?4) AND e.key < ?5", direction: "")
    case .entriesDown:
      Self.entries(dialect, "(e.key, e.name) < (?3, ?4) AND e.key >= ?5", direction: " DESC")
    case .names:
      """
      SELECT name FROM entry WHERE zone = ?1 AND fieldindex = ?2 AND key >= ?3 AND key < ?4 ORDER BY key, name LIMIT ?5
      """
    case .countEntries:
      """
      SELECT count(*) FROM (SELECT 1 FROM entry WHERE zone = ?1 AND fieldindex = ?2 AND key >= ?3 AND key < ?4 \
      LIMIT ?5) AS found
      """
    case .sharedKeys:
      """
      SELECT key FROM entry WHERE zone = ?1 AND fieldindex = ?2 AND key > ?3 GROUP BY key HAVING count(*) > 1 \
      ORDER BY key LIMIT ?4
      """
    // A record that changed after its index was made has entries before the index is filled.
    case .insertEntry:
      "INSERT INTO entry(zone, fieldindex, key, name, record) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING"
    case .deleteEntry: "DELETE FROM entry WHERE zone = ?1 AND fieldindex = ?2 AND key = ?3 AND name = ?4"
    case .dropEntries:
      """
      DELETE FROM entry WHERE (zone, fieldindex, key, name) IN
        (SELECT zone, fieldindex, key, name FROM entry WHERE zone = ?1 AND fieldindex = ?2 LIMIT ?3)
      """
    }
  }

  private static func entries(_ dialect: Dialect, _ condition: String, direction: String) -> String {
    within(
      dialect,
      """
      SELECT r.id, r.seq, r.type, r.deleted, r.origin, r.others, r.sum, r.refs, r.data, e.name, e.key \
      FROM entry e \(dialect.orderedJoin) record r ON r.id = e.record
      WHERE e.zone = ?1 AND e.fieldindex = ?2 AND \(condition) ORDER BY e.key\(direction), e.name\(direction) LIMIT ?6
      """,
      columns: StoredRecordQuery.columnNames + ", name, key", order: "key\(direction), name\(direction)", byteLimit: 7)
  }

  private static let columns = "SELECT id, database, type, field, kind, state, afterZone, afterName FROM fieldindex"
}
