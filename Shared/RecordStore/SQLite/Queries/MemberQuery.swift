// The statements about the access of users to shared zones.

/// On `member` and `sharenews`.
enum MemberQuery: Int, Query {
  static var subject: QuerySubject { .member }

  case inZone, inDatabase, after, active, audience, put
  case newsAfter, insertNews, removeNews

  var tellsItsRow: Bool { self == .put }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .inZone: Self.columns + #" WHERE database = ?1 AND "user" = ?2 AND zone = ?3 ORDER BY share"#
    case .inDatabase: Self.columns + #" WHERE database = ?1 AND "user" = ?2 ORDER BY zone, share"#
    case .after:
      Self.columns
        + """
         WHERE (database, "user", zone, share) > (?1, ?2, ?3, ?4) ORDER BY database, "user", zone, share LIMIT ?5
        """
    case .active:
      Self.columns
        + """
         \(dialect.indexed(by: "member_zone")) WHERE database = ?1 AND zone = ?2 AND until IS NULL \
        ORDER BY "user", share
        """
    case .audience:
      """
      SELECT DISTINCT "user" FROM member \(dialect.indexed(by: "member_zone")) \
      WHERE database = ?1 AND zone = ?2 AND until IS NULL ORDER BY "user"
      """
    case .put:
      """
      INSERT INTO member(database, "user", zone, share, root, role, permission, since, until) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT(database, "user", zone, share) \
      DO UPDATE SET root = ?5, role = ?6, permission = ?7, since = ?8, until = ?9
      """

    case .newsAfter:
      """
      SELECT n.id, d.container, d.environment, d.owner, n.zone, n."user", n.active, n.seq FROM sharenews n \
      JOIN database d ON d.id = n.database
        WHERE n.id > ?1 ORDER BY n.id LIMIT ?2
      """
    case .insertNews:
      #"INSERT INTO sharenews(id, database, zone, "user", active, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"#
    case .removeNews: "DELETE FROM sharenews WHERE id <= ?1"
    }
  }

  private static let columns =
    #"SELECT database, "user", zone, share, root, role, permission, since, until FROM member"#
}
