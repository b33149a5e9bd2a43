// Marks the file of a restored shard as older than its clients expect.

import Crypto
import Records
import SQLite

/// Devices have seen changes that a restored shard lacks. After the renewal, no token, change tag or number that they
/// received gets another meaning.
///
/// - Databases, zones and stores get other incarnations. A token from the lost time is refused, and does not skip later
///   changes.
/// - Sequences continue beyond all that were ever used. A change tag from the lost time belongs to no other record, so
///   a save with it gets a conflict and does not overwrite unseen changes. The same holds for the numbers of events and
///   conflicts.
/// - The epoch exceeds every one that a directory may know, so the restored shard is the current one.
/// - Stores of the shared database forward their transactions since a day before the backup again, because owners'
///   shards may have been copied before those arrived. Shards that have them recognize the repetition.
struct ShardRenewal {
  let shard: Int
  /// The beginning of the backup and the current time, in milliseconds since 1970.
  let startedAt: Int64
  let now: Int64

  /// How long before the backup a transaction may have been saved and yet be forwarded after it, in milliseconds.
  static let forwardingTime: Int64 = 86_400_000

  func run(at path: String) throws {
    do {
      let connection = try Connection(exclusive: path, mode: .readWrite)
      defer { connection.close() }
      let lines = try connection.statement(SQL("integrity_check", "PRAGMA integrity_check(1)")).all { $0.text(0) }
      guard lines == ["ok"] else {
        throw StoreError.corrupt("shard \(shard) of the backup is damaged: \(lines.first ?? "")")
      }
      try connection.transaction {
        for table in ["database", "zone", "mirror"] { try renew(table, connection) }
        try advance(connection)
        try forwardAgain(connection)
      }
    } catch let error as SQLiteError {
      throw StoreError(error, shard: shard)
    }
  }

  /// A number greater than all that may have been given out after `number` since the backup, and than those of an
  /// installation that was restored earlier from the same backup. It leaves room for a million a second, and is exact
  /// as a JavaScript number.
  func number(beyond number: Int64) -> Int64 { max(number + 1 << 20, now << 10) }

  private func renew(_ table: String, _ connection: Connection) throws {
    let rows = try connection.statement(SQL("\(table)Incarnations", "SELECT id, incarnation FROM \(table)")).all {
      ($0.int64(0), $0.int64(1))
    }
    let update = try connection.statement(SQL("renew \(table)", "UPDATE \(table) SET incarnation = ?2 WHERE id = ?1"))
    for (key, old) in rows {
      let fresh = Int64(bitPattern: SecureRandom.uint64())
      try update.binding(key, fresh).run()
      if table == "zone" { try moveJournal(from: old, to: fresh, connection) }
    }
  }

  /// Replaces the zone's incarnation in conflicts, whose checksum covers it.
  private func moveJournal(from old: Int64, to fresh: Int64, _ connection: Connection) throws {
    guard try hasJournal(connection) else { return }
    let select = try connection.statement(
      SQL(
        "journalOfZone",
        """
        SELECT id, database, zone, name, entity, kind, user, device, at, payload, sum FROM journal \
        WHERE incarnation = ?1
        """
      ))
    let entries = try select.binding(old).all { row -> (Int64, Int64)? in
      guard let name = row.recordName(3) else { return nil }
      func checksum(_ incarnation: Int64) -> Int64 {
        StoredConflict(
          databaseKey: row.int64(1), zoneName: row.text(2), zoneIncarnation: UInt64(bitPattern: incarnation),
          recordName: name, entity: row.text(4),
          kind: row.int(5), state: 0, userRecordName: row.text(6), deviceID: row.text(7), at: row.int64(8)
        ).checksum(row.blob(9))
      }
      // A damaged entry stays damaged.
      return checksum(old) == row.int64(10) ? (row.int64(0), checksum(fresh)) : nil
    }
    let update = try connection.statement(
      SQL("moveConflict", "UPDATE journal SET incarnation = ?2, sum = ?3 WHERE id = ?1"))
    for case .some((let number, let sum)) in entries { try update.binding(number, fresh, sum).run() }
  }

