// Saves that the server acknowledged, kept for a while: a server that is restored from a backup has lost the latest.

import SQLite

struct ExportedSaves {
  private let writer: Writer
  private var connection: Connection { writer.connection }

  /// Milliseconds; a backup that is older is nobody's latest.
  private static let lifetime: Int64 = 30 * 24 * 3600 * 1000
  private static let byteLimit: Int64 = 64 << 20

  init(_ writer: Writer) { self.writer = writer }

  /// Copies rows of the outbox, and forgets what is too old or more than the limit. `byteCount` is the sum of all rows
  /// so far, so that nothing has to be added up.
  func keep(_ rows: ClosedRange<Int64>) throws {
    let total = try connection.statement(Self.total).first { $0.int64(0) } ?? 0
    try connection.statement(Self.copy).binding(rows.lowerBound, rows.upperBound, writer.now, total).run()
    try connection.statement(Self.forget).binding(writer.now - Self.lifetime, Self.byteLimit).run()
  }

  /// Puts all of them before what waits in the outbox, under their own identifiers: the server answers those that it
  /// still has and stores nothing twice. No save names a position any more, because the server refuses those of its
  /// former life.
  func sendAgain() throws {
    for sql in [Self.requeue, Self.clear, Self.unmark] { try connection.statement(sql).run() }
  }

  private static let total = SQL("exported bytes", "SELECT byteCount FROM exported ORDER BY key DESC LIMIT 1")
  private static let copy = SQL(
    "keep exported",
    """
    INSERT OR REPLACE INTO exported(key, number, part, body, savedCount, deletedCount, at, byteCount) \
    SELECT key, number, part, body, savedCount, deletedCount, ?3, ?4 + sum(length(body)) OVER (ORDER BY key) \
    FROM outbox WHERE key BETWEEN ?1 AND ?2
    """
  )
  private static let forget = SQL(
    "forget exported",
    "DELETE FROM exported WHERE key < (SELECT key FROM exported WHERE at >= ?1 AND byteCount > "
      + "(SELECT byteCount FROM exported ORDER BY key DESC LIMIT 1) - ?2 ORDER BY key LIMIT 1)")
  private static let requeue = SQL(
    "requeue exported",
    "INSERT INTO outbox(key, number, part, body, savedCount, deletedCount) "
      + "SELECT key, number, part, body, savedCount, deletedCount FROM exported WHERE true "
      + "ON CONFLICT DO NOTHING")
  private static let clear = SQL("clear exported", "DELETE FROM exported")
  private static let unmark = SQL(
    "forget positions",
    "UPDATE outbox SET batch = NULL, batchLimit = NULL, "
      + "body = CAST(json_remove(CAST(body AS TEXT), '$.importToken') AS BLOB)")
}
