// The statements about zones.

/// On `zone`.
enum ZoneQuery: Int, Query {
  static var subject: QuerySubject { .zone }

  case byName, byKey, after, afterName, live, liveCount, anyWithRecords
  case make, update, end, remove

  var lookupTypes: String? { self == .byName ? "it" : nil }
  var tellsItsRow: Bool { self == .make }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byName: Self.columns + " WHERE database = ?1 AND name = ?2"
    case .byKey: Self.columns + " WHERE id = ?1"
    case .after: Self.columns + " WHERE database = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    case .afterName: "SELECT id, name FROM zone WHERE database = ?1 AND name > ?2 AND deleted = 0 ORDER BY name LIMIT 1"
    case .live: Self.columns + " WHERE database = ?1 AND name > ?2 AND deleted = 0 ORDER BY name LIMIT ?3"
    // No name is empty. The comparison makes SQLite choose the index of live zones.
    case .liveCount: "SELECT count(*) FROM zone WHERE database = ?1 AND name > '' AND deleted = 0"
    case .anyWithRecords: "SELECT 1 FROM zone WHERE database = ?1 AND name > '' AND deleted = 0 AND live > 0 LIMIT 1"

    case .make:
      """
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live, horizon, reason, ended) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5, ?8, ?9)
      """
    // Of a live zone. A statement that names `deleted` writes the index of live zones, whatever it sets.
    case .update: "UPDATE zone SET seq = ?2, live = ?3, bytes = ?4, horizon = ?5 WHERE id = ?1"
    case .end:
      """
      UPDATE zone SET seq = ?2, live = ?3, bytes = ?4, horizon = ?5, deleted = 1, reason = ?6, ended = ?7 WHERE id = ?1
      """
    case .remove: "DELETE FROM zone WHERE id = ?1"
    }
  }

  static let columns =
    "SELECT id, database, name, incarnation, seq, deleted, live, bytes, horizon, reason, ended FROM zone"
}
