// The statements about changes that exports hold back.

/// On `quarantine`.
enum QuarantineQuery: Int, Query {
  static var subject: QuerySubject { .quarantine }

  case byName, after, due, payload, last, nextDue, mirrors
  case insert, update, delete, deleteAll
  case retryAll, retryCause, retrySchema, retryName

  var text: String {
    switch self {
    case .byName: Self.columns + " WHERE mirror = ?1 AND name = ?2"
    case .after: Self.columns + " WHERE mirror = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    case .due: Self.columns + " WHERE mirror = ?1 AND due <= ?2 ORDER BY due, id LIMIT ?3"
    case .payload: "SELECT sum, payload FROM quarantine WHERE id = ?1"
    case .last: "SELECT max(id) FROM quarantine"
    case .nextDue: "SELECT min(due) FROM quarantine"
    case .mirrors: "SELECT id FROM mirror WHERE quarantined > 0 AND id > ?1 ORDER BY id LIMIT ?2"

    case .insert:
      """
      INSERT INTO quarantine(id, mirror, name, entity, cause, code, cocoa, reason, first, last, attempts, due, schema, \
      sum, payload)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
      """
    case .update:
      """
      UPDATE quarantine SET mirror = ?2, name = ?3, entity = ?4, cause = ?5, code = ?6, cocoa = ?7, reason = ?8, first \
      = ?9, last = ?10, attempts = ?11,
        due = ?12, schema = ?13, sum = ?14, payload = ?15 WHERE id = ?1
      """
    case .delete: "DELETE FROM quarantine WHERE id = ?1"
    case .deleteAll: "DELETE FROM quarantine WHERE mirror = ?1"

    case .retryAll: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1"
    case .retryCause: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1 AND cause = ?3"
    case .retrySchema: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1 AND schema <> ?3"
    case .retryName: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1 AND name = ?3"
    }
  }

  private static let columns =
    "SELECT id, mirror, name, entity, cause, code, cocoa, reason, first, last, attempts, due, schema FROM quarantine"
}
