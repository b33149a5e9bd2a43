// The statements about a shard as a whole.

/// On `meta`, `sealing_key` and `symbol`, and the counts of the shard.
enum ShardQuery: Int, Query {
  static var subject: QuerySubject { .shard }

  case meta, setMeta, contentKeys, sealingKeys, noteSealingKey
  case symbolText, symbolID, makeSymbol
  case counts, byteCount

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .meta: "SELECT value FROM meta WHERE key = ?1"
    case .setMeta: "INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2"
    case .contentKeys: "SELECT key FROM meta WHERE key >= 'contentKey-' AND key < 'contentKey.' ORDER BY key"
    case .sealingKeys: "SELECT id FROM sealing_key"
    case .noteSealingKey: "INSERT INTO sealing_key(id) VALUES (?1) ON CONFLICT DO NOTHING"

    case .symbolText: "SELECT text FROM symbol WHERE id = ?1"
    case .symbolID: "SELECT id FROM symbol WHERE text = ?1"
    case .makeSymbol: "INSERT INTO symbol(text) VALUES (?1)" + dialect.returningKey

    case .counts:
      """
      SELECT (SELECT count(*) FROM database), (SELECT count(*) FROM zone \
      WHERE deleted = 0), (SELECT CAST(coalesce(sum(live), 0) AS bigint) FROM zone),
        (SELECT count(*) FROM mirror)
      """
    case .byteCount: dialect.byteCount
    }
  }
}
