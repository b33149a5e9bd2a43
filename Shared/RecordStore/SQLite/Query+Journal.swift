// The statements about the journal of conflicts.

extension Query {
  var journalText: String {
    switch self {
    case .conflictsAfter:
      Self.conflictColumns + " WHERE database = ?1 AND number > ?2 AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR user = ?5) ORDER BY number LIMIT ?3"
    case .conflictsOfName:
      Self.conflictColumns
        + " WHERE database = ?1 AND name = ?6 AND number > ?2 AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR user = ?5) ORDER BY number LIMIT ?3"
    case .openConflictsAfter:
      Self.conflictColumns + " INDEXED BY journal_open WHERE database = ?1 AND state = 0 AND number > ?2 AND (?5 IS NULL OR user = ?5) ORDER BY number LIMIT ?3"
    case .conflictByNumber: Self.conflictColumns + " WHERE number = ?1 AND database = ?2"
    case .conflictPayload: "SELECT database, zone, incarnation, name, entity, kind, user, device, at, sum, payload FROM journal WHERE number = ?1 AND database = ?2"
    case .openConflicts: "SELECT count(*) FROM journal WHERE database = ?1 AND state = 0 AND (?2 IS NULL OR user = ?2)"
    case .oldestConflict: "SELECT min(at) FROM journal WHERE state <> 0"
    case .oldConflicts: "SELECT id, bytes FROM journal WHERE state <> 0 AND at < ?1 ORDER BY at, id LIMIT ?2"
    case .surplusConflicts:
      "SELECT id, bytes FROM journal INDEXED BY journal_user WHERE database = ?1 AND user = ?2 AND id <> ?3 ORDER BY state DESC, id LIMIT ?4"
    case .conflictsOfDatabase: "SELECT id FROM journal WHERE database = ?1"
    case .conflictsOfZone: "SELECT id FROM journal WHERE database = ?1 AND zone = ?2"
    case .conflictUse: "SELECT count, bytes, evicted FROM journal_use WHERE database = ?1 AND user = ?2"
    case .evictedConflicts: "SELECT coalesce(sum(evicted), 0) FROM journal_use"
    case .insertConflict:
      """
      INSERT INTO journal(database, zone, incarnation, name, entity, kind, state, user, device, at, settled, bytes, sum, payload, number)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) RETURNING id
      """
    case .settleConflict: "UPDATE journal SET state = ?3, settled = ?4 WHERE number = ?1 AND database = ?2"
    case .deleteConflict: "DELETE FROM journal WHERE id = ?1 RETURNING database, user, bytes"
    case .putConflictUse: "INSERT OR REPLACE INTO journal_use(database, user, count, bytes, evicted) VALUES (?1, ?2, ?3, ?4, ?5)"
    case .deleteConflictUse: "DELETE FROM journal_use WHERE database = ?1"
    default: redirectText
    }
  }

  private static let conflictColumns = "SELECT number, database, zone, incarnation, name, entity, kind, state, user, device, at, settled FROM journal"
}
