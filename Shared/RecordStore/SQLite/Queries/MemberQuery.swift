// The statements about the access of users to shared zones.

/// On `member` and `sharenews`.
enum MemberQuery: Int, Query {
  static var subject: QuerySubject { .member }

  case inZone, inDatabase, after, active, audience, put
  case newsAfter, insertNews, removeNews

  var text: String {
    switch self {
    case .inZone: Self.columns + " WHERE database = ?1 AND user = ?2 AND zone = ?3 ORDER BY share"
    case .inDatabase: Self.columns + " WHERE database = ?1 AND user = ?2 ORDER BY zone, share"
    case .after:
      Self.columns
        + " WHERE (database, user, zone, share) > (?1, ?2, ?3, ?4) ORDER BY database, user, zone, share LIMIT ?5"
    case .active:
      Self.columns + " INDEXED BY member_zone WHERE database = ?1 AND zone = ?2 AND until IS NULL ORDER BY user, share"
    case .audience:
      """
      SELECT DISTINCT user FROM member INDEXED BY member_zone WHERE database = ?1 AND zone = ?2 AND until IS NULL \
      ORDER BY user
      """
    case .put:
      """
      INSERT OR REPLACE INTO member(database, user, zone, share, root, role, permission, since, until) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
      """

    case .newsAfter:
      """
      SELECT n.id, d.container, d.environment, d.owner, n.zone, n.user, n.active, n.seq FROM sharenews n \
      JOIN database d ON d.id = n.database
        WHERE n.id > ?1 ORDER BY n.id LIMIT ?2
      """
    case .insertNews: "INSERT INTO sharenews(id, database, zone, user, active, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    case .removeNews: "DELETE FROM sharenews WHERE id <= ?1"
    }
  }

  private static let columns = "SELECT database, user, zone, share, root, role, permission, since, until FROM member"
}
