// The statements that remove the rows of deleted zones, a slice at a time.

/// On `doomed`, the zones whose rows are being removed. The statements named after other rows remove a slice of a
/// zone's rows.
enum SweepQuery: Int, Query {
  static var subject: QuerySubject { .sweep }

  case zones, doom, release
  case records, past, references, shortGUIDs, entries, redirects, shares, invitations, departures

  var text: String {
    switch self {
    case .zones: "SELECT zone FROM doomed ORDER BY zone"
    case .doom: "INSERT INTO doomed(zone) VALUES (?1)"
    case .release: "DELETE FROM doomed WHERE zone = ?1"

    case .records:
      "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE zone = ?1 LIMIT ?2) RETURNING deleted, data"
    case .past: "DELETE FROM past WHERE id IN (SELECT id FROM past WHERE zone = ?1 LIMIT ?2) RETURNING deleted, data"
    case .references:
      """
      DELETE FROM reference WHERE (zone, target, field, source) IN (SELECT zone, target, field, source FROM reference \
      WHERE zone = ?1 LIMIT ?2)
      """
    case .shortGUIDs: "DELETE FROM shortGUID WHERE guid IN (SELECT guid FROM shortGUID WHERE zone = ?1 LIMIT ?2)"
    case .entries:
      """
      DELETE FROM entry WHERE (zone, fieldindex, key, name) IN (SELECT zone, fieldindex, key, name FROM entry \
      WHERE zone = ?1 LIMIT ?2)
      """
    case .redirects:
      "DELETE FROM redirect WHERE (zone, loser) IN (SELECT zone, loser FROM redirect WHERE zone = ?1 LIMIT ?2)"
    case .shares: "DELETE FROM share WHERE id IN (SELECT id FROM share WHERE zone = ?1 LIMIT ?2)"
    case .invitations: "DELETE FROM invitation WHERE guid IN (SELECT guid FROM invitation WHERE zone = ?1 LIMIT ?2)"
    case .departures:
      """
      DELETE FROM departure WHERE (zone, name, root) IN (SELECT zone, name, root FROM departure WHERE zone = ?1 \
      LIMIT ?2)
      """
    }
  }
}
