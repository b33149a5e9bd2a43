// The statements about the history of mirrored stores.

/// On `history`, `history_time` and `consumer`.
enum HistoryQuery: Int, Query {
  static var subject: QuerySubject { .history }

  case byID, after, numberByID, firstAt, append, purge
  case timeBefore, noteTime, purgeTimes
  case consumers, putConsumer, deleteConsumer, deleteConsumers

  var lookupTypes: String? { self == .numberByID ? "ib" : nil }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byID: "SELECT id, appended, sum, txid, author, payload FROM history WHERE mirror = ?1 AND txid = ?2"
    case .after: Self.after(dialect)
    // The index covers the whole statement.
    case .numberByID: "SELECT id FROM history WHERE mirror = ?1 AND txid = ?2"
    case .firstAt: "SELECT id FROM history WHERE id > ?1 AND id <= ?2 AND appended >= ?3 ORDER BY id LIMIT 1"
    case .append:
      "INSERT INTO history(id, mirror, appended, sum, txid, author, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    case .purge: "DELETE FROM history WHERE id > ?1 AND id <= ?2"

    case .timeBefore:
      "SELECT number FROM history_time WHERE mirror = ?1 AND latest < ?2 ORDER BY latest DESC, number DESC LIMIT 1"
    case .noteTime:
      """
      INSERT INTO history_time(mirror, latest, number) SELECT ?1, max(appended), ?2 FROM
        (SELECT latest AS appended FROM history_time WHERE mirror = ?1
          UNION ALL SELECT appended FROM history WHERE id > ?3 AND id <= ?4) AS known
      """
    case .purgeTimes: "DELETE FROM history_time WHERE mirror = ?1 AND number <= ?2"

    case .consumers: "SELECT name, number, seen FROM consumer WHERE mirror = ?1 ORDER BY name"
    case .putConsumer:
      """
      INSERT INTO consumer(mirror, name, number, seen) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT(mirror, name) DO UPDATE SET number = ?3, seen = ?4
      """
    case .deleteConsumer: "DELETE FROM consumer WHERE mirror = ?1 AND name = ?2"
    case .deleteConsumers: "DELETE FROM consumer WHERE mirror = ?1"
    }
  }

  /// The limit of bytes, ?4, is PostgreSQL's, as in `within`: without the row that passes it, unless that is the first.
  private static func after(_ dialect: Dialect) -> String {
    let columns = "SELECT id, appended, sum, txid, author, payload"
    let rows = columns + " FROM history WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3"
    if dialect == .sqlite { return rows }
    return """
      \(columns) FROM (SELECT found.*, sum(octet_length(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS size
        FROM (\(rows)) AS found) AS sums WHERE size <= ?4 OR size = octet_length(payload) ORDER BY id
      """
  }

  var tellsItsRow: Bool { self == .append }

  var rowsText: String? {
    guard self == .append else { return nil }
    return "INSERT INTO history(id, mirror, appended, sum, txid, author, payload) " + Self.rows("iiiibtb")
  }
}
