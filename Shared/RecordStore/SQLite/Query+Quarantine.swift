// The statements about changes that exports hold back.

extension Query {
  var quarantineText: String {
    switch self {
    case .quarantinedByName: Self.quarantineColumns + " WHERE mirror = ?1 AND name = ?2"
    case .quarantinedAfter: Self.quarantineColumns + " WHERE mirror = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    case .quarantinedDue: Self.quarantineColumns + " WHERE mirror = ?1 AND due <= ?2 ORDER BY due, id LIMIT ?3"
    case .quarantinedPayload: "SELECT sum, payload FROM quarantine WHERE id = ?1"
    case .lastQuarantine: "SELECT max(id) FROM quarantine"
    case .nextQuarantineDue: "SELECT min(due) FROM quarantine"
    case .mirrorsWithQuarantine: "SELECT id FROM mirror WHERE quarantined > 0 AND id > ?1 ORDER BY id LIMIT ?2"
    case .insertQuarantined:
      """
      INSERT INTO quarantine(id, mirror, name, entity, cause, code, cocoa, reason, first, last, attempts, due, schema, sum, payload)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
      """
    case .updateQuarantined:
      """
      UPDATE quarantine SET mirror = ?2, name = ?3, entity = ?4, cause = ?5, code = ?6, cocoa = ?7, reason = ?8, first = ?9, last = ?10, attempts = ?11,
        due = ?12, schema = ?13, sum = ?14, payload = ?15 WHERE id = ?1
      """
    case .deleteQuarantined: "DELETE FROM quarantine WHERE id = ?1"
    case .deleteQuarantine: "DELETE FROM quarantine WHERE mirror = ?1"
    case .retryQuarantined: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1"
    case .retryQuarantinedCause: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1 AND cause = ?3"
    case .retryQuarantinedSchema: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1 AND schema <> ?3"
    case .retryQuarantinedName: "UPDATE quarantine SET due = ?2 WHERE mirror = ?1 AND name = ?3"
    case .deleteHistoryAsset: "DELETE FROM history_asset WHERE history = ?1 AND hash = ?2"
    default: journalText
    }
  }

  private static let quarantineColumns =
    "SELECT id, mirror, name, entity, cause, code, cocoa, reason, first, last, attempts, due, schema FROM quarantine"
}
