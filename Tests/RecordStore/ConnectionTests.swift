import CSQLite
import RecordStore
import SQLite
import Testing

/// The wrapper's own guarantees; the stores' tests cover everything else about SQLite.
struct ConnectionTests {
  static let makeNote = SQL("makeNote", "INSERT INTO note(key, text, number, bytes) VALUES (?1, ?2, ?3, ?4)")
  static let countNotes = SQL("countNotes", "SELECT count(*) FROM note")

  func connection() throws -> Connection {
    let connection = try Connection(path: ":memory:", mode: .readWrite)
    try connection.execute("CREATE TABLE note(key INTEGER PRIMARY KEY, text TEXT, number REAL, bytes BLOB)")
    return connection
  }

  func count(_ connection: Connection) throws -> Int64? {
    try connection.statement(Self.countNotes).first { $0.int64(0) }
  }

  @Test func `values come back as they were bound, the empty ones and null included`() throws {
    let connection = try connection()
    let insert = try connection.statement(Self.makeNote)
    try insert.binding(1, "a\u{0}é", 0.5, [UInt8]([0, 255])).run()
    try insert.binding(2, "", Optional<Double>.none, [UInt8]()).run()
    try insert.binding(3, Optional<String>.none, Double?.some(-1), Optional<[UInt8]>.none).run()
    let rows = try connection.statement(SQL("all", "SELECT text, number, bytes FROM note ORDER BY key")).all {
      ($0.optionalText(0), $0.optionalDouble(1), $0.optionalBlob(2))
    }
    #expect(rows.map(\.0) == ["a\u{0}é", "", nil])
    #expect(rows.map(\.1) == [0.5, nil, -1])
    #expect(rows.map(\.2) == [[0, 255], [], nil])
    #expect(connection.lastInsertRowID == 3)
  }

  @Test func `an error names the statement and the extended code, never the value`() throws {
    let connection = try connection()
    let insert = try connection.statement(Self.makeNote)
    try insert.binding(7, "secret", 0.0, [UInt8]()).run()
    let error = #expect(throws: SQLiteError.self) { try insert.run() }
    #expect(error?.statement == "makeNote")
    #expect(error?.code == 1555)
    #expect(error?.isUniqueViolation == true)
    #expect(error.map { "\($0)".contains("secret") || "\($0)".contains("7 ") } == false)
    try insert.bind(1, 8)
    try insert.run()
    #expect(try count(connection) == 2)
  }

  @Test func `a transaction that throws leaves nothing, one that returns stays`() throws {
    struct Stop: Error {}
    let connection = try connection()
    let insert = try connection.statement(Self.makeNote)
    #expect(throws: Stop.self) {
      try connection.transaction {
        try insert.binding(1, "a", 0.0, [UInt8]()).run()
        throw Stop()
      }
    }
    #expect(try count(connection) == 0)
    #expect(!connection.isInTransaction)
    let value = try connection.transaction {
      try insert.binding(1, "a", 0.0, [UInt8]()).run()
      return 5
    }
    #expect(value == 5)
    #expect(try count(connection) == 1)
  }

  @Test func `a savepoint undoes its own writes and no others, also when nested`() throws {
    struct Stop: Error {}
    let connection = try connection()
    let insert = try connection.statement(Self.makeNote)
    func put(_ key: Int64) throws { try insert.binding(key, "", 0.0, [UInt8]()).run() }
    try connection.transaction {
      try put(1)
      #expect(throws: Stop.self) {
        try connection.savepoint {
          try put(2)
          try connection.savepoint { try put(3) }
          throw Stop()
        }
      }
      try connection.savepoint {
        try put(4)
        #expect(throws: Stop.self) {
          try connection.savepoint {
            try put(5)
            throw Stop()
          }
        }
      }
    }
    let keys = try connection.statement(SQL("keys", "SELECT key FROM note ORDER BY key")).all { $0.int64(0) }
    #expect(keys == [1, 4])
  }

  @Test func `a read-only connection can't write, and a missing file is an error`() throws {
    #expect(throws: SQLiteError.self) { try Connection(exclusive: "/nonexistent/folder/file", mode: .readWrite) }
    let folder = try TemporaryFolder()
    #expect(throws: SQLiteError.self) { try Connection(exclusive: folder.path + "/none", mode: .readOnly) }
    let writer = try Connection(exclusive: folder.path + "/a", mode: .readWrite)
    try writer.execute("PRAGMA journal_mode=WAL; CREATE TABLE note(key INTEGER PRIMARY KEY)")
    let reader = try Connection(exclusive: folder.path + "/a", mode: .readOnly)
    let error = #expect(throws: SQLiteError.self) { try reader.execute("INSERT INTO note VALUES (1)") }
    #expect(error?.primaryCode == SQLITE_READONLY)
    reader.close()
    writer.close()
  }

  @Test func `the log grows with commits and a truncating checkpoint empties it`() throws {
    let folder = try TemporaryFolder()
    let connection = try Connection(exclusive: folder.path + "/a", mode: .readWrite)
    try connection.execute("PRAGMA journal_mode=WAL; CREATE TABLE note(key INTEGER PRIMARY KEY)")
    #expect(connection.logPageCount > 0)
    let result = try connection.checkpoint(.truncate)
    #expect(result.logPages == 0)
    connection.close()
  }

  @Test func `a closed connection answers with an error`() throws {
    let connection = try connection()
    let statement = try connection.statement(Self.countNotes)
    connection.close()
    connection.close()
    #expect(throws: SQLiteError.self) { try statement.run() }
    #expect(throws: SQLiteError.self) { try statement.bind(1, 1) }
    #expect(throws: SQLiteError.self) { try connection.statement(Self.countNotes) }
    #expect(throws: SQLiteError.self) { try connection.execute("SELECT 1") }
  }
}
