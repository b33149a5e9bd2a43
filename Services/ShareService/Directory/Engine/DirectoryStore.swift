// The seam of the directory: what it asks of the engine that keeps its rows.

import Records

/// An engine with the directory's rows. The directory's thread owns it.
protocol DirectoryStore: AnyObject {
  /// Connects anew when the last connection failed. As long as that fails, every use of the connection throws.
  var connection: DirectoryConnection { get }
  /// Runs `body` as one durable change. A change that throws changed nothing, unless the error says that its outcome is
  /// unknown.
  func change<Value>(_ body: () throws -> Value) throws -> Value
  /// Changes with each new connection: what was read before may be out of date.
  var connectionCount: Int { get }
  /// Called before an answer from memory. Makes sure that nobody else has changed the directory, except in the last
  /// second.
  /// - Throws: when another process leads or the engine can't be asked.
  func confirm() throws
  func close()
}

/// Where the directory is.
enum DirectoryPlace: Sendable {
  /// The path of SQLite's file.
  case file(String)
  case database(PostgreSQLDirectory.Configuration)
}

/// An error of an engine.
protocol DirectoryEngineError: Error {
  /// A value that must be unique exists already.
  var isUniqueViolation: Bool { get }
  /// What a caller of the directory is told; nil: that it failed, and nothing changed.
  var recordError: RecordError? { get }
}
