// The statements about shares.

/// On `share`, `invitation` and `departure`.
enum ShareQuery: Int, Query {
  static var subject: QuerySubject { .share }

  case byName, byRoot, after, byOneTimeGUID, put, noteDatabase
  case deleteInvitations, insertInvitation
  case departure, putDeparture, removeDeparture

  // A root has one active share.
  var lookupTypes: String? { [.byName, .byRoot].contains(self) ? "it" : nil }
  var lookupByteLimit: Int? { lookupTypes == nil ? nil : 4 << 20 }
  // The row of a share that has ended is without a state.
  var lookupByteCount: String { "coalesce(octet_length(state), 0)" }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byName: Self.columns + " WHERE zone = ?1 AND name = ?2"
    case .byRoot: Self.columns + " WHERE zone = ?1 AND root = ?2 AND active = 1"
    case .after: Self.columns + " WHERE zone = ?1 AND name > ?2 AND active = 1 ORDER BY name LIMIT ?3"
    case .byOneTimeGUID: Self.columns + " WHERE id = (SELECT share FROM invitation WHERE guid = ?1)"
    case .put:
      """
      INSERT INTO share(zone, name, root, active, guid, sum, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT(zone, name) DO UPDATE SET root = ?3, active = ?4, guid = ?5, sum = ?6, state = ?7
      """
    case .noteDatabase: "UPDATE database SET shared = 1 WHERE id = ?1"

    // The share's key is not asked for: that would cost a round trip.
    case .deleteInvitations:
      "DELETE FROM invitation WHERE share = (SELECT id FROM share WHERE zone = ?1 AND name = ?2)"
    case .insertInvitation:
      """
      INSERT INTO invitation(guid, zone, share) \
      SELECT CAST(?1 AS text), zone, id FROM share WHERE zone = ?2 AND name = ?3
      """

    case .departure: "SELECT seq FROM departure WHERE zone = ?1 AND name = ?2 AND root = ?3"
    case .putDeparture:
      """
      INSERT INTO departure(zone, name, root, seq) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT(zone, name, root) DO UPDATE SET seq = ?4
      """
    case .removeDeparture: "DELETE FROM departure WHERE zone = ?1 AND name = ?2 AND root = ?3"
    }
  }

  private static let columns = "SELECT id, zone, name, root, guid, sum, state FROM share"
}
