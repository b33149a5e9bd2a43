// Marks a restored shard as older than its clients expect.

import Crypto
import PostgreSQL
import Records
import SQLite

/// Devices have seen changes that a restored shard lacks. After the renewal, no token, change tag or number that they
/// received gets another meaning.
///
/// - Databases, zones and stores get other incarnations. A token from the lost time is refused, and does not skip later
///   changes.
/// - Sequences continue beyond all that were ever used. A change tag from the lost time belongs to no other record, so
///   a save with it gets a conflict and does not overwrite unseen changes. The same holds for the numbers of events and
///   conflicts, and for databases that the shard has lost and makes again.
/// - The epoch exceeds every one that a directory may know, so the restored shard is the current one.
/// - Stores of the shared database forward their transactions since a day before the backup again, because owners'
///   shards may have been copied before those arrived. Shards that have them recognize the repetition.
struct ShardRenewal {
  let shard: Int
  /// The beginning of the backup and the current time, in milliseconds since 1970. With shards from several backups it
  /// is the earliest beginning. It is nil when nobody knows it: the latest transaction of the shard tells it then.
  let startedAt: Int64?
  let now: Int64

  /// How long before the backup a transaction may have been saved and yet be forwarded after it, in milliseconds.
  static let forwardingTime: Int64 = 86_400_000

  /// True for the epoch of a shard that was renewed since it had another one: openings raise it by one, renewals to the
  /// time in milliseconds.
  static func isRenewed(_ epoch: Int64, since known: Int64) -> Bool { epoch - known > 60_000 }

  /// Renews a shard in a file, and forgets a division whose last step was not yet taken at the time of the copy: nobody
  /// takes it in a file.
  /// - Returns: the new shard of that division.
  @discardableResult func run(at path: String) throws -> Int? {
    do {
      let connection = try Connection(exclusive: path, mode: .readWrite)
      defer { connection.close() }
      return try connection.transaction {
        try run(in: .sqlite(connection))
        return try RenewedRows(.sqlite(connection)).forgetSplit()
      }
    } catch let error as SQLiteError {
      throw StoreError(error, shard: shard)
    }
  }

  /// Renews a shard within a transaction that the caller has begun. A file is checked first, because it is a copy.
  func run(in connection: StoreConnection) throws {
    if case .sqlite(let file) = connection {
      let lines = try file.statement(SQL("integrity_check", "PRAGMA integrity_check(1)")).all { $0.text(0) }
      guard lines == ["ok"] else { throw StoreError.corrupt("shard \(shard) is damaged: \(lines.first ?? "")") }
    }
    let rows = try RenewedRows(connection)
    for table in ["database", "mirror"] { _ = try renew(table, rows) }
    try moveJournal(try renew("zone", rows), rows)
    try advance(rows)
    try forwardAgain(rows)
  }

  /// A number greater than all that may have been given out after `number` since the backup, and than those of an
  /// installation that was restored earlier from the same backup. It leaves room for a million a second, and is exact
  /// as a JavaScript number.
  func number(beyond number: Int64) -> Int64 { max(number + 1 << 20, now << 10) }

  /// - Returns: the fresh incarnation of each row, by its earlier one.
  private func renew(_ table: String, _ rows: RenewedRows) throws -> [Int64: Int64] {
    let keys = try rows.all("\(table)Incarnations", "SELECT id, incarnation FROM \(table)") {
      ($0.int64(0), $0.int64(1))
    }
    var renewed: [Int64: Int64] = [:]
    for (key, old) in keys {
      let fresh = Int64(bitPattern: SecureRandom.uint64())
      try rows.run("renew \(table)", "UPDATE \(table) SET incarnation = ?2 WHERE id = ?1", key, fresh)
      renewed[old] = fresh
    }
    return renewed
  }

  /// The entries of the journal that are in memory together.
  private static let journalPageLength: Int64 = 200

