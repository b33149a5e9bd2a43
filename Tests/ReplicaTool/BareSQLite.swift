// What figures are compared with: the same rows through prepared statements, without history, outbox or pending edits.

import AquiferClient
import SQLite

struct BareSQLite {
  private let path: String
  private let connection: Connection

  init(path: String) throws {
    self.path = path
    connection = try Connection(path: path, mode: .readWrite)
    try connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    try connection.execute(
      "CREATE TABLE photo(id INTEGER PRIMARY KEY, name TEXT UNIQUE, displayName TEXT, uniqueName TEXT, size INTEGER)")
  }

  /// Inserts rows in one commit.
  func insert(_ numbers: ClosedRange<Int>) throws {
    try connection.transaction {
      let statement = try connection.statement(Self.insert)
      for number in numbers {
        try statement.binding("0B0B0B0B-\(number)", "Dunes \(number * 7919 % 50_000)", "U\(number)", number).run()
      }
    }
    try copyLog()
  }

  /// Adds to the sizes of the first rows in one commit.
  func update(_ count: Int) throws {
    try connection.transaction {
      let ids = try connection.statement(Self.first).binding(count).all { $0.int64(0) }
      let statement = try connection.statement(Self.update)
      for id in ids { try statement.binding(id).run() }
    }
    try copyLog()
  }

  func fetch(_ count: Int) throws {
    let rows = try connection.statement(Self.fetch).binding(count).all { row in
      Photo(
        id: ObjectID(recordName: row.text(0)), displayName: row.text(1), uniqueName: row.text(2), size: row.int64(3))
    }
    guard rows.count == count else { throw StoreError.invalid("\(rows.count) rows") }
  }

  /// Runs `body` while another connection reads a state.
  func pinned(_ body: () async throws -> Double) async throws -> Double {
    let reader = try Connection(path: path, mode: .readOnly)
    try reader.execute("BEGIN")
    _ = try reader.statement(Self.fetch).binding(1).all { $0.int64(3) }
    defer { reader.close() }
    return try await body()
  }

  private func copyLog() throws { if connection.logPageCount >= 1000 { try connection.checkpoint(.passive) } }

  private static let insert = SQL(
    "insert", "INSERT INTO photo(name, displayName, uniqueName, size) VALUES (?, ?, ?, ?)")
  private static let first = SQL("first", "SELECT id FROM photo ORDER BY id LIMIT ?")
  private static let update = SQL("update", "UPDATE photo SET size = size + 1 WHERE id = ?")
  private static let fetch = SQL(
    "fetch", "SELECT name, displayName, uniqueName, size FROM photo WHERE size >= 0 ORDER BY displayName LIMIT ?")
}
