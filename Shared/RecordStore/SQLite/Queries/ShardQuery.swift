// The statements about a shard as a whole.

/// On `meta`, `sealing_key` and `symbol`, and the counts of the shard.
enum ShardQuery: Int, Query {
  static var subject: QuerySubject { .shard }

  case meta, setMeta, sealingKeys, noteSealingKey
  case symbolText, symbolID, makeSymbol
  case counts

  var text: String {
    switch self {
    case .meta: "SELECT value FROM meta WHERE key = ?1"
    case .setMeta: "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)"
    case .sealingKeys: "SELECT id FROM sealing_key"
    case .noteSealingKey: "INSERT OR IGNORE INTO sealing_key(id) VALUES (?1)"

    case .symbolText: "SELECT text FROM symbol WHERE id = ?1"
    case .symbolID: "SELECT id FROM symbol WHERE text = ?1"
    case .makeSymbol: "INSERT INTO symbol(text) VALUES (?1)"

    case .counts:
      """
      SELECT (SELECT count(*) FROM database), (SELECT count(*) FROM zone \
      WHERE deleted = 0), (SELECT coalesce(sum(live), 0) FROM zone),
        (SELECT count(*) FROM mirror)
      """
    }
  }
}
