// The statements about subscriptions.

/// On `subscription`.
enum SubscriptionQuery: Int, Query {
  static var subject: QuerySubject { .subscription }

  case byName, ofUser, after, count
  case insert, delete, updateEdition

  var text: String {
    switch self {
    case .byName: Self.columns + " WHERE database = ?1 AND user = ?2 AND scope = ?3 AND identifier = ?4"
    case .ofUser:
      Self.columns + " WHERE database = ?1 AND user = ?2 AND scope = ?3 ORDER BY identifier LIMIT ?4"
    case .after: Self.columns + " WHERE database = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    case .count: "SELECT count(*) FROM subscription WHERE database = ?1"

    case .insert:
      """
      INSERT INTO subscription(id, database, user, scope, identifier, sum, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
      """
    case .delete: "DELETE FROM subscription WHERE id = ?1 AND database = ?2"
    case .updateEdition: "UPDATE database SET subscriptions = ?2 WHERE id = ?1"
    }
  }

  private static let columns = "SELECT id, database, user, scope, identifier, sum, payload FROM subscription"
}
