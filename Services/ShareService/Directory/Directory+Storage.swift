// The directory's file as a whole: copied for a backup, looked over.

import SQLite

extension Directory {
  /// Copies the file, as it is now, to a name that nobody has yet; durable when it returns.
  func copy(to path: String) throws {
    guard try connection.copy(to: path) else { throw InstallationProblem("The directory's copy was stopped.") }
  }

  /// What SQLite finds wrong with the file, at most a hundred lines.
  func problems() throws -> [String] {
    try connection.statement(SQL("integrity_check", "PRAGMA integrity_check(100)")).all { $0.text(0) }.filter { $0 != "ok" }.map { "directory: \($0)" }
  }
}
