// The directory's file as a whole: copied for a backup, looked over.

import SQLite

extension Directory {
  /// Copies the file, as it is when that is done, to a name that nobody has yet; durable when it returns. Others are answered between two megabytes.
  func copy(to path: String) async throws {
    let source = connection
    let copy = try source.beginCopy(to: path)
    while try copy.step() {
      await Task.yield()
      guard isOpen(source) else { throw InstallationProblem("the directory's file was opened anew while it was copied; try again") }
    }
  }

  /// What SQLite finds wrong with the file, at most a hundred lines.
  func problems() throws -> [String] {
    try connection.statement(SQL("integrity_check", "PRAGMA integrity_check(100)")).all { $0.text(0) }.filter { $0 != "ok" }.map { "directory: \($0)" }
  }
}
