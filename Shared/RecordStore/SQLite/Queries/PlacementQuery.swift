// The statements about placements of objects.

import Records

/// On `placement`, and on `unplaced`: the zones whose records are not noted there yet.
enum PlacementQuery: Int, Query {
  static var subject: QuerySubject { .placement }

  case ofObject, anyInDatabase
  case insert, fill, assign, unassign, settle, remove, move, drop, setState
  case fillingDatabases, makeUnplaced, nextUnplaced, updateUnplaced, moveUnplaced, removeUnplaced, dropUnplaced

  var text: String {
    switch self {
    // The second part finds rows only while a database is being filled: a record of that name in a zone that is not
    // noted yet.
    case .ofObject:
      """
      SELECT zone, assigned FROM placement WHERE database = ?1 AND name = ?2
      UNION ALL
      SELECT u.target, 0 FROM unplaced u CROSS JOIN record r INDEXED BY record_name ON r.zone = u.zone AND r.name = ?2 \
      JOIN symbol s ON s.id = r.type
        WHERE u.database = ?1 AND \(Self.isObject("s"))
          AND NOT EXISTS (SELECT 1 FROM placement p WHERE p.database = ?1 AND p.name = ?2 AND p.zone = u.target)
      ORDER BY zone
      """
    case .anyInDatabase: "SELECT 1 FROM placement WHERE database = ?1 LIMIT 1"

    case .insert:
      "INSERT INTO placement(database, name, zone) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET assigned = 0"
    // A placement that was noted after the filling began is newer.
    case .fill: "INSERT INTO placement(database, name, zone) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING"
    case .assign:
      """
      INSERT INTO placement(database, name, zone, assigned) VALUES (?1, ?2, ?3, 1) ON CONFLICT DO UPDATE \
      SET assigned = 1
      """
    case .unassign: "UPDATE placement SET assigned = 0 WHERE database = ?1 AND name = ?2 AND assigned = 1"
    case .settle: "UPDATE placement SET assigned = 0 WHERE database = ?1 AND name = ?2 AND zone = ?3"
    case .remove: "DELETE FROM placement WHERE database = ?1 AND name = ?2 AND zone = ?3"
    case .move: "UPDATE placement SET zone = ?2 WHERE zone = ?1"
    case .drop: "DELETE FROM placement WHERE database = ?1"
    case .setState: "UPDATE database SET placed = ?2 WHERE id = ?1"

    case .fillingDatabases: "SELECT DISTINCT database FROM unplaced"
    // Zones that have ended do not matter for a store that is made afterwards.
    case .makeUnplaced:
      """
      INSERT INTO unplaced(database, zone, target, after) SELECT database, id, id, NULL FROM zone z
        WHERE database = ?1 AND deleted = 0 AND \(Self.isLookedInLater("z")) AND EXISTS (SELECT 1 FROM record r \
      WHERE r.zone = z.id)
      """
    case .nextUnplaced: "SELECT zone, target, after FROM unplaced WHERE database = ?1 ORDER BY zone LIMIT 1"
    case .updateUnplaced: "UPDATE unplaced SET after = ?3 WHERE database = ?1 AND zone = ?2"
    case .moveUnplaced: "UPDATE unplaced SET target = ?3 WHERE database = ?1 AND target = ?2"
    case .removeUnplaced: "DELETE FROM unplaced WHERE database = ?1 AND zone = ?2"
    case .dropUnplaced: "DELETE FROM unplaced WHERE database = ?1"
    }
  }

  /// A condition on a row of `symbol`: the type of an object's record (`StoredZone.places`).
  static func isObject(_ symbol: String) -> String {
    "substr(\(symbol).text, 1, \(ReservedName.recordTypePrefix.utf8.count)) = '\(ReservedName.recordTypePrefix)'"
  }

  /// A condition on a row of `zone`: not a default zone of mirrored stores.
  static func isLookedInLater(_ zone: String) -> String {
    "\(zone).name NOT IN ('\(ReservedName.privateMirrorZone)', '\(ReservedName.defaultZone)')"
  }
}
