// The statements about past states of records.

/// On `past`.
enum PastQuery: Int, Query {
  static var subject: QuerySubject { .past }

  case ofRecord, ofRecordAtTime, firstReplacement, oldest
  case archive, forget

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .ofRecord:
      Self.columns + " FROM past WHERE zone = ?1 AND name = ?2 AND until > ?3" + Self.within(dialect)
        + " ORDER BY until LIMIT ?4"
    case .ofRecordAtTime:
      Self.columns + " FROM past WHERE zone = ?1 AND name = ?2 AND at > ?3 ORDER BY until LIMIT 1"
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

  private static let columns = StoredRecordQuery.columns + ", until, at"

  /// The limit of bytes, ?5: PostgreSQL sends all rows of an answer before the first one is read. SQLite reads row by
  /// row.
  private static func within(_ dialect: Dialect) -> String {
    if dialect == .sqlite { return "" }
    return """
       AND until <= (SELECT max(until) FROM
        (SELECT until, row_number() OVER (ORDER BY until) AS place, sum(size) OVER (ORDER BY until) AS size FROM
          (SELECT until, octet_length(data) AS size FROM past WHERE zone = ?1 AND name = ?2 AND until > ?3
            ORDER BY until LIMIT ?4) AS sizes) AS sums
        WHERE place = 1 OR size <= ?5)
      """
  }
}
