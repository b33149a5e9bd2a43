// Devices that wait until a person allows their code (RFC 8628).

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

extension DirectoryFormat {
  /// `device` is the SHA-256 of the device's code. A row has a user once somebody allowed it.
  static let deviceSignInTable = """
    CREATE TABLE deviceSignIn (
      device BLOB PRIMARY KEY, userCode TEXT NOT NULL UNIQUE,
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, environment TEXT NOT NULL,
      grantText TEXT NOT NULL, name TEXT, address TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL,
      user INTEGER REFERENCES user (id) ON DELETE CASCADE, isRefused INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE INDEX deviceSignInExpires ON deviceSignIn (expires);
    CREATE INDEX deviceSignInAddress ON deviceSignIn (address);
    CREATE INDEX deviceSignInContainer ON deviceSignIn (container);
    CREATE INDEX deviceSignInUser ON deviceSignIn (user);
    """

  /// The networks that a customer may own with all their addresses: of an IPv6 address its /64 and its /48, of an IPv4
  /// address itself.
  static let deviceNetworks = """
    ALTER TABLE deviceSignIn ADD COLUMN network TEXT NOT NULL DEFAULT '';
    ALTER TABLE deviceSignIn ADD COLUMN site TEXT NOT NULL DEFAULT '';
    DROP INDEX deviceSignInAddress;
    CREATE INDEX deviceSignInNetwork ON deviceSignIn (network);
    CREATE INDEX deviceSignInSite ON deviceSignIn (site);
    """

  /// The session on the account page that allowed the device. The row goes with it, however it ends.
  static let deviceSessions = """
    ALTER TABLE deviceSignIn ADD COLUMN session INTEGER REFERENCES session (id) ON DELETE CASCADE;
    CREATE INDEX deviceSignInSession ON deviceSignIn (session);
    """
}

extension Directory {
  /// Devices that wait: of all, of one container, and of one address or a customer's networks.
  static let waitingDeviceLimit = 10_000
  static let devicesPerContainer = 2000
  static let devicesPerSite = 100
  static let devicesPerAddress = 20

  /// - Throws: `notFound` for the container.
  func begin(_ message: BeginDeviceSignIn) throws -> BeginDeviceSignIn.Reply {
    let deviceCode = random.hex(byteCount: 32)
    return try change {
      try connection.statement(SQL("deviceSignIn.sweep", "DELETE FROM deviceSignIn WHERE expires <= ?1")).binding(
        clock.now
      ).run()
      let container = try key(of: message.container)
      let networks = SignInDesk.origin(of: message.source.address).networks
      let (network, site) = (networks.first ?? "", networks.last ?? "")
      guard try hasRoomForDevice(of: container, network: network, site: site) else { return BeginDeviceSignIn.Reply() }
      // Another device has the code once in millions of years; then the database refuses the row.
      guard let userCode = UserCode(letters()) else { return BeginDeviceSignIn.Reply() }
      try connection.statement(
        SQL(
          "deviceSignIn.insert",
          """
          INSERT INTO deviceSignIn (device, userCode, container, environment, grantText, name, address, created, \
          expires, network, site) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
          """)
      ).binding(
        SHA256.hash(deviceCode), userCode.letters, container, message.environment.rawValue, message.grant,
        message.source.client, message.source.address, clock.now, clock.now + BeginDeviceSignIn.lifetime, network, site
      ).run()
      return BeginDeviceSignIn.Reply(deviceCode: deviceCode, userCode: userCode)
    }
  }

  private func hasRoomForDevice(of container: Int64, network: String, site: String) throws -> Bool {
    try connection.statement(
      SQL(
        "deviceSignIn.counts",
        """
        SELECT (SELECT count(*) FROM deviceSignIn), (SELECT count(*) FROM deviceSignIn WHERE container = ?1),
          (SELECT count(*) FROM deviceSignIn WHERE site = ?2), (SELECT count(*) FROM deviceSignIn WHERE network = ?3)
        """)
    ).binding(container, site, network).first { row in
      row.int(0) < Self.waitingDeviceLimit && row.int(1) < Self.devicesPerContainer
        && row.int(2) < Self.devicesPerSite && row.int(3) < Self.devicesPerAddress
    } ?? false
  }

  /// Letters of the alphabet, each as probable as any other.
  private func letters() -> String {
    var letters = ""
    let alphabet = UserCode.alphabet
    while letters.count < UserCode.letterCount {
      for byte in random.bytes(UserCode.letterCount) where Int(byte) < 256 / alphabet.count * alphabet.count {
        letters.append(alphabet[Int(byte) % alphabet.count])
      }
    }
    return String(letters.prefix(UserCode.letterCount))
  }

