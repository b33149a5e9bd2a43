// Ends registrations of devices together with the credentials that they came by.

import Records
import SQLite
import ServiceBus

extension Directory {
  /// Ends the registrations of a user that came by credentials which no longer hold; within the change that ended them.
  func endOrphanedRegistrations(ofUser userKey: Int64) throws {
    try endOrphans(
      of: try connection.statement(
        SQL(
          "pushRegistration.ofUser",
          """
          SELECT \(Self.registrationColumns) FROM pushRegistration
          JOIN user ON user.id = user JOIN container ON container.id = container
          WHERE address NOT NULL AND user = ?1
          """)
      ).binding(userKey).all(Self.registration))
  }

  /// The registrations that an API token's end may end: those that came by it, and those of its sessions' users.
  func pushRegistrations(ofAPIToken hash: [UInt8]) throws -> [PushRegistration] {
    try connection.statement(
      SQL(
        "pushRegistration.ofAPIToken",
        """
        SELECT \(Self.registrationColumns) FROM pushRegistration
        JOIN user ON user.id = user JOIN container ON container.id = container
        WHERE address NOT NULL AND (grantText GLOB ?1 OR user IN (SELECT user FROM session WHERE apiToken = ?2))
        """)
    ).binding(Grant(apiToken: hash).text + "*", hash).all(Self.registration)
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
