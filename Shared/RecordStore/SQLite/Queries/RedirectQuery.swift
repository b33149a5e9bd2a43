// The statements about redirects from duplicates to other records.

/// On `redirect`.
enum RedirectQuery: Int, Query {
  static var subject: QuerySubject { .redirect }

  case ofDuplicate, toRecord, pending, zonesWithPending, databases, anyInDatabase
  case put, follow, delete, noteProgress

  var text: String {
    switch self {
    case .ofDuplicate: Self.columns + " WHERE zone = ?1 AND loser = ?2"
    case .toRecord: Self.columns + " WHERE zone = ?1 AND survivor = ?2 ORDER BY loser LIMIT ?3"
    case .pending: Self.columns + " WHERE zone = ?1 AND loser > ?2 AND removed IS NULL ORDER BY loser LIMIT ?3"
    case .zonesWithPending:
      ZoneQuery.columns
        + """
         WHERE id > ?1 AND (?2 IS NULL OR database = ?2) AND deleted = 0 AND id IN (SELECT zone FROM redirect \
        WHERE removed IS NULL)
          ORDER BY id LIMIT ?3
        """
    case .databases:
      // Steps from one zone of the index to the next, because a shard has many zones, few redirects, and runs this at
      // each opening.
      """
      WITH RECURSIVE redirected(zone) AS (SELECT min(zone) FROM redirect
        UNION ALL SELECT (SELECT min(zone) FROM redirect WHERE zone > redirected.zone) FROM redirected \
      WHERE zone IS NOT NULL)
      SELECT DISTINCT database FROM redirected CROSS JOIN zone ON zone.id = redirected.zone
      """
    case .anyInDatabase:
      "SELECT 1 FROM zone WHERE database = ?1 AND EXISTS (SELECT 1 FROM redirect WHERE zone = zone.id) LIMIT 1"

    case .put:
      """
      INSERT OR REPLACE INTO redirect(zone, loser, survivor, since, rule, progress, removed) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
      """
    case .follow: "UPDATE redirect SET survivor = ?3 WHERE zone = ?1 AND survivor = ?2"
    case .delete: "DELETE FROM redirect WHERE zone = ?1 AND loser = ?2"
    case .noteProgress:
      """
      UPDATE redirect SET progress = progress | ?3 WHERE zone = ?1 AND removed IS NULL AND since < ?2 \
      AND progress & ?3 <> ?3
      """
    }
  }

  private static let columns = "SELECT loser, survivor, since, rule, progress, removed FROM redirect"
}
