// The statements about settled transactions and removed stores.

/// On `settled` and `former`.
enum SettledQuery: Int, Query {
  static var subject: QuerySubject { .settled }

  case byID, firstAt, lastAt, settleAll, settle, forget
  case formerMirror, oldestFormerMirror, surplusFormerMirror, insertFormerMirror, deleteFormerMirror,
    noteForgottenOfFormer
  case forgetFormerMirrors, deleteFormerMirrors

  var text: String {
    switch self {
    case .byID: "SELECT id, appended, objects FROM settled WHERE mirror = ?1 AND txid = ?2"
    case .firstAt: "SELECT id FROM settled WHERE id > ?1 AND id <= ?2 AND appended >= ?3 ORDER BY id LIMIT 1"
    case .lastAt: "SELECT max(appended) FROM settled WHERE id > ?1 AND id <= ?2"
    case .settleAll:
      """
      INSERT OR IGNORE INTO settled(id, mirror, appended, txid)
        SELECT id + (?3 - mirror) * \(HistoryRowID.lastNumber + 1), ?3, appended, txid FROM history WHERE id > ?1 \
      AND id <= ?2
      """
    case .settle: "INSERT OR IGNORE INTO settled(id, mirror, appended, txid, objects) VALUES (?1, ?2, ?3, ?4, ?5)"
    case .forget: "DELETE FROM settled WHERE id > ?1 AND id <= ?2"

    case .formerMirror: Self.columns + " WHERE database = ?1 AND identifier = ?2 AND user = ?3"
    case .oldestFormerMirror: Self.columns + " WHERE removed < ?1 ORDER BY removed LIMIT 1"
    case .surplusFormerMirror: Self.columns + " WHERE database = ?1 ORDER BY removed DESC, id DESC LIMIT 1 OFFSET ?2"
    case .insertFormerMirror:
      """
      INSERT INTO former(id, database, identifier, user, last, forgotten, forgottenAt, removed) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
      """
    case .deleteFormerMirror: "DELETE FROM former WHERE id = ?1"
    case .noteForgottenOfFormer: "UPDATE former SET forgotten = ?2, forgottenAt = ?3 WHERE id = ?1"
    case .forgetFormerMirrors: "DELETE FROM settled WHERE mirror IN (SELECT id FROM former WHERE database = ?1)"
    case .deleteFormerMirrors: "DELETE FROM former WHERE database = ?1"
    }
  }

  private static let columns = "SELECT id, last, forgotten, forgottenAt FROM former"
}
