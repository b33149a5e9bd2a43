// Operations on the directory's whole file: copying it for a backup, and checking it.

import SQLite

extension Directory {
  /// Copies the file to a new name; the copy is durable when this returns and includes changes made meanwhile. Other
  /// calls are answered between two megabytes.
  func copy(to path: String) async throws {
    let source = connection
    let copy = try source.beginCopy(to: path)
    while try copy.step() {
      await Task.yield()
      guard isOpen(source) else {
        throw InstallationProblem("the directory's file was opened again during its copy; try again")
      }
    }
  }

  /// The faults that SQLite finds in the file, at most a hundred lines.
  func problems() throws -> [String] {
    try connection.statement(SQL("integrity_check", "PRAGMA integrity_check(100)")).all { $0.text(0) }.filter {
      $0 != "ok"
    }.map { "directory: \($0)" }
  }
}
