// Roles of operators and developers, and their sessions in the console.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

/// Rules for sessions of the console.
enum ConsoleSessionPolicy {
  /// Unit: milliseconds.
  static let lifetime: Int64 = 8 * 3_600_000
  /// Beyond this number the oldest sessions of one user, or of the operator token, end.
  static let sessionsPerUser = 50
  static let prefix = "con_"
}

extension Directory {
  struct StaffRoleRow: Sendable, Hashable {
    let user: String
    let userRecordName: String
    /// nil: the role of an operator.
    let container: ContainerID?
    /// Milliseconds since 1970.
    let granted: Int64

    var role: StaffMember.Role { container == nil ? .operator : .developer }
  }

  // MARK: Roles

  /// Makes a user an operator, or a developer of a container. Repeating it changes nothing.
  /// - Throws: `notFound` for the user or the container.
  func grantStaffRole(toUser name: String, of container: ContainerID?) throws {
    try change {
      try connection.statement(
        SQL(
          "staffRole.insert",
          "INSERT INTO staffRole (user, container, granted) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
      ).binding(try existingUser(name).key, try container.map { try key(of: $0) }, clock.now).run()
    }
  }

  /// - Throws: `notFound` for the user, the container, or a role that the user does not have.
  func revokeStaffRole(ofUser name: String, of container: ContainerID?) throws {
    try change {
      try connection.statement(
        SQL("staffRole.delete", "DELETE FROM staffRole WHERE user = ?1 AND container IS NOT DISTINCT FROM ?2")
      ).binding(try existingUser(name).key, try container.map { try key(of: $0) }).run()
      guard connection.changes > 0 else {
        let role = container.map { "a developer of '\($0.rawValue)'" } ?? "an operator"
        throw RecordError(.notFound, "The user '\(name)' is not \(role)")
      }
    }
  }

  /// Ascending by container and user; operators first.
  func staffRoles(in container: ContainerID? = nil) throws -> [StaffRoleRow] {
    try connection.statement(
      SQL(
        "staffRole.list",
        """
        SELECT user.name, user.recordName, container.name, granted FROM staffRole JOIN user ON user.id = staffRole.user
        LEFT JOIN container ON container.id = staffRole.container
        WHERE ?1 IS NULL OR container.name = ?1 ORDER BY container.name NULLS FIRST, user.name
        """)
    ).binding(container?.rawValue).all { row in
      StaffRoleRow(
        user: row.text(0), userRecordName: row.text(1), container: try row.optionalText(2).map(Self.containerID),
        granted: row.int64(3))
    }
  }

  /// nil for a user without a role.
  private func member(ofUser key: Int64) throws -> StaffMember? {
    let roles = try connection.statement(
      SQL(
        "staffRole.ofUser",
        """
        SELECT user.name, container.name FROM staffRole JOIN user ON user.id = staffRole.user
        LEFT JOIN container ON container.id = staffRole.container WHERE user.id = ?1 ORDER BY container.name NULLS FIRST
        """)
    ).binding(key).all { (user: $0.text(0), container: $0.optionalText(1)) }
    guard let name = roles.first?.user else { return nil }
    let isOperator = roles.contains { $0.container == nil }
    return StaffMember(name: name, containers: isOperator ? nil : roles.compactMap(\.container))
  }

  // MARK: Sessions

  enum ConsoleOpening: Sendable, Hashable {
    case token(String)
    /// The user's record name.
    case lacksRole(String)
  }

  /// Opens a session for a user whose password was verified.
  /// - Parameter passwordHash: the hash that the password was verified against.
  /// - Returns: nil when the user was disabled or the password changed meanwhile.
  func openConsole(forUser key: Int64, passwordHash: String, from source: SignInSource) throws -> ConsoleOpening? {
    guard let recordName = try visitor(key, passwordHash: passwordHash)?.userRecordName else { return nil }
    guard try member(ofUser: key) != nil else { return .lacksRole(recordName) }
    return .token(try insertConsoleSession(ofUser: key, NotedSignIn(source: source, user: recordName)))
  }

  /// Opens a session for the holder of the operator token.
  func openConsole(from source: SignInSource) throws -> String {
    try insertConsoleSession(ofUser: nil, NotedSignIn(source: source, user: StaffMember.tokenName))
  }

  private func insertConsoleSession(ofUser key: Int64?, _ signIn: NotedSignIn) throws -> String {
    let token = ConsoleSessionPolicy.prefix + random.hex(byteCount: 64)
    let now = clock.now
    try change {
      try connection.statement(SQL("consoleSession.sweep", "DELETE FROM consoleSession WHERE expires <= ?1")).binding(
        now
      )
      .run()
      try connection.statement(
        SQL(
          "consoleSession.insert",
          "INSERT INTO consoleSession (hash, user, operatorToken, created, expires) VALUES (?1, ?2, ?3, ?4, ?5)")
      ).binding(
        SHA256.hash(token), key, key == nil ? operatorTokenHash : nil, now, now + ConsoleSessionPolicy.lifetime
      ).run()
      try connection.statement(
        SQL(
          "consoleSession.limit",
          """
          DELETE FROM consoleSession WHERE user IS NOT DISTINCT FROM ?1 AND hash NOT IN (
            SELECT hash FROM consoleSession WHERE user IS NOT DISTINCT FROM ?1
          ORDER BY created DESC, hash LIMIT \(ConsoleSessionPolicy.sessionsPerUser))
          """)
      ).binding(key).run()
      try insert(signIn)
    }
    return token
  }

  /// The member with a session, and its end in milliseconds since 1970; nil for a token that does not count.
  func consoleSession(_ token: String) throws -> (member: StaffMember, expires: Int64)? {
    let hash = SHA256.hash(token)
    let found = try connection.statement(
      SQL(
        "consoleSession.get",
        """
        SELECT hash, user, operatorToken, expires FROM consoleSession LEFT JOIN user ON user.id = consoleSession.user
        WHERE hash = ?1 AND expires > ?2 AND coalesce(user.isDisabled, 0) = 0
        """)
    ).binding(hash, clock.now).first {
      (hash: $0.blob(0), user: $0.optionalInt64(1), operatorToken: $0.optionalBlob(2), expires: $0.int64(3))
    }
    guard let found, ConstantTime.areEqual(found.hash, hash) else { return nil }
    guard let user = found.user else {
      return found.operatorToken == operatorTokenHash ? (.tokenHolder, found.expires) : nil
    }
    return try member(ofUser: user).map { ($0, found.expires) }
  }

  /// - Returns: true when there was such a session.
  func closeConsole(_ token: String) throws -> Bool {
    try change {
      try connection.statement(SQL("consoleSession.delete", "DELETE FROM consoleSession WHERE hash = ?1")).binding(
        SHA256.hash(token)
      ).run()
      return connection.changes > 0
    }
  }
}