  /// False for files of formats before the journal.
  private func hasJournal(_ connection: Connection) throws -> Bool {
    try connection.statement(SQL("hasJournal", "SELECT count(*) FROM sqlite_master WHERE name = 'journal'")).first {
      $0.int(0)
    } == 1
  }

  private func advance(_ connection: Connection) throws {
    // Files of formats without these columns get the gap when they are upgraded.
    let knowsGap = try columns(of: "database", connection).contains("gapEnd")
    let gap =
      knowsGap ? ", gapStart = iif(gapEnd = 0, seq, gapStart), gapEnd = ?2 - iif(gapEnd = 0, 0, seq - gapEnd)" : ""
    let update = try connection.statement(SQL("advanceDatabase", "UPDATE database SET seq = ?2\(gap) WHERE id = ?1"))
    for (key, sequence) in try connection.statement(SQL("databaseSequences", "SELECT id, seq FROM database")).all({
      ($0.int64(0), $0.int64(1))
    }) {
      try update.binding(key, number(beyond: sequence)).run()
    }
    let epoch = try connection.statement(ShardQuery.meta).binding(MetaKey.epoch.rawValue).first { $0.int64(0) } ?? 0
    try connection.statement(ShardQuery.setMeta).binding(MetaKey.epoch.rawValue, max(epoch + 1, now)).run()
    let event = try connection.statement(ShardQuery.meta).binding(MetaKey.lastEvent.rawValue).first { $0.int64(0) } ?? 0
    try connection.statement(ShardQuery.setMeta).binding(MetaKey.lastEvent.rawValue, number(beyond: event)).run()
    try advanceNumbers(connection)
    guard try hasJournal(connection) else { return }
    let entry =
      try connection.statement(SQL("lastConflict", "SELECT max(seq) FROM sqlite_sequence WHERE name = 'journal'")).first
    { $0.int64(0) } ?? 0
    try connection.execute("DELETE FROM sqlite_sequence WHERE name = 'journal'")
    try connection.statement(SQL("advanceConflicts", "INSERT INTO sqlite_sequence(name, seq) VALUES ('journal', ?1)"))
      .binding(number(beyond: entry)).run()
  }

  /// Advances the numbers of each database. Files of earlier formats take them from the shard's when they are upgraded.
  private func advanceNumbers(_ connection: Connection) throws {
    guard try columns(of: "database", connection).contains("events") else { return }
    let update = try connection.statement(
      SQL("advanceNumbers", "UPDATE database SET events = ?2, conflicts = ?3 WHERE id = ?1"))
    let rows = try connection.statement(SQL("databaseNumbers", "SELECT id, events, conflicts FROM database")).all {
      ($0.int64(0), $0.int64(1), $0.int64(2))
    }
    for (key, events, conflicts) in rows {
      try update.binding(key, number(beyond: events), number(beyond: conflicts)).run()
    }
  }

  private func columns(of table: String, _ connection: Connection) throws -> [String] {
    try connection.statement(SQL("\(table)Columns", "SELECT name FROM pragma_table_info('\(table)')")).all {
      $0.text(0)
    }
  }

  private func forwardAgain(_ connection: Connection) throws {
    let homes = try connection.statement(
      SQL(
        "homes",
        // Other users' stores in a database are guests, whose transactions are written already.
        "SELECT m.id FROM mirror m JOIN database d ON d.id = m.database WHERE m.scope = 'shared' AND m.user = d.owner"
      )
    ).all { $0.int64(0) }
    // Also the case for files of formats before shared stores.
    if homes.isEmpty { return }
    let first = try connection.statement(
      SQL("firstForwarded", "SELECT min(id) FROM history WHERE mirror = ?1 AND appended >= ?2"))
    let update = try connection.statement(
      SQL("forwardAgain", "UPDATE mirror SET exported = ?2, slice = 0 WHERE id = ?1 AND exported > ?2"))
    for key in homes {
      guard let row = try first.binding(key, startedAt - Self.forwardingTime).first({ $0.optionalInt64(0) }) ?? nil
      else { continue }
      try update.binding(key, HistoryRowID.number(row) - 1).run()
    }
  }
}
