// The statements about events of mirrored stores.

/// On `event`.
enum EventQuery: Int, Query {
  static var subject: QuerySubject { .event }

  case after, afterOfKind, latest, abandoned
  case insert, update, prune, delete

  var text: String {
    switch self {
    case .after: Self.columns + " WHERE mirror = ?1 AND number > ?2 ORDER BY number LIMIT ?3"
    case .afterOfKind: Self.columns + " WHERE mirror = ?1 AND number > ?2 AND kind = ?4 ORDER BY number LIMIT ?3"
    case .latest: Self.columns + " WHERE mirror = ?1 AND kind = ?2 ORDER BY number DESC LIMIT 1"
    case .abandoned:
      """
      SELECT number, kind, started, ended, succeeded, saved, deleted, identifier, error, mirror FROM event \
      WHERE ended IS NULL AND id <= ?1
      ORDER BY id LIMIT ?2
      """

    case .insert:
      """
      INSERT INTO event(number, mirror, kind, started, ended, succeeded, saved, deleted, identifier, error, id) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
      """
    case .update:
      """
      UPDATE event SET number = ?11, kind = ?3, started = ?4, ended = ?5, succeeded = ?6, saved = ?7, deleted = ?8, \
      identifier = ?9, error = ?10
      WHERE number = ?1 AND mirror = ?2
      """
    case .prune:
      """
      DELETE FROM event WHERE mirror = ?1 AND number <= (SELECT number FROM event WHERE mirror = ?1 \
      ORDER BY number DESC LIMIT 1 OFFSET ?2)
        AND number NOT IN (SELECT max(number) FROM event WHERE mirror = ?1 GROUP BY kind)
      """
    case .delete: "DELETE FROM event WHERE mirror = ?1"
    }
  }

  private static let columns =
    "SELECT number, kind, started, ended, succeeded, saved, deleted, identifier, error FROM event"
}
