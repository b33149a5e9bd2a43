// Push services, and the devices that registered to be woken by them.

import Crypto
import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  struct PushServiceRow: Sendable, Hashable {
    let entry: PushServiceEntry
    /// Milliseconds since 1970.
    let created: Int64
  }

  /// A registration as operators see it.
  struct PushRegistrationRow: Sendable, Hashable {
    let registration: PushRegistration
    let userName: String
    /// Milliseconds since 1970.
    let renewed: Int64
  }

  static let pushServiceLimit = 100
  /// Registrations of a user in one container's environment; the one that was renewed least recently makes room.
  static let pushRegistrationsPerUser = 256

  // MARK: Services

  /// - Throws: `notFound` for the container; `exists` for a name that is taken; `badRequest` for one too many.
  func addPushService(_ entry: PushServiceEntry) throws {
    do {
      try change {
        guard try count("SELECT count(*) FROM pushService") < Self.pushServiceLimit else {
          throw RecordError(.badRequest, "There are \(Self.pushServiceLimit) push services, which is the limit")
        }
        try connection.statement(
          SQL(
            "pushService.insert", "INSERT INTO pushService (name, container, entry, created) VALUES (?1, ?2, ?3, ?4)")
        ).binding(
          entry.name, try entry.container.map { try key(of: $0) }, try MessagePackEncoder().encode(entry), clock.now
        ).run()
      }
    } catch let error as any DirectoryEngineError where error.isUniqueViolation {
      throw RecordError(.exists, "There is a push service '\(entry.name)' already")
    }
  }

  /// The registrations stay, and count again when such a service is added again.
  /// - Throws: `notFound`.
  func removePushService(_ name: String) throws {
    try change {
      try connection.statement(SQL("pushService.delete", "DELETE FROM pushService WHERE name = ?1")).binding(name).run()
      guard connection.changes > 0 else { throw RecordError(.notFound, "There is no push service '\(name)'") }
    }
  }

  /// Ascending by name.
  /// - Parameter container: only those that serve this container.
  func pushServices(of container: ContainerID? = nil) throws -> [PushServiceRow] {
    try connection.statement(
      SQL(
        "pushService.list",
        """
        SELECT entry, pushService.created FROM pushService LEFT JOIN container ON container.id = container
        WHERE ?1 IS NULL OR container IS NULL OR container.name = ?1 ORDER BY pushService.name
        """)
    ).binding(container?.rawValue).all { row in
      PushServiceRow(
        entry: try MessagePackDecoder().decode(PushServiceEntry.self, from: row.blob(0)), created: row.int64(1))
    }
  }

  /// - Returns: 65 bytes; nil if the container has no Web Push.
  func applicationServerKey(of container: ContainerID) throws -> [UInt8]? {
    let address = PushAddress.web(endpoint: "", receiverKey: [], secret: [])
    let entry = try pushServices(of: container).map(\.entry).service(for: address, of: container)
    guard case .webPush(_, let scalar) = entry?.kind else { return nil }
    return P256PrivateKey(scalar: scalar)?.publicPoint
  }

  // MARK: Registrations

  /// A registration that changes nothing is not written, so that an app may register at each start. Its identifier is
  /// its first revision, so none is used twice. A device has one user: the registrations of others end.
  /// - Throws: `notFound` for the container or the user.
  func registerForPush(_ message: RegisterForPush) throws -> RegisterForPush.Reply {
    let device = message.device
    let services = try pushServices(of: device.container).map(\.entry)
    guard services.service(for: message.address, of: device.container) != nil else {
      return RegisterForPush.Reply(isServed: false, isChanged: false)
    }
    let userKey = try existingUser(device.userRecordName).key
    let target = Array(SHA256.hash(message.address.target))
    let address = try MessagePackEncoder().encode(message.address)
    return try change {
      let container = try key(of: device.container)
      let endedCount = try endOthers(of: message, userKey, container, target)
      let isKnown = try connection.statement(
        SQL(
          "pushRegistration.known",
          """
          SELECT 1 FROM pushRegistration WHERE user = ?1 AND container = ?2 AND environment = ?3 AND target = ?4
          AND clientID = ?5 AND grantText = ?6 AND hearsEveryZone = ?7 AND address = ?8
          """)
      ).binding(
        userKey, container, device.environment.rawValue, target, device.clientID, device.grant,
        message.hearsEveryZone, address
      ).first { _ in true }
      if isKnown == true { return RegisterForPush.Reply(isServed: true, isChanged: endedCount > 0) }
      try connection.statement(
        SQL(
          "pushRegistration.put",
          """
          INSERT INTO pushRegistration (id, revision, user, container, environment, target, clientID, grantText, \
          hearsEveryZone, address, renewed)
          VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
          ON CONFLICT (user, container, environment, target) DO UPDATE SET revision = excluded.revision, \
          clientID = excluded.clientID, grantText = excluded.grantText, hearsEveryZone = excluded.hearsEveryZone, \
          address = excluded.address, renewed = excluded.renewed
          """)
      ).binding(
        try nextRegistrationRevision(), userKey, container, device.environment.rawValue, target,
        device.clientID, device.grant, message.hearsEveryZone, address, clock.now
      ).run()
      try makeRoom(userKey, container, device.environment)
      return RegisterForPush.Reply(isServed: true, isChanged: true)
    }
  }

  /// Ends the registrations beyond the limit; within a change.
  private func makeRoom(_ userKey: Int64, _ container: Int64, _ environment: Environment) throws {
    let beyond = try connection.statement(
      SQL(
        "pushRegistration.beyond",
        """
        SELECT id FROM pushRegistration WHERE user = ?1 AND container = ?2 AND environment = ?3
        ORDER BY revision DESC LIMIT 1000000 OFFSET \(Self.pushRegistrationsPerUser)
        """)
    ).binding(userKey, container, environment.rawValue).all { $0.int64(0) }
    for id in beyond { try endPushRegistration(id) }
  }

  /// A page of what changed after a revision.
  /// - Parameter incarnation: of the revision; nil from a notifier that knows none.
  func pushRegistrations(
    after known: Int64, of incarnation: String? = nil
  ) throws -> FetchPushRegistrations.Reply {
    let current = try registrationIncarnation()
    let isFromStart =
      try known > latestRegistrationRevision() || !RegistrationIncarnation.has(known, of: incarnation, in: current)
    let revision = isFromStart ? 0 : known
    var (registrations, ended, last) = ([PushRegistration](), [Int64](), revision)
    var rowCount = 0
    _ = try connection.statement(
      SQL(
        "pushRegistration.page",
        """
        SELECT \(Self.registrationColumns) FROM pushRegistration
        JOIN user ON user.id = user JOIN container ON container.id = container WHERE revision > ?1
        UNION ALL SELECT id, revision, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM pushRegistrationEnd
        WHERE revision > ?1 ORDER BY revision LIMIT \(FetchPushRegistrations.pageLimit)
        """)
    ).binding(revision).all { row in
      rowCount += 1
      last = row.int64(1)
      if row.isNull(8) { ended.append(row.int64(0)) } else { registrations.append(try Self.registration(row)) }
    }
    return FetchPushRegistrations.Reply(
      registrations: registrations, ended: ended, revision: last, isFromStart: isFromStart,
      isLast: rowCount < FetchPushRegistrations.pageLimit, incarnation: current?.name)
  }

  /// Latest first, at most 1000.
  /// - Parameters:
  ///   - container: only those of this container.
  ///   - userName: only this user's, by name or record name.
  func pushRegistrations(of container: ContainerID?, ofUser userName: String?) throws -> [PushRegistrationRow] {
    if let userName {
      guard let user = try key(ofUser: userName)?.key else { return [] }
      return try connection.statement(Self.registrationsOfUser).binding(container?.rawValue, user).all(
        Self.registrationRow)
    }
    return try connection.statement(
      SQL("pushRegistration.list", "\(Self.registrationRows) ORDER BY revision DESC LIMIT 1000")
    ).binding(container?.rawValue).all(Self.registrationRow)
  }

  private static let registrationRows = """
    SELECT \(registrationColumns), user.name, renewed FROM pushRegistration
    JOIN user ON user.id = user JOIN container ON container.id = container
    WHERE (?1 IS NULL OR container.name = ?1)
    """

  /// Reads this user's registrations alone. The sign keeps the index of revisions out, which has those of all users.
  static let registrationsOfUser = SQL(
    "pushRegistration.listOfUser",
    "\(registrationRows) AND pushRegistration.user = ?2 ORDER BY +revision DESC LIMIT 1000")

  private static func registrationRow(_ row: DirectoryStatement) throws -> PushRegistrationRow {
    PushRegistrationRow(registration: try registration(row), userName: row.text(9), renewed: row.int64(10))
  }

  static let registrationColumns = """
    pushRegistration.id, revision, container.name, environment, recordName, clientID, grantText, hearsEveryZone, address
    """

  static func registration(_ row: DirectoryStatement) throws -> PushRegistration {
    PushRegistration(
      id: row.int64(0), revision: row.int64(1),
      device: RegisterForPush.Device(
        container: try containerID(row.text(2)), environment: try environment(row.text(3)), userRecordName: row.text(4),
        clientID: row.text(5), grant: row.text(6)),
      address: try MessagePackDecoder().decode(PushAddress.self, from: row.blob(8)),
      hearsEveryZone: row.bool(7))
  }
}
