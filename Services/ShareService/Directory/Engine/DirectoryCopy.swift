// Copies of a directory between a file and a database, row by row and read back.

import Assets
import Foundation
import PostgreSQL
import SQLite

/// The tables of a directory, which both engines have with the same columns.
struct DirectoryCopy {
  private enum Kind { case integer, text, bytes }

  private struct Table {
    let name: String
    let columns: [(name: String, kind: Kind)]
    /// The numbers of the columns that tell rows apart.
    let key: [Int]
  }

  /// A row that one side has and the other has not, or has otherwise.
  struct Difference: Error, CustomStringConvertible {
    let table: String
    let rowNumber: Int
    var description: String { "the copy of the table \(table) differs in row \(rowNumber): nothing was copied" }
  }

  private let file: Connection
  /// Referenced tables come before those that reference them, because they are older.
  private let tables: [Table]

  init(_ file: Connection) throws {
    self.file = file
    let names = try file.prepare(
      SQL(
        "tables",
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid")
    ).all { $0.text(0) }
    tables = try names.map { name in
      let columns = try file.prepare(SQL("columns", "PRAGMA table_info(\"\(name)\")")).all {
        (name: $0.text(1), kind: Self.kind($0.text(2)), place: $0.int(5))
      }
      let key = columns.indices.filter { columns[$0].place > 0 }
      return Table(
        name: name, columns: columns.map { ($0.name, $0.kind) }, key: key.isEmpty ? Array(columns.indices) : key)
    }
  }

  private static func kind(_ type: String) -> Kind {
    switch type {
    case "INTEGER": .integer
    case "BLOB": .bytes
    default: .text
    }
  }

  /// Fills an empty database within a transaction, and brings the file to the present format.
  /// - Parameter path: of a file that no other process uses.
  /// - Returns: the epoch that the file knows.
  /// - Throws: `Difference`, `InstallationProblem`, `PostgreSQLError`.
  static func fill(_ session: Session, from path: String) throws -> Int64 {
    guard FileManager.default.fileExists(atPath: path) else {
      throw InstallationProblem("--directory-from: there is no file \(path).")
    }
    let file = try DirectoryFormat.open(path)
    defer { file.close() }
    try DirectoryCopy(file).fill(session)
    return try DirectoryFormat.epoch(in: .sqlite(file))
  }

  /// Compares the installation of a directory that is there with that of the file. A file that is gone is none: a
  /// directory that began with it needs it no more. Changes nothing.
  /// - Throws: `InstallationProblem` for two installations, and for a file that can't be read.
  static func compareInstallations(_ session: Session, _ path: String) throws {
    guard FileManager.default.fileExists(atPath: path), let former = try DirectoryFormat.signingKey(ofFile: path) else {
      return
    }
    let own = try session.rows(TenureCommand.signingKey.command).first?.bytes(0)
    if own == former { return }
    func name(_ key: [UInt8]) -> String { "the installation \(InstallationID(signingKey: key))" }
    throw InstallationProblem(
      """
      --directory-from: \(path) has the directory of \(name(former)), but the database has that of \
      \(own.map(name) ?? "one that was only begun"): give the right file or --directory, or leave the option out.
      """)
  }

  /// Fills a new file from a state of the database.
  /// - Parameter epoch: that a share service leads with which is started on the file.
  /// - Throws: `Difference`, `InstallationProblem`, `PostgreSQLError`, `SQLiteError`.
  static func write(_ configuration: SessionConfiguration, to path: String, epoch: Int64) throws {
    let session = try Session(configuration)
    defer { session.close() }
    let file = try DirectoryFormat.open(path)
    defer { file.close() }
    try session.transaction(.snapshot) { try DirectoryCopy(file).fillFile(from: session) }
    _ = try DirectoryFormat.settleEpoch(epoch, in: .sqlite(file))
    try file.checkpoint(.truncate)
  }

  /// Fills the database from the file.
  private func fill(_ session: Session) throws {
    for table in tables {
      let places = table.columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
      let command = Command(
        "copy.\(table.name)", "INSERT INTO \(Self.quoted(table)) (\(Self.columns(of: table))) VALUES (\(places))")
      var count = 0
      let rows = try rows(of: table)
      while let row = try rows() {
        try session.queue(command, row)
        count += 1
        if count % Self.batchCount == 0 { try session.finish() }
      }
      try session.finish()
    }
    // Keys that the engine gives out go on behind the copied ones.
    let given = try session.rows(
      Command(
        "copy.identities",
        """
        SELECT table_name::text, column_name::text FROM information_schema.columns
        WHERE table_schema = current_schema() AND is_identity = 'YES'
        """))
    for row in given {
      let (table, column) = (try row.text(0), try row.text(1))
      let text = """
        SELECT setval(pg_get_serial_sequence('"\(table)"', '\(column)'), (SELECT max(\(column)) FROM "\(table)"))
        """
      _ = try session.rows(Command("copy.next.\(table)", text))
    }
    try compare(session)
  }

  /// Fills the file, which is empty, from a state of the database.
  private func fillFile(from session: Session) throws {
    try file.transaction {
      for table in tables {
        let places = table.columns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        let statement = try file.prepare(
          SQL("copy", "INSERT INTO \"\(table.name)\" (\(Self.columns(of: table))) VALUES (\(places))"))
        try session.scan(Self.reading(table), batchCount: Self.batchCount) { row in
          for (column, value) in try Self.values(of: row, table).enumerated() {
            try Self.bind(value, to: statement, Int32(column + 1))
          }
          try statement.run()
        }
      }
      try compare(session)
    }
  }

  /// Reads both sides in the same order.
  /// - Throws: `Difference`
  private func compare(_ session: Session) throws {
    for table in tables {
      var number = 0
      let rows = try rows(of: table)
      try session.scan(Self.reading(table), batchCount: Self.batchCount) { row in
        number += 1
        guard try rows() == Self.values(of: row, table) else { throw Difference(table: table.name, rowNumber: number) }
      }
      guard try rows() == nil else { throw Difference(table: table.name, rowNumber: number + 1) }
    }
  }

  private static let batchCount = 500

  // MARK: Rows

  /// The rows of a table of the file in the order of their keys; nil after the last one.
  private func rows(of table: Table) throws -> () throws -> [Value]? {
    let order = table.key.map { column in
      "\"\(table.columns[column].name)\"" + (table.columns[column].kind == .text ? " COLLATE BINARY" : "")
    }
    let statement = try file.prepare(
      SQL(
        "copy.rows",
        "SELECT \(Self.columns(of: table)) FROM \"\(table.name)\" ORDER BY \(order.joined(separator: ", "))"))
    return {
      guard try statement.step() else { return nil }
      return table.columns.enumerated().map { number, column in
        switch column.kind {
        case .integer: .integer(statement.optionalInt64(Int32(number)))
        case .text: .text(statement.optionalText(Int32(number)))
        case .bytes: .bytes(statement.optionalBlob(Int32(number)))
        }
      }
    }
  }

  private static func reading(_ table: Table) -> Command {
    let order = table.key.map { quoted(table.columns[$0].name) + " NULLS FIRST" }.joined(separator: ", ")
    return Command("copy.rows.\(table.name)", "SELECT \(columns(of: table)) FROM \(quoted(table)) ORDER BY \(order)")
  }

  private static func values(of row: Row, _ table: Table) throws -> [Value] {
    try table.columns.enumerated().map { number, column in
      switch column.kind {
      case .integer: .integer(try row.optionalInteger(Int32(number)))
      case .text: .text(try row.optionalText(Int32(number)))
      case .bytes: .bytes(try row.optionalBytes(Int32(number)))
      }
    }
  }

  private static func bind(_ value: Value, to statement: Statement, _ index: Int32) throws {
    switch value {
    case .integer(let value): try statement.bind(index, value)
    case .text(let value): try statement.bind(index, value)
    case .bytes(let value): try statement.bind(index, value)
    default: preconditionFailure("no column of a directory has the type of \(value)")
    }
  }

  // MARK: Names

  private static func columns(of table: Table) -> String {
    table.columns.map { quoted($0.name) }.joined(separator: ", ")
  }

  private static func quoted(_ table: Table) -> String { quoted(table.name) }

  /// PostgreSQL's names are in lower case, and `user` is reserved. SQLite ignores case.
  private static func quoted(_ name: String) -> String { "\"\(name.lowercased())\"" }
}

/// Copies a directory from a database while its own thread answers calls.
actor DirectoryCopier {
  private let executor = BlockingExecutor(label: "directory copy")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  func write(_ configuration: SessionConfiguration, to path: String, epoch: Int64) throws {
    try DirectoryCopy.write(configuration, to: path, epoch: epoch)
  }
}
