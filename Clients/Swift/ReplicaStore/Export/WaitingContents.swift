// An index of the contents that waiting saves name. It tells whether the server may lack one without reading all rows.

import MirrorWire
import SQLite

/// An index of checksums in the writer's memory. Each row of the outbox is read once, when somebody asks; it goes with
/// its row. Few transactions are rejected, so those are read each time. Not Sendable: it lives within the writer's
/// transaction.
struct WaitingContents {
  private let connection: Connection
  /// Of rejected saves, which may be sent again.
  private let rejected: Set<String>

  init(_ connection: Connection) throws {
    self.connection = connection
    if try connection.statement(Self.exists).first({ _ in true }) == nil { try connection.execute(Self.create) }
    // Body by body, because all of them may be large.
    for key in try connection.statement(Self.unread).all({ $0.int64(0) }) {
      guard let body = try connection.statement(Self.body).binding(key).first({ $0.blob(0) }) else { continue }
      for name in try Outbox.contents(of: body) {
        try connection.statement(Self.insert).binding(name.checksum, key).run()
      }
      try connection.statement(Self.note).binding(key).run()
    }
    let bodies = try connection.statement(Self.rejectedBodies).all { $0.blob(0) }
    rejected = Set(try bodies.flatMap { try Outbox.contents(of: $0).map(\.checksum) })
  }

  /// True if a save of the outbox, or a rejected one, names the content.
  func contains(_ checksum: String) throws -> Bool {
    if rejected.contains(checksum) { return true }
    return try connection.statement(Self.find).binding(checksum).first { _ in true } != nil
  }

  /// Notes that the server has contents, as far as nothing that waits names them: it may lose its own before that is
  /// sent.
  static func noteAtServer(_ checksums: [String], _ connection: Connection) throws {
    if checksums.isEmpty { return }
    let waiting = try WaitingContents(connection)
    for checksum in checksums where try !waiting.contains(checksum) {
      try connection.statement(atServer).binding(checksum).run()
    }
  }

  private static let exists = SQL(
    "has contents", "SELECT 1 FROM sqlite_temp_master WHERE name = 'waitingContent'")
  /// A key of the outbox comes again when its last row is refused.
  private static let create = """
    CREATE TEMP TABLE waitingContent(checksum TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY(checksum, key))
      WITHOUT ROWID;
    CREATE INDEX temp.waitingContent_key ON waitingContent(key);
    CREATE TEMP TABLE readForContents(key INTEGER PRIMARY KEY);
    CREATE TEMP TRIGGER forgetContents AFTER DELETE ON main.outbox BEGIN
      DELETE FROM waitingContent WHERE key = old.key;
      DELETE FROM readForContents WHERE key = old.key;
    END;
    """
  private static let unread = SQL(
    "rows unread for contents",
    "SELECT key FROM outbox o WHERE NOT EXISTS (SELECT 1 FROM readForContents r WHERE r.key = o.key) ORDER BY key")
  private static let body = SQL("body with contents", "SELECT body FROM outbox WHERE key = ?")
  private static let insert = SQL(
    "waiting content", "INSERT OR IGNORE INTO waitingContent(checksum, key) VALUES (?, ?)")
  private static let note = SQL("row is read for contents", "INSERT INTO readForContents(key) VALUES (?)")
  private static let find = SQL("find waiting content", "SELECT 1 FROM waitingContent WHERE checksum = ? LIMIT 1")
  private static let rejectedBodies = SQL("rejected bodies", "SELECT body FROM rejected")
  private static let atServer = SQL("content is at server", "UPDATE content SET isAtServer = 1 WHERE checksum = ?")
}
