// The statements about the journal of conflicts.

/// On `journal` and `journal_use`.
enum ConflictQuery: Int, Query {
  static var subject: QuerySubject { .conflict }

  case after, ofName, openAfter, byNumber, payload, openCount, oldest, old, surplus, ofZone
  case insert, settle, delete
  case use, evictedCount, putUse, deleteUses

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .after:
      Self.columns
        + """
         WHERE database = ?1 AND number > ?2 AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR "user" = ?5) \
        ORDER BY number LIMIT ?3
        """
    case .ofName:
      Self.columns
        + """
         WHERE database = ?1 AND name = ?6 AND number > ?2 AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL \
        OR "user" = ?5) ORDER BY number LIMIT ?3
        """
    case .openAfter:
      Self.columns
        + """
         \(dialect.indexed(by: "journal_open")) WHERE database = ?1 AND state = 0 AND number > ?2 \
        AND (?5 IS NULL OR "user" = ?5) \
        ORDER BY number LIMIT ?3
        """
    case .byNumber: Self.columns + " WHERE number = ?1 AND database = ?2"
    case .payload:
      """
      SELECT database, zone, incarnation, name, entity, kind, "user", device, at, sum, payload FROM journal \
      WHERE number = ?1 AND database = ?2
      """
    case .openCount: #"SELECT count(*) FROM journal WHERE database = ?1 AND state = 0 AND (?2 IS NULL OR "user" = ?2)"#
    case .oldest: "SELECT min(at) FROM journal WHERE state <> 0"
    case .old: "SELECT id, bytes FROM journal WHERE state <> 0 AND at < ?1 ORDER BY at, id LIMIT ?2"
    case .surplus:
      """
      SELECT id, bytes FROM journal \(dialect.indexed(by: "journal_user")) WHERE database = ?1 AND "user" = ?2 \
      AND id <> ?3 \
      ORDER BY state DESC, id LIMIT ?4
      """
    case .ofZone: "SELECT id, bytes FROM journal WHERE database = ?1 AND zone = ?2 ORDER BY number LIMIT ?3"

    case .insert:
      """
      INSERT INTO journal(database, zone, incarnation, name, entity, kind, state, "user", device, at, settled, bytes, \
      sum, payload, number)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) RETURNING id
      """
    case .settle: "UPDATE journal SET state = ?3, settled = ?4 WHERE number = ?1 AND database = ?2"
    case .delete: #"DELETE FROM journal WHERE id = ?1 RETURNING database, "user", bytes"#

    case .use: #"SELECT count, bytes, evicted FROM journal_use WHERE database = ?1 AND "user" = ?2"#
    case .evictedCount: "SELECT CAST(coalesce(sum(evicted), 0) AS bigint) FROM journal_use"
    case .putUse:
      """
      INSERT INTO journal_use(database, "user", count, bytes, evicted) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT(database, "user") DO UPDATE SET count = ?3, bytes = ?4, evicted = ?5
      """
    case .deleteUses: "DELETE FROM journal_use WHERE database = ?1"
    }
  }

  private static let columns =
    #"SELECT number, database, zone, incarnation, name, entity, kind, state, "user", device, at, settled FROM journal"#
}
