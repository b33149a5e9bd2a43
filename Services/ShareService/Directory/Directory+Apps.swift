// Credentials of apps: API tokens, and public keys of servers.

import Crypto
import Records
import SQLite
import ServiceKit

extension Directory {
  /// An API token's row; it does not contain the token.
  struct APITokenRow: Sendable, Hashable {
    /// The token's first characters.
    let beginning: String
    let container: ContainerID
    let environment: Environment
    /// Empty: any origin.
    let allowedOrigins: [String]
    let callbackURL: String?
    let created: Int64
  }

  /// The permissions that an API token gives.
  struct AppPermission: Sendable, Hashable {
    /// Empty: any origin.
    let allowedOrigins: [String]
    let callbackURL: String?
  }

  struct ServerKeyRow: Sendable, Hashable {
    let keyID: String
    let container: ContainerID
    let name: String?
    /// The user that the key acts as.
    let userName: String?
    let created: Int64
  }

  static let shownCharacterCount = 8

  /// - Returns: the token, 64 hex digits. It can't be shown again, because only its hash is stored.
  /// - Throws: `notFound` for the container.
  func createAPIToken(
    _ container: ContainerID, _ environment: Environment, allowedOrigins: [String], callbackURL: String? = nil
  ) throws -> String {
    let token = random.hex(byteCount: 32)
    try change {
      let key = try key(of: container)
      try connection.statement(
        SQL(
          "apiToken.insert",
          """
          INSERT INTO apiToken (hash, beginning, container, environment, allowedOrigins, created, callbackURL) \
          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
          """
        )
      ).binding(
        SHA256.hash(token), String(token.prefix(Self.shownCharacterCount)), key, environment.rawValue,
        allowedOrigins.joined(separator: "\n"), clock.now, callbackURL
      ).run()
    }
    return token
  }

  /// Oldest first.
  func apiTokens() throws -> [APITokenRow] {
    try connection.statement(
      SQL(
        "apiToken.list",
        """
        SELECT beginning, container.name, environment, allowedOrigins, apiToken.created, callbackURL FROM apiToken \
        JOIN container ON container.id = container ORDER BY apiToken.created, beginning
        """
      )
    ).all { row in
      APITokenRow(
        beginning: row.text(0), container: try Self.containerID(row.text(1)),
        environment: try Self.environment(row.text(2)),
        allowedOrigins: Self.origins(row.text(3)), callbackURL: row.optionalText(5), created: row.int64(4))
    }
  }

  /// nil for a token that is unknown, revoked, or of another container or environment.
  func permission(ofAPIToken token: String, _ container: ContainerID, _ environment: Environment) throws
    -> AppPermission?
  {
    let hash = Self.hash(ofAPIToken: token)
    let found = try connection.statement(
      SQL(
        "apiToken.get",
        """
        SELECT hash, allowedOrigins, callbackURL FROM apiToken JOIN container ON container.id = container \
        WHERE hash = ?1 AND container.name = ?2 AND environment = ?3
        """
      )
    ).binding(hash, container.rawValue, environment.rawValue).first {
      (hash: $0.blob(0), origins: $0.text(1), callbackURL: $0.optionalText(2))
    }
    guard let found, ConstantTime.areEqual(found.hash, hash) else { return nil }
    return AppPermission(allowedOrigins: Self.origins(found.origins), callbackURL: found.callbackURL)
  }

  /// Tokens are hex digits, so their case does not matter.
  static func hash(ofAPIToken token: String) -> [UInt8] { SHA256.hash(token.lowercased()) }

  /// Revokes an API token and ends the sessions that began with it. Of a web-auth token the token is revoked, of a
  /// session's token the session ends.
  /// - Parameter token: the whole token, or the beginning of an API token as it is listed.
  /// - Throws: `notFound`, `badRequest` for a beginning that several tokens share.
  func revokeToken(_ token: String) throws {
    if try revokeWebAuthToken(token) { return }
    try change {
      let hashes = try connection.statement(
        SQL("apiToken.find", "SELECT hash FROM apiToken WHERE hash = ?1 OR beginning = ?2")
      )
      .binding(SHA256.hash(token.lowercased()), token.lowercased()).all { $0.blob(0) }
      guard let hash = hashes.first else {
        throw RecordError(.notFound, "There is no token '\(token.prefix(Self.shownCharacterCount))…'")
      }
      guard hashes.count == 1 else {
        throw RecordError(.badRequest, "Several tokens begin with '\(token)': give the whole token")
      }
      try connection.statement(SQL("apiToken.delete", "DELETE FROM apiToken WHERE hash = ?1")).binding(hash).run()
      try endSessions(ofAPIToken: hash)
    }
  }

