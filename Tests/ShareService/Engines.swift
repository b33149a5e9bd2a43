// The engines of the directory: what holds of one holds of the other.

import Foundation
import PrivateCluster
import SQLite
import Testing

@testable import ShareService

enum DirectoryEngine {
  case sqlite, postgreSQL

  /// The engine of worlds that are made now.
  @TaskLocal static var current = DirectoryEngine.sqlite

  /// The directory in PostgreSQL that belongs to a folder.
  static func database(of folder: TemporaryFolder) throws -> PostgreSQLDirectory.Configuration {
    PostgreSQLDirectory.Configuration(
      address: try PrivateCluster.shared.get().address, allowsAsynchronous: true,
      schema: "directory_" + folder.path.utf8.suffix(6).map { String($0, radix: 16) }.joined())
  }
}

/// Runs each test once for each engine.
struct EachEngine: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing body: @concurrent @Sendable () async throws -> Void
  ) async throws {
    try await body()
    if test.tags.contains(.sqliteFile) { return }
    try await DirectoryEngine.$current.withValue(.postgreSQL) { try await body() }
  }
}

extension Trait where Self == EachEngine {
  static var eachEngine: Self { Self() }
}

extension Tag {
  /// Marks a test that looks into the directory's file.
  @Tag static var sqliteFile: Self
}

extension DirectoryConnection {
  struct NoFile: Error {}

  /// Runs statements of SQLite.
  func execute(_ text: String) throws {
    guard case .sqlite(let connection) = self else { throw NoFile() }
    try connection.execute(text)
  }
}
