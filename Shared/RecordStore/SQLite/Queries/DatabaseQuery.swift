// The statements about databases.

/// On `database`.
enum DatabaseQuery: Int, Query {
  static var subject: QuerySubject { .database }

  case byID, byKey, after, make, update, renew

  var lookupTypes: String? { self == .byID ? "ttt" : nil }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byID: Self.columns + " WHERE container = ?1 AND environment = ?2 AND owner = ?3"
    case .byKey: Self.columns + " WHERE id = ?1"
    case .after: Self.columns + " WHERE id > ?1 ORDER BY id LIMIT ?2"
    case .make:
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq, events, conflicts, gapStart, gapEnd) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?6, 0, ?6)
      """
    case .update: "UPDATE database SET seq = ?2, bytes = ?3, events = ?4, conflicts = ?5 WHERE id = ?1"
    case .renew: "UPDATE database SET incarnation = ?2, generation = ?3, placed = 0 WHERE id = ?1"
    }
  }

  private static let columns =
    """
    SELECT id, container, environment, owner, incarnation, seq, subscriptions, bytes, generation, placed, shared, \
    events, conflicts, gapStart, gapEnd FROM database
    """
}
