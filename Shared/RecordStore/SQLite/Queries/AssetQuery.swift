// The statements about asset files.

/// On `asset` and `history_asset`.
enum AssetQuery: Int, Query {
  static var subject: QuerySubject { .asset }

  case byHash, orphaned, insert, insertUnused, use, release, delete
  case historyAssets, insertHistoryAsset, deleteHistoryAsset, deleteHistoryAssets

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byHash: "SELECT bytes, uses, orphaned FROM asset WHERE hash = ?1"
    case .orphaned: "SELECT hash FROM asset WHERE orphaned < ?1 ORDER BY orphaned, hash LIMIT ?2"
    case .insert:
      """
      INSERT INTO asset(hash, bytes, uses, orphaned) VALUES (?1, ?2, 1, NULL)
      ON CONFLICT(hash) DO UPDATE SET bytes = excluded.bytes, uses = 1, orphaned = NULL
      """
    case .insertUnused: "INSERT INTO asset(hash, bytes, uses, orphaned) VALUES (?1, 0, 0, ?2)"
    case .use: "UPDATE asset SET uses = uses + 1 WHERE hash = ?1"
    case .release:
      "UPDATE asset SET uses = uses - 1, orphaned = CASE uses WHEN 1 THEN ?2 END WHERE hash = ?1 AND uses > 0"
    case .delete: "DELETE FROM asset WHERE hash = ?1"

    case .historyAssets: "SELECT hash FROM history_asset WHERE history > ?1 AND history <= ?2"
    case .insertHistoryAsset: "INSERT INTO history_asset(history, hash) VALUES (?1, ?2)"
    case .deleteHistoryAsset: "DELETE FROM history_asset WHERE history = ?1 AND hash = ?2"
    case .deleteHistoryAssets: "DELETE FROM history_asset WHERE history > ?1 AND history <= ?2"
    }
  }
}
