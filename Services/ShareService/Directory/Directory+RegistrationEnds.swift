// Ends registrations of devices: one by one, and all of their credentials, their user or their container.

import Crypto
import MessagePack
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
    try settleRegistrationIncarnation()
    try connection.statement(SQL("pushRegistration.end", "DELETE FROM pushRegistration WHERE id = ?1")).binding(id)
      .run()
    guard connection.changes > 0 else { return false }
    try connection.statement(
      SQL("pushRegistrationEnd.insert", "INSERT INTO pushRegistrationEnd (id, revision, ended) VALUES (?1, ?2, ?3)")
    ).binding(id, try nextRegistrationRevision(), clock.now).run()
    try sweepEnds()
    return true
  }

  private func sweepEnds() throws {
    try connection.statement(SQL("pushRegistrationEnd.sweep", "DELETE FROM pushRegistrationEnd WHERE ended < ?1"))
      .binding(clock.now - Self.endMemory).run()
  }

  /// Ends all registrations of a condition within a change. There can be very many: a statement ends
  /// `endSliceCount` of them, because the database ends a statement that takes seconds.
  /// - Parameters:
  ///   - name: of the condition.
  ///   - condition: in SQL. Its parameters begin with `?4`.
  private func endPushRegistrations<each Value: DirectoryValue>(
    _ name: String, where condition: String, _ values: repeat each Value
  ) throws {
    let (limit, now) = (endSliceCount, clock.now)
    var count = 0
    try settleRegistrationIncarnation()
    repeat {
      let last = try DirectoryFormat.lastVersion(in: connection)
      try connection.statement(
        SQL(
          "pushRegistrationEnd.insert.\(name)",
          """
          INSERT INTO pushRegistrationEnd (id, revision, ended)
          SELECT id, ?1 + row_number() OVER (ORDER BY id), ?3
          FROM (SELECT id FROM pushRegistration WHERE \(condition) LIMIT ?2) AS slice
          """)
      ).binding(last, limit, now, repeat each values).run()
      count = connection.changes
      if count == 0 { break }
      try connection.statement(
        SQL(
          "pushRegistration.end.\(name)",
          """
          DELETE FROM pushRegistration WHERE \(condition) AND EXISTS (
            SELECT 1 FROM pushRegistrationEnd AS past WHERE past.id = pushRegistration.id
            AND past.revision > ?1 AND past.revision <= ?1 + ?2 AND past.ended = ?3)
          """)
      ).binding(last, limit, now, repeat each values).run()
      try DirectoryFormat.set(lastVersion: last + Int64(count), in: connection)
    } while count == limit
    try sweepEnds()
  }

  /// - Throws: `notFound`.
  func endPushRegistration(named id: Int64) throws {
    try change {
      guard try endPushRegistration(id) else { throw RecordError(.notFound, "There is no registration \(id)") }
    }
  }

  /// Ends the registrations of other users at the same device, within a change. A stranger who knows only the endpoint
  /// of a browser ends none, and a server can be called for many users.
  /// - Parameter target: SHA-256 of the address's.
  /// - Returns: the number of those that ended.
  func endOthers(of message: RegisterForPush, _ userKey: Int64, _ container: Int64, _ target: [UInt8]) throws -> Int {
    if case .webhook = message.address { return 0 }
    let others = try connection.statement(Self.othersOfTarget).binding(
      target, container, message.device.environment.rawValue, userKey
    ).all { (id: $0.int64(0), address: try MessagePackDecoder().decode(PushAddress.self, from: $0.blob(1))) }
    let ended = others.filter { $0.address.isDevice(of: message.address) }
    for other in ended { try endPushRegistration(other.id) }
    return ended.count
  }

  static let othersOfTarget = SQL(
    "pushRegistration.others",
    """
    SELECT id, address FROM pushRegistration WHERE target = ?1 AND +container = ?2 AND environment = ?3 AND user <> ?4
    ORDER BY id
    """)

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
      let current = try registrationIncarnation()
      for ended in message.registrations
      where RegistrationIncarnation.has(ended.revision, of: message.incarnation, in: current) {
        let isCurrent = try connection.statement(
          SQL("pushRegistration.current", "SELECT 1 FROM pushRegistration WHERE id = ?1 AND revision = ?2")
        ).binding(ended.id, ended.revision).first { _ in true }
        if isCurrent == true { try endPushRegistration(ended.id) }
      }
    }
  }

  /// Within the change that deletes the user.
  func endPushRegistrations(ofUser userKey: Int64) throws {
    try endPushRegistrations("user", where: "user = ?4", userKey)
  }

  /// Within the change that deletes the container.
  func endPushRegistrations(ofContainer key: Int64) throws {
    try endPushRegistrations("container", where: "container = ?4", key)
  }

  /// Ends the registrations of a user that came by credentials which no longer hold; within the change that ended them.
  func endOrphanedRegistrations(ofUser userKey: Int64) throws {
    let registrations = try connection.statement(
      SQL(
        "pushRegistration.ofUser",
        """
        SELECT \(Self.registrationColumns) FROM pushRegistration
        JOIN user ON user.id = user JOIN container ON container.id = container WHERE user = ?1
        """)
    ).binding(userKey).all(Self.registration)
    for registration in registrations {
      let device = registration.device
      let grant = VerifyGrant(
        container: device.container, environment: device.environment, userRecordName: device.userRecordName,
        grant: device.grant)
      if try !holds(grant) { try endPushRegistration(registration.id) }
    }
  }

  /// The registrations that came by an API token, and those by its sessions beside another token. A grant ends with
  /// the name of its session.
  static let registrationsOfAPIToken = SQL(
    "pushRegistration.ofAPIToken",
    """
    SELECT id FROM pushRegistration WHERE grantText >= ?4 AND grantText < ?5
    UNION SELECT pushRegistration.id FROM session JOIN pushRegistration ON pushRegistration.user = session.user
    WHERE apiToken = ?6 AND grantText LIKE '%:s' || session.name
    """)

  /// Within the change that ends the API token, before its sessions go.
  func endPushRegistrations(ofAPIToken hash: [UInt8]) throws {
    // Grants that came by the token begin with this text. A semicolon follows the colon at its end.
    let beginning = Grant(apiToken: hash).text
    try endPushRegistrations(
      "apiToken", where: "id IN (\(Self.registrationsOfAPIToken.text))", beginning,
      String(beginning.dropLast()) + ";", hash)
  }
}

extension PushAddress {
  /// True for two addresses of one device.
  fileprivate func isDevice(of other: PushAddress) -> Bool {
    if case .apns = self { target == other.target } else { self == other }
  }
}
