// Operations on the directory's whole file: copying it for a backup, and checking it.

import SQLite

extension Directory {
  /// Copies the directory to a new file; the copy is durable when this returns. Other calls are answered meanwhile. A
  /// copy of a file includes their changes.
  func copy(to path: String) async throws {
    if let database = store as? PostgreSQLDirectory {
      return try await DirectoryCopier().write(database.configuration.session, to: path, epoch: epoch + 1)
    }
    guard let file = store as? SQLiteDirectory, case .sqlite(let source) = file.connection else { return }
    let copy = try source.beginCopy(to: path)
    while try copy.step() {
      await Task.yield()
      guard file.isOpen(source) else {
        throw InstallationProblem("the directory's file was opened again during its copy; try again")
      }
    }
  }

  /// The faults that SQLite finds in the file, at most a hundred lines. PostgreSQL has tools of its own.
  func problems() throws -> [String] {
    guard case .sqlite(let connection) = connection else { return [] }
    return try connection.statement(SQL("integrity_check", "PRAGMA integrity_check(100)")).all { $0.text(0) }.filter {
      $0 != "ok"
    }.map { "directory: \($0)" }
  }
}
