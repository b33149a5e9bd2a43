// Brings the tables that do not depend on the model to the present format, in the transaction that opens the file.

import SQLite

struct FormatUpgrade {
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  func run(from format: Int64) throws {
    guard format < Tables.format else { return }
    if format < 2 { try connection.execute(Self.toFormat2) }
    if format < 3 {
      try packHistory()
      try connection.execute(Self.toFormat3)
    }
    if format < 4 { try connection.execute(Self.toFormat4) }
    if format < 5 { try connection.execute(Self.toFormat5) }
    if format < 6 { try connection.execute(Self.toFormat6) }
    try Meta(connection).set("format", Tables.format)
  }

  /// Format 2 had a row a transaction and a row a change; a change's number had its transaction's in the upper bits.
  private func packHistory() throws {
    try connection.execute(Tables.history)
    let (changesOfOne, pack) = (try connection.prepare(Self.changes), try connection.prepare(Self.pack))
    try connection.prepare(Self.numbers).forEach { row in
      var changes = PackedChanges()
      let number = row.int64(0)
      try changesOfOne.binding(number << 20, (number + 1) << 20).forEach { row in
        guard let kind = HistoryChange.Kind(rawValue: row.int(1)) else {
          throw StoreError.damaged("a change of the history has an unknown kind")
        }
        changes.append(
          PackedChanges.Change(
            object: row.int64(0), kind: kind, properties: Self.properties(row.blob(2)), tombstone: row.blob(3)))
      }
      try pack.binding(number, changes.bytes).run()
    }
  }

  /// Two bytes each.
  private static func properties(_ bytes: [UInt8]) -> [Int64] {
    stride(from: 0, to: bytes.count - 1, by: 2).map { Int64(bytes[$0]) << 8 | Int64(bytes[$0 + 1]) }
  }

  private static let toFormat2 = """
    ALTER TABLE outbox ADD COLUMN savedCount INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE outbox ADD COLUMN deletedCount INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE exported(key INTEGER PRIMARY KEY, number INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
      savedCount INTEGER NOT NULL, deletedCount INTEGER NOT NULL, at INTEGER NOT NULL, byteCount INTEGER NOT NULL);
    """

  /// Tables and indexes that cost each save a page are gone.
  private static let toFormat3 = """
    DROP TABLE hchange;
    DROP TABLE htransaction;
    DROP INDEX pending_number;
    ALTER TABLE outbox RENAME TO outbox2;
    ALTER TABLE exported RENAME TO exported2;
    \(Tables.outbox)
    INSERT INTO outbox(key, number, batch, batchLimit, savedCount, deletedCount, body)
      SELECT key, number, batch, batchLimit, savedCount, deletedCount, body FROM outbox2;
    INSERT INTO exported(key, number, savedCount, deletedCount, at, byteCount, body)
      SELECT key, number, savedCount, deletedCount, at, byteCount, body FROM exported2;
    DROP TABLE outbox2;
    DROP TABLE exported2;
    """

  /// Decisions about rejected transactions were not kept: all that are there had one.
  private static let toFormat4 = """
    ALTER TABLE rejected ADD COLUMN isDecided INTEGER NOT NULL DEFAULT 0;
    UPDATE rejected SET isDecided = 1;
    """

  /// Property -2 marked the objects that wait to be sent again.
  private static let toFormat5 = """
    \(Tables.sentAgain)
    INSERT INTO sentAgain SELECT object, number FROM pending WHERE property = -2;
    DELETE FROM pending WHERE property = -2;
    """

  /// Of the saves that told one property the last had the only mark, and marks alone told a kept save from an undone
  /// one. Objects that are sent again have the number of the save before them, so only their own row is kept for them.
  private static let toFormat6 = """
    ALTER TABLE pending RENAME TO pending5;
    \(Tables.pending)
    INSERT INTO pending(object, property, target, number) SELECT object, property, target, number FROM pending5;
    DROP TABLE pending5;
    UPDATE rejected SET isDecided = 2 WHERE isDecided = 1 AND (EXISTS (SELECT 1 FROM pending WHERE number =
      -rejected.number) OR json_extract(CAST(body AS TEXT), '$.author') = '\(MirroringAuthor.reupload)'
      AND EXISTS (SELECT 1 FROM sentAgain s WHERE s.number = -rejected.number));
    """

  private static let numbers = SQL("transactions of format 2", "SELECT number FROM htransaction ORDER BY number")
  private static let changes = SQL(
    "changes of format 2",
    "SELECT object, kind, properties, tombstone FROM hchange WHERE id >= ? AND id < ? ORDER BY id")
  private static let pack = SQL(
    "pack a transaction",
    """
    INSERT INTO history SELECT number, timestamp, author, contextName, bundleID, processID, ?2 FROM htransaction \
    WHERE number = ?1
    """)
}
