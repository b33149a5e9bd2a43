// Notes the keys of rows that change while a shard is copied to another cluster.

import PostgreSQL
import Records
import SQLite

/// The log of a shard that moves: for each of its tables a table of keys, which triggers fill.
///
/// One writer commits to a shard at a time, and each of its commits waits for the one before. So the numbers of the log
/// rise in the order of commits, and what a state has of the log is all that led to it.
struct MoveLog: Sendable {
  /// The schema of the log's tables. Removing it removes the triggers as well.
  let schema: String
  let tables: [StoredTable]

  init(_ configuration: PostgreSQLConfiguration, shard: Int, tables: [StoredTable]) {
    schema = Self.schema(configuration, shard)
    self.tables = tables
  }

  private static func schema(_ configuration: PostgreSQLConfiguration, _ shard: Int) -> String {
    configuration.schema(ofShard: shard) + "_moving"
  }

  /// A part of the log, by table: the numbers behind those of `after`, up to those of `last`.
  struct Part: Hashable, Sendable {
    var after: [Int64]
    var last: [Int64]

    var changeCount: Int64 { zip(after, last).reduce(0) { $0 + $1.1 - $1.0 } }
  }

  /// Begins the log in a transaction of the shard's writer.
  /// - Parameter notes: false for the target, which gets the rows of the log.
  func begin(_ session: Session, notes: Bool) throws {
    try session.queue(Self.patience)
    try session.queue(Command("log.drop", "DROP SCHEMA IF EXISTS \(schema) CASCADE"))
    try session.queue(Command("log.schema", "CREATE SCHEMA \(schema)"))
    for table in tables {
      let keys = StoredTable.list(table.key)
      try session.queue(
        Command(
          "log \(table.name)",
          """
          CREATE TABLE \(schema).\(table.name) AS SELECT 0::bigint AS place, \(keys) FROM \(table.name) WITH NO DATA
          """))
      try session.queue(
        Command("log.key \(table.name)", "ALTER TABLE \(schema).\(table.name) ADD PRIMARY KEY (place)"))
      if !notes { continue }
      try session.queue(
        Command(
          "log.numbers \(table.name)",
          "ALTER TABLE \(schema).\(table.name) ALTER place ADD GENERATED ALWAYS AS IDENTITY"))
      try session.queue(Command("log.function \(table.name)", noting(table)))
      try session.queue(
        Command(
          "log.trigger \(table.name)",
          """
          CREATE TRIGGER moving AFTER INSERT OR UPDATE OR DELETE ON \(table.name) FOR EACH ROW \
          EXECUTE FUNCTION \(schema).note_\(table.name)()
          """))
    }
    try session.finish()
  }

  /// An update that changes a key is a deletion and an insertion.
  private func noting(_ table: StoredTable) -> String {
    func insertion(_ row: String) -> String {
      let values = table.key.map { "\(row).\"\($0)\"" }.joined(separator: ", ")
      return "INSERT INTO \(schema).\(table.name)(\(StoredTable.list(table.key))) VALUES (\(values))"
    }
    let same = table.key.map { "OLD.\"\($0)\" = NEW.\"\($0)\"" }.joined(separator: " AND ")
    return """
      CREATE FUNCTION \(schema).note_\(table.name)() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
        IF TG_OP <> 'INSERT' THEN \(insertion("OLD")); END IF;
        IF TG_OP = 'INSERT' THEN \(insertion("NEW"));
        ELSIF TG_OP = 'UPDATE' THEN IF NOT (\(same)) THEN \(insertion("NEW")); END IF;
        END IF;
        RETURN NULL;
      END $body$
      """
  }

  /// Ends the log in a transaction of the shard's writer. The triggers of another owner's log must stay.
  static func end(_ configuration: PostgreSQLConfiguration, shard: Int, _ session: Session) throws {
    try session.queue(patience)
    _ = try session.rows(Command("log.drop", "DROP SCHEMA IF EXISTS \(schema(configuration, shard)) CASCADE"))
  }

  static func isThere(_ configuration: PostgreSQLConfiguration, shard: Int, _ session: Session) throws -> Bool {
    try session.rows(
      Command("log.there", "SELECT to_regnamespace($1) IS NOT NULL"), [.text(schema(configuration, shard))]
    ).first?.boolean(0) == true
  }

  /// Readers must not wait long behind the removal of a trigger.
  private static let patience = Command("log.patience", "SET LOCAL lock_timeout = '1s'")