  /// Replaces the zones' incarnations in conflicts, whose checksums cover them.
  private func moveJournal(_ renewed: [Int64: Int64], _ rows: RenewedRows) throws {
    guard rows.hasJournal else { return }
    let text = """
      SELECT id, database, zone, name, entity, kind, "user", device, at, payload, sum, incarnation FROM journal \
      WHERE id > ?1 ORDER BY id LIMIT ?2
      """
    var last = Int64.min
    while true {
      let page = try rows.all("journalPage", text, last, Self.journalPageLength) { row in
        (number: row.int64(0), moved: Self.moved(row, renewed))
      }
      guard let end = page.last?.number else { return }
      for case (let number, let moved?) in page {
        try rows.run(
          "moveConflict", "UPDATE journal SET incarnation = ?2, sum = ?3 WHERE id = ?1", number, moved.incarnation,
          moved.sum)
      }
      last = end
    }
  }

  /// The fresh incarnation and checksum of a conflict; nil for one whose zone is gone. A damaged one stays damaged.
  private static func moved(_ row: StoreStatement, _ renewed: [Int64: Int64]) -> (incarnation: Int64, sum: Int64)? {
    guard let name = row.recordName(3), let fresh = renewed[row.int64(11)] else { return nil }
    func checksum(_ incarnation: Int64) -> Int64 {
      StoredConflict(
        databaseKey: row.int64(1), zoneName: row.text(2), zoneIncarnation: UInt64(bitPattern: incarnation),
        recordName: name, entity: row.text(4),
        kind: row.int(5), state: 0, userRecordName: row.text(6), deviceID: row.text(7), at: row.int64(8)
      ).checksum(row.blob(9))
    }
    return checksum(row.int64(11)) == row.int64(10) ? (fresh, checksum(fresh)) : nil
  }

  private func advance(_ rows: RenewedRows) throws {
    // Files of formats without these columns get the gap when they are upgraded.
    let gap =
      try rows.columns(of: "database").contains("gapend")
      ? """
      , gapStart = CASE WHEN gapEnd = 0 THEN seq ELSE gapStart END, \
      gapEnd = ?2 - CASE WHEN gapEnd = 0 THEN 0 ELSE seq - gapEnd END
      """ : ""
    let sequences = try rows.all("databaseSequences", "SELECT id, seq FROM database") { ($0.int64(0), $0.int64(1)) }
    for (key, sequence) in sequences {
      try rows.run(
        "advanceDatabase", "UPDATE database SET seq = ?2\(gap) WHERE id = ?1", key, number(beyond: sequence))
    }
    if rows.connection.dialect == .postgreSQL { try rows.setMeta(.arrival, 0) }
    try rows.setMeta(.firstNumber, number(beyond: try rows.meta(.firstNumber)))
    try rows.raiseEpoch(to: now)
    try rows.setMeta(.lastEvent, number(beyond: try rows.meta(.lastEvent)))
    try advanceNumbers(rows)
    if rows.hasJournal { try rows.setLastConflict(number(beyond: try rows.lastConflict())) }
  }

  /// Advances the numbers of each database. Files of earlier formats take them from the shard's when they are upgraded.
  private func advanceNumbers(_ rows: RenewedRows) throws {
    guard try rows.columns(of: "database").contains("events") else { return }
    let numbers = try rows.all("databaseNumbers", "SELECT id, events, conflicts FROM database") {
      ($0.int64(0), $0.int64(1), $0.int64(2))
    }
    for (key, events, conflicts) in numbers {
      try rows.run(
        "advanceNumbers", "UPDATE database SET events = ?2, conflicts = ?3 WHERE id = ?1", key, number(beyond: events),
        number(beyond: conflicts))
    }
  }

  private func forwardAgain(_ rows: RenewedRows) throws {
    // Other users' stores in a database are guests, whose transactions are written already.
    let text = """
      SELECT m.id FROM mirror m JOIN database d ON d.id = m.database WHERE m.scope = 'shared' AND m."user" = d.owner
      """
    let homes = try rows.all("homes", text) { $0.int64(0) }
    // Also the case for files of formats before shared stores.
    if homes.isEmpty { return }
    let latest = try rows.all("latestTransaction", "SELECT max(appended) FROM history") { $0.int64(0) }
    let since = (startedAt ?? latest.first ?? 0) - Self.forwardingTime
    for key in homes {
      let first = try rows.all(
        "firstForwarded", "SELECT min(id) FROM history WHERE mirror = ?1 AND appended >= ?2", key, since
      ) { $0.optionalInt64(0) }
      guard let row = first.first ?? nil else { continue }
      try rows.run(
        "forwardAgain", "UPDATE mirror SET exported = ?2, slice = 0 WHERE id = ?1 AND exported > ?2", key,
        HistoryRowID.number(row) - 1)
    }
  }
}