  /// - Parameters:
  ///   - pem: a P-256 public key that the caller has checked.
  ///   - userName: the user that the key acts as; nil: a new user is created with it.
  /// - Returns: the key's ID, 64 hex digits, and the record name of its user.
  /// - Throws: `notFound` for the container or the user.
  func addServerKey(_ container: ContainerID, name: String?, pem: String, userName: String? = nil) throws -> (
    keyID: String, userRecordName: String
  ) {
    let keyID = random.hex(byteCount: 32)
    return try change {
      let containerKey = try key(of: container)
      let user =
        try userName.map(existingUser)
        ?? insertUser(NewUser(name: "key-" + keyID.prefix(Self.serviceUserCharacterCount)))
      try connection.statement(
        SQL(
          "serverKey.insert",
          "INSERT INTO serverKey (keyID, container, name, pem, created, user) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
      )
      .binding(keyID, containerKey, name, pem, clock.now, user.key).run()
      return (keyID, user.recordName)
    }
  }

  /// The key and its user's record name; nil when the key is unknown, revoked or another container's, or its user is
  /// disabled.
  func serverKey(_ keyID: String, _ container: ContainerID) throws -> (
    publicKey: P256PublicKey, userRecordName: String
  )? {
    let found = try connection.statement(
      SQL(
        "serverKey.get",
        """
        SELECT pem, user.recordName FROM serverKey JOIN container ON container.id = serverKey.container \
        JOIN user ON user.id = serverKey.user
        WHERE keyID = ?1 AND container.name = ?2 AND user.isDisabled = 0
        """)
    ).binding(keyID, container.rawValue).first { (pem: $0.text(0), recordName: $0.text(1)) }
    guard let found, let key = P256PublicKey(pem: found.pem) else { return nil }
    return (key, found.recordName)
  }

  /// Characters of a key's ID in the name of the user created with it.
  private static let serviceUserCharacterCount = 16

  /// Oldest first.
  func serverKeys() throws -> [ServerKeyRow] {
    try connection.statement(
      SQL(
        "serverKey.list",
        """
        SELECT keyID, container.name, serverKey.name, serverKey.created, user.name FROM serverKey
        JOIN container ON container.id = serverKey.container LEFT JOIN user ON user.id = serverKey.user ORDER BY \
        serverKey.created, keyID
        """)
    ).all { row in
      ServerKeyRow(
        keyID: row.text(0), container: try Self.containerID(row.text(1)), name: row.optionalText(2),
        userName: row.optionalText(4), created: row.int64(3))
    }
  }

  /// - Throws: `notFound`.
  func revokeServerKey(_ keyID: String) throws {
    try change {
      try connection.statement(SQL("serverKey.delete", "DELETE FROM serverKey WHERE keyID = ?1")).binding(
        keyID.lowercased()
      ).run()
      guard connection.changes > 0 else { throw RecordError(.notFound, "There is no key '\(keyID)'") }
    }
  }

  /// The container of a listed token, key or session; nil for an unknown one, and for one that several names fit.
  /// - Parameter noun: `tokens`, `keys` or `sessions`.
  func container(of noun: String, named name: String) throws -> ContainerID? {
    let containers: [ContainerID] =
      switch noun {
      case "tokens":
        try apiTokens().filter { name.lowercased().hasPrefix($0.beginning) }.map(\.container)
      case "keys": try serverKeys().filter { $0.keyID == name.lowercased() }.map(\.container)
      case "sessions": try sessions().filter { $0.name == name }.map(\.container)
      default: []
      }
    return containers.count == 1 ? containers[0] : nil
  }

  static func environment(_ name: String) throws -> Environment {
    guard let environment = Environment(rawValue: name) else {
      throw RecordError(.internalError, "A stored environment has no valid name")
    }
    return environment
  }

  private static func origins(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }
}
