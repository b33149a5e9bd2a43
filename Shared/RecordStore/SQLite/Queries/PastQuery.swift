// The statements about past states of records.

/// On `past`.
enum PastQuery: Int, Query {
  static var subject: QuerySubject { .past }

  case ofRecord, firstReplacement, oldest
  case archive, forget

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .ofRecord:
      StoredRecordQuery.columns
        + ", until, at FROM past WHERE zone = ?1 AND name = ?2 AND until > ?3 ORDER BY until LIMIT ?4"
    case .firstReplacement: "SELECT min(until) FROM past WHERE zone = ?1 AND at > ?2"
    case .oldest: "SELECT id, at FROM past ORDER BY id LIMIT ?1"

    case .archive:
      """
      INSERT INTO past(zone, name, seq, until, at, type, deleted, origin, others, sum, refs, data)
        SELECT zone, name, seq, ?2, ?3, type, deleted, origin, others, sum, refs, data FROM record WHERE id = ?1
      """
    case .forget: "DELETE FROM past WHERE id <= ?1 RETURNING zone, until, deleted, data"
    }
  }
}
