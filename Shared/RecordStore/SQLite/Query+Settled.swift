// The statements about settled transactions and removed stores.

extension Query {
  var settledText: String {
    switch self {
    // The index covers the whole statement.
    case .keptTransactionNumber: "SELECT id FROM history WHERE mirror = ?1 AND txid = ?2"
    case .settledTransaction: "SELECT id, appended, objects FROM settled WHERE mirror = ?1 AND txid = ?2"
    case .settleTransactions:
      """
      INSERT OR IGNORE INTO settled(id, mirror, appended, txid)
        SELECT id + (?3 - mirror) * \(HistoryRowID.lastNumber + 1), ?3, appended, txid FROM history WHERE id > ?1 AND id <= ?2
      """
    case .settleTransaction: "INSERT OR IGNORE INTO settled(id, mirror, appended, txid, objects) VALUES (?1, ?2, ?3, ?4, ?5)"
    case .firstSettledAt: "SELECT id FROM settled WHERE id > ?1 AND id <= ?2 AND appended >= ?3 ORDER BY id LIMIT 1"
    case .lastSettled: "SELECT max(appended) FROM settled WHERE id > ?1 AND id <= ?2"
    case .forgetTransactions: "DELETE FROM settled WHERE id > ?1 AND id <= ?2"
    case .noteForgotten: "UPDATE mirror SET forgotten = ?2, forgottenAt = ?3 WHERE id = ?1"

    case .formerMirror: Self.formerColumns + " WHERE database = ?1 AND identifier = ?2 AND user = ?3"
    case .oldestFormerMirror: Self.formerColumns + " WHERE removed < ?1 ORDER BY removed LIMIT 1"
    case .surplusFormerMirror: Self.formerColumns + " WHERE database = ?1 ORDER BY removed DESC, id DESC LIMIT 1 OFFSET ?2"
    case .insertFormerMirror:
      "INSERT INTO former(id, database, identifier, user, last, forgotten, forgottenAt, removed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
    case .deleteFormerMirror: "DELETE FROM former WHERE id = ?1"
    case .noteForgottenOfFormer: "UPDATE former SET forgotten = ?2, forgottenAt = ?3 WHERE id = ?1"
    case .forgetFormerMirrors: "DELETE FROM settled WHERE mirror IN (SELECT id FROM former WHERE database = ?1)"
    case .deleteFormerMirrors: "DELETE FROM former WHERE database = ?1"
    default: preconditionFailure("no text for statement \(self)")
    }
  }

  private static let formerColumns = "SELECT id, last, forgotten, forgottenAt FROM former"
}
