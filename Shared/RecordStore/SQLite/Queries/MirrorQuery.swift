// The statements about mirrored stores.

/// On `mirror`.
enum MirrorQuery: Int, Query {
  static var subject: QuerySubject { .mirror }

  case byIdentifier, byKey, after, count, awaitingExport
  case make, update, delete, renew, noteForgotten

  var text: String {
    switch self {
    case .byIdentifier: Self.columns + " WHERE database = ?1 AND identifier = ?2"
    case .byKey: Self.columns + " WHERE id = ?1"
    case .after: Self.columns + " WHERE id > ?1 ORDER BY id LIMIT ?2"
    case .count: "SELECT COUNT(*) FROM mirror WHERE database = ?1 AND user = ?2"
    case .awaitingExport: "SELECT id FROM mirror WHERE exported < last AND id > ?1 ORDER BY id LIMIT ?2"

    case .make:
      """
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, configuration, device, created, \
      last, exported, purged, lineage, forgotten,
        forgottenAt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11, ?12, ?13, ?14)
      """
    case .update:
      """
      UPDATE mirror SET user = ?2, scope = ?3, model = ?4, configuration = ?5, device = ?6, created = ?7, last = ?8, \
      exported = ?9, purged = ?10,
        quarantined = ?11, slice = ?12, imported = ?13, lease = ?14 WHERE id = ?1
      """
    case .delete: "DELETE FROM mirror WHERE id = ?1"
    case .renew: "UPDATE mirror SET incarnation = ?2 WHERE id = ?1"
    case .noteForgotten: "UPDATE mirror SET forgotten = ?2, forgottenAt = ?3 WHERE id = ?1"
    }
  }

  private static let columns =
    """
    SELECT id, database, identifier, incarnation, user, scope, model, configuration, device, created, last, exported, \
    purged, quarantined, slice, imported, lease, lineage, forgotten, forgottenAt FROM mirror
    """
}
