// Custom roles of single users in a container's environment, and quotas of users.

import ObjectModel
import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  struct RoleRow: Sendable, Hashable {
    /// The operator's name for the user.
    let user: String
    let userRecordName: String
    let container: ContainerID
    let environment: Environment
    let role: String
    /// Milliseconds since 1970.
    let granted: Int64
  }

  /// The user's roles and quota for `Authenticate`; nil for the many users without any.
  func standing(ofUser recordName: String, _ container: ContainerID, _ environment: Environment?) throws
    -> UserStanding?
  {
    let quota =
      try connection.statement(SQL("user.quota", "SELECT quotaByteCount FROM user WHERE recordName = ?1")).binding(
        recordName
      )
      .first { $0.optionalInt64(0) } ?? nil
    var roles: [String] = []
    if let environment {
      roles = try connection.statement(
        SQL(
          "userRole.ofUser",
          """
          SELECT userRole.role FROM userRole JOIN user ON user.id = userRole.user \
          JOIN container ON container.id = userRole.container
          WHERE user.recordName = ?1 AND container.name = ?2 AND userRole.environment = ?3 ORDER BY userRole.role
          """)
      ).binding(recordName, container.rawValue, environment.rawValue).all { $0.text(0) }
    }
    return quota == nil && roles.isEmpty ? nil : UserStanding(roles: roles, quotaByteCount: quota)
  }

  /// Gives a user a role that the environment's schema declares. Repeating it changes nothing.
  /// - Throws: `notFound` for the user, the container or the role.
  func grantRole(_ role: String, toUser name: String, _ key: EnvironmentKey) throws {
    guard try environment(key).schema.roles.contains(role) else {
      throw RecordError(.notFound, "The schema of \(key) has no role '\(role)': declare it with CREATE ROLE")
    }
    try change {
      let user = try existingUser(name).key
      try connection.statement(
        SQL(
          "userRole.insert",
          """
          INSERT INTO userRole (user, container, environment, role, granted) VALUES (?1, ?2, ?3, ?4, ?5) \
          ON CONFLICT DO NOTHING
          """
        )
      ).binding(user, try self.key(of: key.container), key.environment.rawValue, role, clock.now).run()
      try raiseVersion(of: key)
    }
    environments[key] = nil
  }

  /// - Throws: `notFound` for the user, the container, or a role that the user does not have.
  func revokeRole(_ role: String, ofUser name: String, _ key: EnvironmentKey) throws {
    try change {
      let user = try existingUser(name).key
      try connection.statement(
        SQL(
          "userRole.delete",
          "DELETE FROM userRole WHERE user = ?1 AND container = ?2 AND environment = ?3 AND role = ?4")
      ).binding(user, try self.key(of: key.container), key.environment.rawValue, role).run()
      guard connection.changes > 0 else {
        throw RecordError(.notFound, "The user '\(name)' does not have the role '\(role)' in \(key)")
      }
      try raiseVersion(of: key)
    }
    environments[key] = nil
  }

  /// Raises the schema's version, by which workers notice changed roles and rules. Within a change.
  func raiseVersion(of key: EnvironmentKey) throws {
    try connection.statement(
      SQL(
        "environment.raise",
        "UPDATE environment SET version = \(Self.nextVersion("?3")) WHERE container = ?1 AND name = ?2")
    ).binding(try self.key(of: key.container), key.environment.rawValue, clock.now).run()
  }

  /// The roles of an environment's users by record name, each ascending; nil when no user has any.
  func userRoles(in key: EnvironmentKey) throws -> [String: [String]]? {
    var roles: [String: [String]] = [:]
    try connection.statement(
      SQL(
        "userRole.inEnvironment",
        """
        SELECT user.recordName, userRole.role FROM userRole JOIN user ON user.id = userRole.user
        WHERE userRole.container = ?1 AND userRole.environment = ?2 ORDER BY userRole.role
        """)
    ).binding(try self.key(of: key.container), key.environment.rawValue).forEach {
      roles[$0.text(0), default: []].append($0.text(1))
    }
    return roles.isEmpty ? nil : roles
  }

  /// Ascending by container, environment, role and user.
  func roles(in container: ContainerID? = nil) throws -> [RoleRow] {
    try connection.statement(
      SQL(
        "userRole.list",
        """
        SELECT user.name, user.recordName, container.name, userRole.environment, userRole.role, userRole.granted
        FROM userRole JOIN user ON user.id = userRole.user JOIN container ON container.id = userRole.container
        WHERE ?1 IS NULL OR container.name = ?1 ORDER BY container.name, userRole.environment, userRole.role, user.name
        """)
    ).binding(container?.rawValue).all { row in
      guard let environment = Environment(rawValue: row.text(3)) else {
        throw RecordError(.internalError, "A stored role has no valid environment")
      }
      return RoleRow(
        user: row.text(0), userRecordName: row.text(1), container: try Self.containerID(row.text(2)),
        environment: environment, role: row.text(4),
        granted: row.int64(5))
    }
  }

  /// Limits the bytes of each of a user's databases.
  /// - Parameter byteCount: 0: no limit; nil: the limit that the workers are configured with.
  /// - Returns: the user's record name.
  /// - Throws: `notFound`.
  func setQuota(_ byteCount: Int64?, ofUser name: String) throws -> String {
    try change {
      let (key, recordName) = try existingUser(name)
      try connection.statement(SQL("user.setQuota", "UPDATE user SET quotaByteCount = ?2 WHERE id = ?1")).binding(
        key, byteCount
      ).run()
      return recordName
    }
  }
}
