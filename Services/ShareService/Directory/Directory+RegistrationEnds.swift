// Ends registrations of devices: one by one, and with their credentials, their user or their container.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  /// The time for which notifiers can hear of the end of a registration. Unit: milliseconds.
  private static let endMemory: Int64 = 30 * 86_400_000

  /// Within a change.
  /// - Returns: false if there is no such registration.
  @discardableResult func endPushRegistration(_ id: Int64) throws -> Bool {
    try connection.statement(SQL("pushRegistration.end", "DELETE FROM pushRegistration WHERE id = ?1")).binding(id)
      .run()
    guard connection.changes > 0 else { return false }
    try connection.statement(
      SQL("pushRegistrationEnd.insert", "INSERT INTO pushRegistrationEnd (id, revision, ended) VALUES (?1, ?2, ?3)")
    ).binding(id, try DirectoryFormat.nextVersion(in: connection), clock.now).run()
    try connection.statement(SQL("pushRegistrationEnd.sweep", "DELETE FROM pushRegistrationEnd WHERE ended < ?1"))
      .binding(clock.now - Self.endMemory).run()
    return true
  }

  /// - Throws: `notFound`.
  func endPushRegistration(named id: Int64) throws {
    try change {
      guard try endPushRegistration(id) else { throw RecordError(.notFound, "There is no registration \(id)") }
    }
  }

  func unregisterFromPush(_ message: UnregisterFromPush) throws {
    try change {
      let found = try connection.statement(
        SQL(
          "pushRegistration.find",
          """
          SELECT pushRegistration.id FROM pushRegistration JOIN user ON user.id = user
          JOIN container ON container.id = container
          WHERE recordName = ?1 AND container.name = ?2 AND environment = ?3 AND target = ?4
          """)
      ).binding(
        message.userRecordName, message.container.rawValue, message.environment.rawValue,
        Array(SHA256.hash(message.target))
      ).first { $0.int64(0) }
      if let found { try endPushRegistration(found) }
    }
  }

  /// Ends those that were not renewed meanwhile.
  func endPushRegistrations(_ message: EndPushRegistrations) throws {
    try change {
      for ended in message.registrations {
        let isCurrent = try connection.statement(
          SQL("pushRegistration.current", "SELECT 1 FROM pushRegistration WHERE id = ?1 AND revision = ?2")
        ).binding(ended.id, ended.revision).first { _ in true }
        if isCurrent == true { try endPushRegistration(ended.id) }
      }
    }
  }

  /// Within the change that deletes the user.
  func endPushRegistrations(ofUser userKey: Int64) throws {
    let ids = try connection.statement(
      SQL("pushRegistration.idsOfUser", "SELECT id FROM pushRegistration WHERE user = ?1 ORDER BY id")
    ).binding(userKey).all { $0.int64(0) }
    for id in ids { try endPushRegistration(id) }
  }

  /// Within the change that deletes the container.
  func endPushRegistrations(ofContainer key: Int64) throws {
    let ids = try connection.statement(
      SQL("pushRegistration.idsOfContainer", "SELECT id FROM pushRegistration WHERE container = ?1 ORDER BY id")
    ).binding(key).all { $0.int64(0) }
    for id in ids { try endPushRegistration(id) }
  }

  /// Ends the registrations of a user that came by credentials which no longer hold; within the change that ended them.
  func endOrphanedRegistrations(ofUser userKey: Int64) throws {
    try endOrphans(
      of: try connection.statement(
        SQL(
          "pushRegistration.ofUser",
          """
          SELECT \(Self.registrationColumns) FROM pushRegistration
          JOIN user ON user.id = user JOIN container ON container.id = container WHERE user = ?1
          """)
      ).binding(userKey).all(Self.registration))
  }

  static let registrationsOfAPIToken = SQL(
    "pushRegistration.ofAPIToken",
    """
    SELECT \(registrationColumns) FROM pushRegistration
    JOIN user ON user.id = user JOIN container ON container.id = container
    WHERE pushRegistration.id IN (
      SELECT id FROM pushRegistration WHERE grantText >= ?1 AND grantText < ?2
      UNION SELECT id FROM pushRegistration WHERE user IN (SELECT user FROM session WHERE apiToken = ?3))
    """)

  /// The registrations that an API token's end may end: those that came by it, and those of its sessions' users.
  func pushRegistrations(ofAPIToken hash: [UInt8]) throws -> [PushRegistration] {
    // Grants that came by the token begin with this text. A semicolon follows the colon at its end.
    let beginning = Grant(apiToken: hash).text
    return try connection.statement(Self.registrationsOfAPIToken).binding(
      beginning, String(beginning.dropLast()) + ";", hash
    ).all(Self.registration)
  }

  /// Within a change.
  func endOrphans(of registrations: [PushRegistration]) throws {
    for registration in registrations {
      let device = registration.device
      let grant = VerifyGrant(
        container: device.container, environment: device.environment, userRecordName: device.userRecordName,
        grant: device.grant)
      if try !holds(grant) { try endPushRegistration(registration.id) }
    }
  }
}
