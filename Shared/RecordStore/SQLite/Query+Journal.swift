// The statements about the journal of conflicts.

extension Query {
  var journalText: String {
    switch self {
    case .conflictsAfter:
      Self.conflictColumns + " WHERE database = ?1 AND id > ?2 AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR user = ?5) ORDER BY id LIMIT ?3"
    case .conflictsOfName:
      Self.conflictColumns
        + " WHERE database = ?1 AND name = ?6 AND id > ?2 AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR user = ?5) ORDER BY id LIMIT ?3"
    case .conflictByNumber: Self.conflictColumns + " WHERE id = ?1"
    case .conflictPayload: "SELECT sum, payload FROM journal WHERE id = ?1"
    case .openConflicts: "SELECT count(*) FROM journal WHERE database = ?1 AND state = 0 AND (?2 IS NULL OR user = ?2)"
    case .oldestConflict: "SELECT id, at FROM journal ORDER BY id LIMIT 1"
    case .oldConflicts: "SELECT id, at FROM journal ORDER BY id LIMIT ?1"
    // All of it is in the index.
    case .conflictSizes: "SELECT id, bytes FROM journal INDEXED BY journal_database WHERE database = ?1 ORDER BY id DESC"
    case .insertConflict:
      """
      INSERT INTO journal(database, zone, name, entity, kind, state, user, device, at, settled, bytes, sum, payload)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) RETURNING id
      """
    case .settleConflict: "UPDATE journal SET state = ?2, settled = ?3 WHERE id = ?1"
    case .deleteConflict: "DELETE FROM journal WHERE id = ?1"
    default: redirectText
    }
  }

  private static let conflictColumns = "SELECT id, database, zone, name, entity, kind, state, user, device, at, settled FROM journal"
}
