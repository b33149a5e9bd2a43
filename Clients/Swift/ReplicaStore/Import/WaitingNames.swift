// An index of the objects that the outbox names. It tells whether a save of an object waits without reading all rows.

import MirrorWire
import SQLite

/// An index of names in the writer's memory. Each row is read once, when somebody asks, so saves cost nothing more; it
/// goes with its row. Not Sendable: it lives within the writer's transaction.
struct WaitingNames {
  private let connection: Connection

  /// The least bytes of rows that are read within one commit: the app saves between them.
  private static let byteLimit = 256 * 1024

  init(_ connection: Connection) throws {
    self.connection = connection
    if try connection.statement(Self.exists).first({ _ in true }) == nil { try connection.execute(Self.create) }
  }

  /// Reads rows that nobody has read yet.
  /// - Returns: true: there may be more.
  func readNext() throws -> Bool {
    var rows: [(key: Int64, body: [UInt8])] = []
    var byteCount = 0
    let statement = try connection.statement(Self.unread)
    defer { statement.reset() }
    while byteCount < Self.byteLimit, try statement.step() {
      rows.append((statement.int64(0), statement.blob(1)))
      byteCount += rows.last?.body.count ?? 0
    }
    statement.reset()
    for row in rows {
      guard let transaction = try? Transaction(json: row.body) else {
        throw StoreError.damaged("a transaction of the outbox can't be read")
      }
      for change in transaction.changes {
        try add(change.objectID, row.key)
        for case .toManyEdits(let added, let removed) in (change.relationships ?? [:]).values {
          for target in added + removed { try add(target, row.key) }
        }
      }
      try connection.statement(Self.note).binding(row.key).run()
    }
    return byteCount >= Self.byteLimit
  }

  /// True if a row that was read names the object.
  func contains(_ name: String) throws -> Bool {
    let statement = try connection.statement(Self.find)
    try RecordName.bind(name, to: statement, at: 1)
    return try statement.first { _ in true } != nil
  }

  private func add(_ name: String, _ key: Int64) throws {
    let statement = try connection.statement(Self.insert)
    try RecordName.bind(name, to: statement, at: 1)
    try statement.bind(2, key)
    try statement.run()
  }

  private static let exists = SQL("has names", "SELECT 1 FROM sqlite_temp_master WHERE name = 'waitingName'")
  /// A key of the outbox comes again when its last row is refused.
  private static let create = """
    CREATE TEMP TABLE waitingName(name BLOB NOT NULL, key INTEGER NOT NULL, PRIMARY KEY(name, key)) WITHOUT ROWID;
    CREATE INDEX temp.waitingName_key ON waitingName(key);
    CREATE TEMP TABLE readRow(key INTEGER PRIMARY KEY);
    CREATE TEMP TRIGGER forgetNames AFTER DELETE ON main.outbox BEGIN
      DELETE FROM waitingName WHERE key = old.key;
      DELETE FROM readRow WHERE key = old.key;
    END;
    """
  private static let unread = SQL(
    "unread rows",
    "SELECT key, body FROM outbox o WHERE NOT EXISTS (SELECT 1 FROM readRow r WHERE r.key = o.key) ORDER BY key")
  private static let insert = SQL("waiting name", "INSERT OR IGNORE INTO waitingName(name, key) VALUES (?, ?)")
  private static let find = SQL("find waiting name", "SELECT 1 FROM waitingName WHERE name = ? LIMIT 1")
  private static let note = SQL("row is read", "INSERT INTO readRow(key) VALUES (?)")
}
