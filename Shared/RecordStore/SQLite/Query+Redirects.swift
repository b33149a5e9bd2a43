// The statements about redirects from duplicates to other records.

extension Query {
  var redirectText: String {
    switch self {
    case .redirect: Self.redirectColumns + " WHERE zone = ?1 AND loser = ?2"
    case .redirectsTo: Self.redirectColumns + " WHERE zone = ?1 AND survivor = ?2 ORDER BY loser LIMIT ?3"
    case .pendingRedirects: Self.redirectColumns + " WHERE zone = ?1 AND loser > ?2 AND removed IS NULL ORDER BY loser LIMIT ?3"
    case .zonesWithPendingRedirects:
      Self.zoneColumns
        + """
         WHERE id > ?1 AND (?2 IS NULL OR database = ?2) AND deleted = 0 AND id IN (SELECT zone FROM redirect WHERE removed IS NULL)
          ORDER BY id LIMIT ?3
        """
    case .redirectedDatabases:
      // Steps from one zone of the index to the next, because a shard has many zones, few redirects, and runs this at
      // each opening.
      """
      WITH RECURSIVE redirected(zone) AS (SELECT min(zone) FROM redirect
        UNION ALL SELECT (SELECT min(zone) FROM redirect WHERE zone > redirected.zone) FROM redirected WHERE zone IS NOT NULL)
      SELECT DISTINCT database FROM redirected CROSS JOIN zone ON zone.id = redirected.zone
      """
    case .hasRedirects: "SELECT 1 FROM zone WHERE database = ?1 AND EXISTS (SELECT 1 FROM redirect WHERE zone = zone.id) LIMIT 1"
    case .putRedirect:
      "INSERT OR REPLACE INTO redirect(zone, loser, survivor, since, rule, progress, removed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    case .followRedirect: "UPDATE redirect SET survivor = ?3 WHERE zone = ?1 AND survivor = ?2"
    case .deleteRedirect: "DELETE FROM redirect WHERE zone = ?1 AND loser = ?2"
    case .noteRedirects: "UPDATE redirect SET progress = progress | ?3 WHERE zone = ?1 AND removed IS NULL AND since < ?2 AND progress & ?3 <> ?3"
    case .sweepRedirects: "DELETE FROM redirect WHERE (zone, loser) IN (SELECT zone, loser FROM redirect WHERE zone = ?1 LIMIT ?2)"
    case .sharedKeys:
      """
      SELECT key FROM entry WHERE zone = ?1 AND fieldindex = ?2 AND key > ?3 GROUP BY key HAVING count(*) > 1 ORDER BY key LIMIT ?4
      """
    default: preconditionFailure("no text for statement \(self)")
    }
  }

  private static let redirectColumns = "SELECT loser, survivor, since, rule, progress, removed FROM redirect"
}