  /// nil for a code with which no device waits.
  func waitingDevice(_ code: UserCode) throws -> LookUpDeviceSignIn.Device? {
    try connection.statement(
      SQL(
        "deviceSignIn.waiting",
        """
        SELECT container.name, environment, grantText, deviceSignIn.name, address, deviceSignIn.created
        FROM deviceSignIn JOIN container ON container.id = container
        WHERE userCode = ?1 AND expires > ?2 AND user IS NULL AND isRefused = 0
        """)
    ).binding(code.letters, clock.now).first { row in
      LookUpDeviceSignIn.Device(
        container: try Self.containerID(row.text(0)), environment: try Self.environment(row.text(1)),
        grant: row.text(2), name: row.optionalText(3), address: row.text(4), created: row.int64(5))
    }
  }

  /// Within a change that has judged the person. A permission stands as long as the session that gave it.
  /// - Parameter own: the session that allows the device; nil turns the device away.
  /// - Returns: `device` when none waits with the code; nil also for a repetition.
  func decide(_ code: UserCode, allowedBy own: OwnSession?) throws -> UseAccount.Refusal? {
    guard let device = try waitingDevice(code) else { return try isDecided(code, user: own?.user) ? nil : .device }
    try connection.statement(
      SQL(
        "deviceSignIn.decide",
        """
        UPDATE deviceSignIn SET user = ?2, session = ?3, isRefused = CASE WHEN ?2 IS NULL THEN 1 ELSE 0 END
        WHERE userCode = ?1
        """)
    ).binding(code.letters, own?.user, own?.key).run()
    if own == nil {
      try insert(
        NotedSignIn(
          source: SignInSource(way: .device, address: device.address, client: device.name),
          container: device.container, environment: device.environment, refusal: "person"))
    }
    return nil
  }

  /// True while a device that has not asked since was given this answer.
  private func isDecided(_ code: UserCode, user: Int64?) throws -> Bool {
    try connection.statement(
      SQL(
        "deviceSignIn.decided",
        """
        SELECT 1 FROM deviceSignIn
        WHERE userCode = ?1 AND expires > ?2 AND (user = ?3 OR (?3 IS NULL AND isRefused = 1))
        """)
    ).binding(code.letters, clock.now, user).first { _ in true } ?? false
  }

  /// Opens the session of a device whose code somebody allowed, once.
  func poll(_ message: PollDeviceSignIn) throws -> PollDeviceSignIn.Reply {
    let device = Array(SHA256.hash(message.deviceCode))
    let found = try connection.statement(
      SQL(
        "deviceSignIn.poll",
        """
        SELECT deviceSignIn.user, isRefused, grantText, deviceSignIn.name, address, issuer, subject, providerSession
        FROM deviceSignIn JOIN container ON container.id = deviceSignIn.container
        LEFT JOIN session ON session.id = deviceSignIn.session
        WHERE device = ?1 AND deviceSignIn.expires > ?2 AND container.name = ?3 AND deviceSignIn.environment = ?4
        """)
    ).binding(device, clock.now, message.container.rawValue, message.environment.rawValue).first { row in
      (
        user: row.optionalInt64(0), isRefused: row.bool(1), apiToken: Grant(text: row.text(2))?.apiToken,
        source: SignInSource(way: .device, address: row.text(4), client: row.optionalText(3)),
        // The device's session ends with that at the provider, too.
        person: row.optionalText(5).map {
          SignInByIdentity.Person(
            issuer: $0, subject: row.text(6), emailAddress: nil, givenName: nil, familyName: nil,
            sessionID: row.optionalText(7))
        }
      )
    }
    guard let found else { return .expired }
    guard found.isRefused || found.user != nil else { return .pending }
    return try change {
      try connection.statement(SQL("deviceSignIn.delete", "DELETE FROM deviceSignIn WHERE device = ?1")).binding(device)
        .run()
      guard let user = found.user else { return .refused }
      guard let apiToken = found.apiToken, try isKnown(apiToken: apiToken, message.container, message.environment),
        let recordName = try recordName(ofKey: user), try self.user(recordName: recordName)?.isDisabled == false
      else { return .expired }
      return .signedIn(
        webAuthToken: try openSession(
          forUser: user, message.container, message.environment, isKept: true, apiToken: apiToken, from: found.source,
          as: found.person))
    }
  }
}
