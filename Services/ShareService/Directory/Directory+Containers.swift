// Containers: the apps of an installation.

import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  struct ContainerRow: Sendable, Hashable {
    let id: ContainerID
    /// Milliseconds since 1970.
    let created: Int64
    let app: LookUpApp.Reply
  }

  /// A change of an app's texts: nil leaves a text as it is, `.some(nil)` removes it.
  struct AppChange: Sendable {
    var displayName: String??
    var appURL: String??
  }

  /// - Throws: `exists`.
  func createContainer(_ id: ContainerID) throws {
    do {
      try change {
        try connection.statement(SQL("container.insert", "INSERT INTO container (name, created) VALUES (?1, ?2)"))
          .binding(id.rawValue, clock.now).run()
      }
    } catch let error as any DirectoryEngineError where error.isUniqueViolation {
      throw RecordError(.exists, "The container '\(id.rawValue)' exists already")
    }
  }

  /// Ascending by name.
  func containers() throws -> [ContainerRow] {
    try connection.statement(
      SQL("container.list", "SELECT name, created, displayName, appURL FROM container ORDER BY name")
    ).all { row in
      ContainerRow(
        id: try Self.containerID(row.text(0)), created: row.int64(1),
        app: LookUpApp.Reply(displayName: row.optionalText(2), appURL: row.optionalText(3)))
    }
  }

  /// The display name and URL of a container's app.
  /// - Throws: `notFound`.
  func app(of id: ContainerID) throws -> LookUpApp.Reply {
    let found = try connection.statement(
      SQL("container.app", "SELECT displayName, appURL FROM container WHERE name = ?1")
    ).binding(id.rawValue)
      .first { LookUpApp.Reply(displayName: $0.optionalText(0), appURL: $0.optionalText(1)) }
    guard let found else { throw Self.noContainer(id.rawValue) }
    return found
  }

  /// - Returns: the app's texts after the change.
  /// - Throws: `notFound`.
  func setApp(of id: ContainerID, _ change: AppChange) throws -> LookUpApp.Reply {
    try self.change {
      let known = try app(of: id)
      let app = LookUpApp.Reply(
        displayName: change.displayName ?? known.displayName, appURL: change.appURL ?? known.appURL)
      try connection.statement(
        SQL("container.setApp", "UPDATE container SET displayName = ?2, appURL = ?3 WHERE name = ?1")
      )
      .binding(id.rawValue, app.displayName, app.appURL).run()
      return app
    }
  }

  /// Deletes a container with its tokens, keys, schemas, models and shared-zone entries. Its records stay in the
  /// shards, where no request reaches them.
  /// - Throws: `notFound`.
  func deleteContainer(_ id: ContainerID) throws {
    try change {
      try endPushRegistrations(ofContainer: key(of: id))
      try connection.statement(SQL("container.delete", "DELETE FROM container WHERE name = ?1")).binding(id.rawValue)
        .run()
    }
    environments = environments.filter { $0.key.container != id }
  }

  /// The row's key.
  /// - Throws: `notFound`.
  func key(of id: ContainerID) throws -> Int64 {
    guard let key = try keyIfPresent(of: id) else { throw Self.noContainer(id.rawValue) }
    return key
  }

  func keyIfPresent(of id: ContainerID) throws -> Int64? {
    try connection.statement(SQL("container.key", "SELECT id FROM container WHERE name = ?1")).binding(id.rawValue)
      .first { $0.int64(0) }
  }

  static func noContainer(_ name: String) -> RecordError { RecordError(.notFound, "There is no container '\(name)'") }

  /// Stored names passed this check when their containers were created.
  static func containerID(_ name: String) throws -> ContainerID {
    guard let id = ContainerID(rawValue: name) else {
      throw RecordError(.internalError, "A stored container has no valid name")
    }
    return id
  }
}
