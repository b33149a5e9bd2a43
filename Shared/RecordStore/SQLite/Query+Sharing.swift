// The statements about shares.

extension Query {
  var sharingText: String {
    switch self {
    case .shareByName: Self.shareColumns + " WHERE zone = ?1 AND name = ?2"
    case .shareByRoot: Self.shareColumns + " WHERE zone = ?1 AND root = ?2 AND active = 1"
    case .sharesAfter: Self.shareColumns + " WHERE zone = ?1 AND name > ?2 AND active = 1 ORDER BY name LIMIT ?3"
    case .shareByOneTimeGUID: Self.shareColumns + " WHERE id = (SELECT share FROM invitation WHERE guid = ?1)"
    case .children:
      "SELECT r.name FROM reference f CROSS JOIN record r ON r.id = f.source WHERE f.zone = ?1 AND f.target = ?2 AND f.field = ?3 LIMIT ?4"
    case .putShare:
      """
      INSERT INTO share(zone, name, root, active, guid, sum, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT(zone, name) DO UPDATE SET root = ?3, active = ?4, guid = ?5, sum = ?6, state = ?7 RETURNING id
      """
    case .noteShares: "UPDATE database SET shared = 1 WHERE id = ?1"
    case .deleteInvitations: "DELETE FROM invitation WHERE share = ?1"
    case .insertInvitation: "INSERT INTO invitation(guid, zone, share) VALUES (?1, ?2, ?3)"
    case .membersInZone: Self.memberColumns + " WHERE database = ?1 AND user = ?2 AND zone = ?3 ORDER BY share"
    case .membersInDatabase: Self.memberColumns + " WHERE database = ?1 AND user = ?2 ORDER BY zone, share"
    case .membersAfter: Self.memberColumns + " WHERE (database, user, zone, share) > (?1, ?2, ?3, ?4) ORDER BY database, user, zone, share LIMIT ?5"
    case .activeMembers: Self.memberColumns + " INDEXED BY member_zone WHERE database = ?1 AND zone = ?2 AND until IS NULL ORDER BY user, share"
    case .audience: "SELECT DISTINCT user FROM member INDEXED BY member_zone WHERE database = ?1 AND zone = ?2 AND until IS NULL ORDER BY user"
    case .putMember:
      """
      INSERT OR REPLACE INTO member(database, user, zone, share, root, role, permission, since, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
      """
    case .newsAfter:
      """
      SELECT n.id, d.container, d.environment, d.owner, n.zone, n.user, n.active, n.seq FROM sharenews n JOIN database d ON d.id = n.database
        WHERE n.id > ?1 ORDER BY n.id LIMIT ?2
      """
    case .insertNews: "INSERT INTO sharenews(id, database, zone, user, active, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    case .removeNews: "DELETE FROM sharenews WHERE id <= ?1"
    case .departure: "SELECT seq FROM departure WHERE zone = ?1 AND name = ?2 AND root = ?3"
    case .putDeparture: "INSERT OR REPLACE INTO departure(zone, name, root, seq) VALUES (?1, ?2, ?3, ?4)"
    case .removeDeparture: "DELETE FROM departure WHERE zone = ?1 AND name = ?2 AND root = ?3"
    case .sweepShares: "DELETE FROM share WHERE id IN (SELECT id FROM share WHERE zone = ?1 LIMIT ?2)"
    case .sweepInvitations: "DELETE FROM invitation WHERE guid IN (SELECT guid FROM invitation WHERE zone = ?1 LIMIT ?2)"
    case .sweepDepartures: "DELETE FROM departure WHERE (zone, name, root) IN (SELECT zone, name, root FROM departure WHERE zone = ?1 LIMIT ?2)"
    default: preconditionFailure("no text for statement \(self)")
    }
  }

  private static let shareColumns = "SELECT id, zone, name, root, guid, sum, state FROM share"
  private static let memberColumns = "SELECT database, user, zone, share, root, role, permission, since, until FROM member"
}
