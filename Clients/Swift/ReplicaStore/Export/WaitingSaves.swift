// An index of what waiting saves name. It tells whether one names an object or a content without reading all rows.

import MirrorWire
import SQLite

/// An index in the writer's memory: the objects that the outbox names, and the contents that the outbox and rejected
/// saves name. Triggers note each row that comes, changes or goes, so no commit has to think of the index. A row is
/// read once, when somebody asks. Not Sendable: it lives within the writer's transaction.
struct WaitingSaves {
  private let connection: Connection

  /// The least bytes of rows that are read within one commit: the app saves between them.
  private static let byteLimit = 256 * 1024

  init(_ connection: Connection) throws {
    self.connection = connection
    if try connection.statement(Self.exists).first({ _ in true }) == nil { try connection.execute(Self.create) }
  }

  // MARK: Reading

  /// Reads rows that nobody has read yet.
  /// - Returns: true: there may be more.
  func readNext() throws -> Bool {
    var byteCount = 0
    while byteCount < Self.byteLimit {
      let unread = try connection.statement(Self.unread).first { row in
        (number: row.int64(0), waiting: row.optionalBlob(1), rejected: row.optionalBlob(2))
      }
      guard let unread else { return false }
      if let body = unread.waiting { try addNames(in: body, unread.number) }
      for body in [unread.waiting, unread.rejected].compactMap(\.self) {
        byteCount += body.count
        for name in try Outbox.contents(of: body) {
          try connection.statement(Self.addContent).binding(name.checksum, unread.number).run()
        }
      }
      try connection.statement(Self.note).binding(unread.number).run()
    }
    return true
  }

  /// Reads all rows within this commit.
  func readAll() throws { while try readNext() {} }

  private func addNames(in body: [UInt8], _ number: Int64) throws {
    guard let transaction = try? Transaction(json: body) else {
      throw StoreError.damaged("a transaction of the outbox can't be read")
    }
    for change in transaction.changes {
      try addName(change.objectID, number)
      for case .toManyEdits(let added, let removed) in (change.relationships ?? [:]).values {
        for target in added + removed { try addName(target, number) }
      }
    }
  }

  private func addName(_ name: String, _ number: Int64) throws {
    let statement = try connection.statement(Self.addName)
    try RecordName.bind(name, to: statement, at: 1)
    try statement.bind(2, number)
    try statement.run()
  }

  // MARK: Questions

  /// True if a row of the outbox that was read names the object.
  func namesObject(_ name: String) throws -> Bool {
    let statement = try connection.statement(Self.findName)
    try RecordName.bind(name, to: statement, at: 1)
    return try statement.first { _ in true } != nil
  }

  /// Notes that the server has contents, as far as no save that waits or may be sent again names them: the server may
  /// lose its own before that.
  static func noteAtServer(_ checksums: [String], _ connection: Connection) throws {
    if checksums.isEmpty { return }
    let waiting = try WaitingSaves(connection)
    try waiting.readAll()
    for checksum in checksums
    where try connection.statement(findContent).binding(checksum).first({ _ in true }) == nil {
      try connection.statement(atServer).binding(checksum).run()
    }
  }

  // MARK: Statements

  private static let exists = SQL(
    "has waiting saves", "SELECT 1 FROM sqlite_temp_master WHERE name = 'waitingRow'")
  private static let create = """
    CREATE TEMP TABLE waitingRow(number INTEGER PRIMARY KEY, key INTEGER UNIQUE, identifier TEXT UNIQUE,
      isRead INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX temp.unreadRow ON waitingRow(number) WHERE isRead = 0;
    CREATE TEMP TABLE waitingWord(word NOT NULL, isContent INTEGER NOT NULL, number INTEGER NOT NULL,
      PRIMARY KEY(word, isContent, number)) WITHOUT ROWID;
    CREATE INDEX temp.waitingWord_number ON waitingWord(number);
    CREATE TEMP TRIGGER forgetWords AFTER DELETE ON waitingRow BEGIN
      DELETE FROM waitingWord WHERE number = old.number;
    END;
    \(follow("outbox", "key"))
    \(follow("rejected", "identifier"))
    """

  /// A row that replaces another comes, and nobody tells that the other goes.
  private static func follow(_ table: String, _ key: String) -> String {
    """
    INSERT INTO waitingRow(\(key)) SELECT \(key) FROM main.\(table) ORDER BY \(key);
    CREATE TEMP TRIGGER \(table)Added AFTER INSERT ON main.\(table) BEGIN
      DELETE FROM waitingRow WHERE \(key) = new.\(key);
      INSERT INTO waitingRow(\(key)) VALUES (new.\(key));
    END;
    CREATE TEMP TRIGGER \(table)Changed AFTER UPDATE OF body ON main.\(table) BEGIN
      DELETE FROM waitingRow WHERE \(key) = old.\(key);
      INSERT INTO waitingRow(\(key)) VALUES (new.\(key));
    END;
    CREATE TEMP TRIGGER \(table)Removed AFTER DELETE ON main.\(table) BEGIN
      DELETE FROM waitingRow WHERE \(key) = old.\(key);
    END;
    """
  }

  private static let unread = SQL(
    "unread row",
    "SELECT w.number, o.body, r.body FROM waitingRow AS w INDEXED BY unreadRow LEFT JOIN outbox o ON o.key = w.key "
      + "LEFT JOIN rejected r ON r.identifier = w.identifier WHERE w.isRead = 0 ORDER BY w.number LIMIT 1")
  private static let note = SQL("row is read", "UPDATE waitingRow SET isRead = 1 WHERE number = ?")
  private static let addName = SQL(
    "waiting name", "INSERT OR IGNORE INTO waitingWord(word, isContent, number) VALUES (?, 0, ?)")
  private static let addContent = SQL(
    "waiting content", "INSERT OR IGNORE INTO waitingWord(word, isContent, number) VALUES (?, 1, ?)")
  /// For a select over objects `o`.
  static let isNamed = "EXISTS (SELECT 1 FROM waitingWord w WHERE w.word = o.name AND w.isContent = 0)"
  private static let findName = SQL(
    "find waiting name", "SELECT 1 FROM waitingWord WHERE word = ? AND isContent = 0 LIMIT 1")
  private static let findContent = SQL(
    "find waiting content", "SELECT 1 FROM waitingWord WHERE word = ? AND isContent = 1 LIMIT 1")
  private static let atServer = SQL("content is at server", "UPDATE content SET isAtServer = 1 WHERE checksum = ?")
}