/// The rows of a shard that is renewed, in either engine.
private struct RenewedRows {
  let connection: StoreConnection
  /// False for files of formats before the journal.
  private(set) var hasJournal = false

  init(_ connection: StoreConnection) throws {
    self.connection = connection
    hasJournal = try !columns(of: "journal").isEmpty
  }

  func all<Value>(
    _ name: String, _ text: String, _ values: Int64..., transform: (StoreStatement) throws -> Value
  ) throws -> [Value] { try statement(name, text, values).all(transform) }

  func run(_ name: String, _ text: String, _ values: Int64...) throws { try statement(name, text, values).run() }

  private func statement(_ name: String, _ text: String, _ values: [Int64]) throws -> StoreStatement {
    let statement = try connection.statement(SQL(name, text))
    for (index, value) in values.enumerated() { try statement.bind(Int32(index) + 1, value) }
    return statement
  }

  /// In lower case; empty for a table that is not there.
  func columns(of table: String) throws -> [String] {
    let text =
      switch connection.dialect {
      case .sqlite: "SELECT name FROM pragma_table_info('\(table)')"
      case .postgreSQL:
        """
        SELECT column_name::text FROM information_schema.columns \
        WHERE table_schema = current_schema() AND table_name = '\(table)'
        """
      }
    return try all("\(table)Columns", text) { $0.text(0).lowercased() }
  }

  func meta(_ key: MetaKey) throws -> Int64 {
    let statement = try connection.statement(ShardQuery.meta, nil)
    try statement.bind(1, key.rawValue)
    return try statement.first { $0.int64(0) } ?? 0
  }

  func setMeta(_ key: MetaKey, _ value: Int64) throws {
    let statement = try connection.statement(ShardQuery.setMeta, nil)
    try statement.bind(1, key.rawValue)
    try statement.bind(2, value)
    try statement.run()
  }

  /// Forgets that a division waits for its last step.
  /// - Returns: its new shard; nil if none waits.
  func forgetSplit() throws -> Int? {
    let shard = try meta(.split) == 0 ? nil : Int(try meta(.splitShard))
    for key in [MetaKey.split, .splitShard, .splitCluster] {
      let forget = try connection.statement(CutQuery.mark, nil)
      try forget.bind(1, key.rawValue)
      try forget.run()
    }
    return shard
  }

  /// To a number above all earlier ones.
  func raiseEpoch(to number: Int64) throws {
    switch connection.dialect {
    case .sqlite: try setMeta(.epoch, max(try meta(.epoch) + 1, number))
    case .postgreSQL: try run("raiseEpoch", "UPDATE tenure SET epoch = greatest(epoch + 1, ?1)", number)
    }
  }

  /// The last key that a conflict got; 0 when there was none.
  func lastConflict() throws -> Int64 {
    let text =
      switch connection.dialect {
      case .sqlite: "SELECT max(seq) FROM sqlite_sequence WHERE name = 'journal'"
      case .postgreSQL: "SELECT last_value FROM journal_id_seq"
      }
    return try all("lastConflict", text) { $0.int64(0) }.first ?? 0
  }

  func setLastConflict(_ number: Int64) throws {
    switch connection.dialect {
    case .sqlite:
      try run("forgetLastConflict", "DELETE FROM sqlite_sequence WHERE name = 'journal'")
      try run("advanceConflicts", "INSERT INTO sqlite_sequence(name, seq) VALUES ('journal', ?1)", number)
    case .postgreSQL: try run("advanceConflicts", "SELECT setval('journal_id_seq', ?1)", number)
    }
  }
}
