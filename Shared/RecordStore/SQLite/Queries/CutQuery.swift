// The statements that remove the databases that a division has left to another shard.

/// On all tables whose rows belong to a database.
enum CutQuery: Int, Query {
  static var subject: QuerySubject { .cut }

  case mirror, history, conflicts, zones
  case news, members, subscriptions, indexes, database, mark

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .mirror: "SELECT id FROM mirror WHERE database = ?1 ORDER BY id LIMIT 1"
    case .history:
      "SELECT max(id) FROM (SELECT id FROM history WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) AS slice"
    case .conflicts: "SELECT id, bytes FROM journal WHERE database = ?1 ORDER BY number LIMIT ?2"
    case .zones: "SELECT id, name FROM zone WHERE database = ?1 ORDER BY id LIMIT ?2"

    case .news: "DELETE FROM sharenews WHERE database = ?1"
    case .members: "DELETE FROM member WHERE database = ?1"
    case .subscriptions: "DELETE FROM subscription WHERE database = ?1"
    case .indexes: "DELETE FROM fieldindex WHERE database = ?1"
    case .database: "DELETE FROM database WHERE id = ?1"
    case .mark: "DELETE FROM meta WHERE key = ?1"
    }
  }
}
