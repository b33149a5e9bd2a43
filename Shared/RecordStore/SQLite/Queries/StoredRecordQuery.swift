// The statements about records.

/// On `record` and `shortGUID`.
enum StoredRecordQuery: Int, Query {
  static var subject: QuerySubject { .record }

  case byName, presence, place, byRow, byShortGUID, names, afterName, changes, changesBackwards, ofType
  case marks, firstInZones
  case insert, update, updateWithType, nextKeys
  case insertShortGUID, deleteShortGUID

  var lookupTypes: String? {
    switch self {
    case .byName, .presence: "ib"
    case .byShortGUID: "t"
    default: nil
    }
  }
  var lookupByteLimit: Int? { [.byName, .byShortGUID].contains(self) ? 4 << 20 : nil }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byName: Self.columns + " FROM record WHERE zone = ?1 AND name = ?2"
    // The length is known without the fields, whose pages are not read.
    case .presence: "SELECT deleted, length(data) FROM record WHERE zone = ?1 AND name = ?2"
    case .place: "SELECT deleted, refs FROM record WHERE zone = ?1 AND name = ?2"
    case .byRow: Self.columns + " FROM record WHERE id = ?1"
    case .byShortGUID:
      Self.columns + ", name, zone FROM record WHERE id = (SELECT source FROM shortGUID WHERE guid = ?1)"
    // The index covers the whole statement.
    case .names:
      """
      SELECT id, name, type FROM record \(dialect.indexed(by: "record_name")) WHERE zone = ?1 AND name > ?2 \
      ORDER BY name LIMIT ?3
      """
    case .afterName: Self.list(dialect, "zone = ?1 AND name > ?2", order: "name", limit: 3)
    case .changes: Self.list(dialect, "zone = ?1 AND seq > ?2", order: "seq", limit: 3)
    case .changesBackwards:
      Self.list(dialect, "zone = ?1 AND seq > ?2 AND seq < ?4", order: "seq DESC", limit: 3, byteLimit: 5)
    case .ofType:
      Self.list(dialect, "zone = ?1 AND name > ?2 AND type = ?3 AND deleted = 0", order: "name", limit: 4)

    // The columns come before the fields, so that pages with those are not read.
    case .marks: "SELECT seq, origin, others FROM record WHERE zone = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    // An index covers the inner statement.
    case .firstInZones:
      """
      SELECT z.id, (SELECT min(r.seq) FROM record r WHERE r.zone = z.id AND r.seq > ?2) \
      FROM zone z WHERE z.database = ?1 AND z.seq > ?2 AND z.deleted = 0
      """

    case .insert:
      """
      INSERT INTO record(zone, name, seq, type, deleted, origin, others, sum, refs, data\(dialect.recordKey.column)) \
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10\(dialect.recordKey.value))
      """
    // Without the type, which hardly ever changes: setting it would also rewrite the index on names.
    case .update:
      "UPDATE record SET seq = ?2, deleted = ?4, origin = ?5, others = ?6, sum = ?7, refs = ?8, data = ?9 WHERE id = ?1"
    case .updateWithType:
      """
      UPDATE record SET seq = ?2, type = ?3, deleted = ?4, origin = ?5, others = ?6, sum = ?7, refs = ?8, data = ?9 \
      WHERE id = ?1
      """

    // SQLite gives keys out by itself.
    case .nextKeys: dialect == .sqlite ? "SELECT NULL" : "SELECT nextval('record_keys')"

    case .insertShortGUID:
      "INSERT INTO shortGUID(guid, zone, source) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING"
    case .deleteShortGUID: "DELETE FROM shortGUID WHERE guid = ?1 AND source = ?2"
    }
  }

  var tellsItsRow: Bool { [.insert, .update, .updateWithType].contains(self) }

  var rowsText: String? {
    guard self == .insert else { return nil }
    return "INSERT INTO record(zone, name, seq, type, deleted, origin, others, sum, refs, data, id) "
      + Self.rows("ibiiiiiibbi")
  }

  /// The keys that `nextKeys` gives out at a time: the one in its row and those behind it.
  static let keyCount: Int64 = 1000

  static let columns = "SELECT " + columnNames
  static let columnNames = "id, seq, type, deleted, origin, others, sum, refs, data"

  /// Rows with their names. The limit of bytes is the parameter behind the limit of rows, or a later one.
  private static func list(
    _ dialect: Dialect, _ condition: String, order: String, limit: Int, byteLimit: Int? = nil
  ) -> String {
    within(
      dialect, columns + ", name FROM record WHERE \(condition) ORDER BY \(order) LIMIT ?\(limit)",
      columns: columnNames + ", name", order: order, byteLimit: byteLimit ?? limit + 1)
  }
}