  /// The last number of each table.
  func position(_ session: Session) throws -> [Int64] {
    let parts = tables.enumerated().map { number, table in
      "SELECT \(number) AS part, coalesce(max(place), 0) AS last FROM \(schema).\(table.name)"
    }
    let rows = try session.rows(
      Command("log.position", "SELECT last FROM (\(parts.joined(separator: " UNION ALL "))) AS parts ORDER BY part"))
    return try rows.map { try $0.integer(0) }
  }

  private func entryTable(of table: StoredTable) -> StoredTable {
    StoredTable(
      name: "\(schema).\(table.name)",
      columns: [("place", .integer)] + table.columns.filter { table.key.contains($0.name) }, key: ["place"])
  }

  /// The assets whose rows have changed, as the session's shard has them.
  /// - Parameters:
  ///   - part: nil: all assets.
  ///   - limit: of a batch, unless it is one asset.
  func assets(in part: Part?, _ session: Session, by limit: AssetBatch, _ body: ([Asset]) throws -> Void) throws {
    guard let number = tables.firstIndex(where: { $0.name == "asset" }) else { return }
    var batch: [Asset] = []
    var byteCount: Int64 = 0
    let condition =
      part == nil ? "" : " WHERE hash IN (SELECT hash FROM \(schema).asset WHERE place > ?1 AND place <= ?2)"
    let rows = try StoreConnection.postgreSQL(session).statement(
      SQL("log.assets", "SELECT hash, bytes FROM asset\(condition) ORDER BY hash"))
    if let part {
      try rows.bind(1, part.after[number])
      try rows.bind(2, part.last[number])
    }
    try rows.forEach { row in
      batch.append(Asset(hash: row.blob(0), byteCount: row.int64(1)))
      byteCount += row.int64(1)
      if batch.count < limit.count, byteCount < limit.byteCount { return }
      try body(batch)
      (batch, byteCount) = ([], 0)
    }
    if !batch.isEmpty { try body(batch) }
  }

  /// Assets that are worked on together.
  struct AssetBatch {
    let count: Int
    let byteCount: Int64

    /// As many as a bucket copies in a few seconds.
    static let copied = AssetBatch(count: 50, byteCount: 64 << 20)
    /// As many as a store finds with one list.
    static let found = AssetBatch(count: 1000, byteCount: .max)
  }

  /// Brings rows that have changed to the target, and compares them. The target's transaction has older states of them.
  /// - Parameter there: the log of the shard at the target, which gets the entries.
  /// - Returns: the number of rows that were written.
  func carry(_ part: Part, from source: Session, into target: Session, _ there: MoveLog, _ copy: RowCopy) throws -> Int
  {
    var count = 0
    let (from, to) = (StoreConnection.postgreSQL(source), StoreConnection.postgreSQL(target))
    for (number, table) in tables.enumerated() where part.after[number] < part.last[number] {
      let bounds = (part.after[number], part.last[number])
      func bound(_ sql: SQL, _ connection: StoreConnection) throws -> StoreStatement {
        let statement = try connection.statement(sql)
        try statement.bind(1, bounds.0)
        try statement.bind(2, bounds.1)
        return statement
      }
      let keys = StoredTable.list(table.key)
      let (log, logThere) = (entryTable(of: table), there.entryTable(of: table))
      let logged = "place > ?1 AND place <= ?2"
      let entries = SQL(
        "log.read \(table.name)",
        "SELECT \(StoredTable.list(log.columns.map(\.name))) FROM \(log.name) WHERE \(logged) ORDER BY place")
      _ = try copy.run(logThere, bound(entries, from), into: to)
      func changed(_ log: StoredTable) -> String { "(\(keys)) IN (SELECT \(keys) FROM \(log.name) WHERE \(logged))" }
      try bound(SQL("log.clear \(table.name)", "DELETE FROM \(table.name) WHERE \(changed(logThere))"), to).run()
      func rows(_ log: StoredTable) -> SQL {
        let columns = StoredTable.list(table.columns.map(\.name))
        return SQL(
          "log.rows \(table.name)",
          "SELECT \(columns) FROM \(table.name) WHERE \(changed(log)) ORDER BY \(keys)")
      }
      let written = try copy.run(table, bound(rows(log), from), into: to)
      let stored = try copy.run(table, bound(rows(logThere), to))
      try copy.compare([written], of: "its cluster", with: [stored], in: "the other one")
      count += written.rowCount
    }
    return count
  }
}
