// The statements about import and recovery state of mirrored stores.

/// On `syncstate`, `zonehold` and `unimported`.
enum RecoveryQuery: Int, Query {
  static var subject: QuerySubject { .recovery }

  case syncState, putSyncState, deleteSyncState
  case zoneHolds, emptyZoneHolds, putZoneHold, deleteZoneHold, deleteZoneHolds
  case unimportedAfter, unimportedDue, putUnimported, removeUnimported, deleteUnimported, retryUnimported,
    retryUnimportedName

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .syncState:
      """
      SELECT since, firstImport, resets, resetReason, resetSeq, epoch, previousModel, previousConfiguration, \
      leaseUntil, onDeleted, onPurged, onReset
      FROM syncstate WHERE mirror = ?1
      """
    case .putSyncState:
      """
      INSERT INTO syncstate(mirror, since, firstImport, resets, resetReason, resetSeq, epoch, \
      previousModel, previousConfiguration, leaseUntil,
        onDeleted, onPurged, onReset) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
        ON CONFLICT(mirror) DO UPDATE SET since = ?2, firstImport = ?3, resets = ?4, resetReason = ?5, resetSeq = ?6, \
      epoch = ?7, previousModel = ?8, previousConfiguration = ?9, leaseUntil = ?10, onDeleted = ?11, onPurged = ?12, \
      onReset = ?13
      """
    case .deleteSyncState: "DELETE FROM syncstate WHERE mirror = ?1"

    case .zoneHolds: "SELECT zone, reason, ended, at, decision FROM zonehold WHERE mirror = ?1 ORDER BY zone"
    case .emptyZoneHolds:
      """
      SELECT h.zone, h.reason, h.ended, h.at, h.decision FROM zonehold h
        JOIN mirror m ON m.id = h.mirror JOIN zone z ON z.database = m.database AND z.name = h.zone
        WHERE h.mirror = ?1 AND h.ended <= ?2 AND h.zone <> ?4 AND (h.reason = 0 AND h.decision = ?5
          OR h.reason = 1 AND h.decision = ?6 OR h.reason = 2 AND h.decision = ?7)
          AND NOT EXISTS (SELECT 1 FROM placement p WHERE p.zone = z.id)
          AND NOT EXISTS (SELECT 1 FROM unplaced u WHERE u.database = m.database)
        ORDER BY h.ended, h.zone LIMIT ?3
      """
    case .putZoneHold:
      """
      INSERT INTO zonehold(mirror, zone, reason, ended, at, decision) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT(mirror, zone) DO UPDATE SET reason = ?3, ended = ?4, at = ?5, decision = ?6
      """
    case .deleteZoneHold: "DELETE FROM zonehold WHERE mirror = ?1 AND zone = ?2"
    case .deleteZoneHolds: "DELETE FROM zonehold WHERE mirror = ?1"

    case .unimportedAfter: Self.columns + " WHERE mirror = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    case .unimportedDue: Self.columns + " WHERE mirror = ?1 AND due <= ?2 ORDER BY due, id LIMIT ?3"
    case .putUnimported:
      """
      INSERT INTO unimported(mirror, zone, name, entity, code, reason, seq, first, last, attempts, due)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
        ON CONFLICT(mirror, zone, name) DO UPDATE SET entity = ?4, code = ?5, reason = ?6, seq = ?7, first = ?8, last \
      = ?9, attempts = ?10, due = ?11
      """
    case .removeUnimported: "DELETE FROM unimported WHERE mirror = ?1 AND zone = ?2 AND name = ?3"
    case .deleteUnimported: "DELETE FROM unimported WHERE mirror = ?1"
    case .retryUnimported: "UPDATE unimported SET due = ?2 WHERE mirror = ?1"
    case .retryUnimportedName: "UPDATE unimported SET due = ?2 WHERE mirror = ?1 AND name = ?3"
    }
  }

  private static let columns =
    "SELECT id, zone, name, entity, code, reason, seq, first, last, attempts, due FROM unimported"
}
