// Sessions of the sign-in page: chains of tokens. The latest token counts, and its predecessor for a while.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  struct SessionRow: Sendable, Hashable {
    let name: String
    let userName: String
    let container: ContainerID
    let environment: Environment
    let created: Int64
    let expires: Int64
    /// The time of the latest token, which is at most some minutes before the latest use.
    let lastUsed: Int64
    /// nil for a session from before directories kept it.
    let way: String?
    /// The provider's name; nil without one.
    let provider: String?
    let client: String?
  }

  /// Opens a session for a user whose password was verified.
  /// - Parameters:
  ///   - passwordHash: the hash that the password was verified against.
  ///   - apiToken: the hash of the app's API token; the session ends with it.
  /// - Returns: the first token; nil when the user was disabled, the password changed, or the API token was revoked
  ///   meanwhile.
  /// - Throws: `notFound` for the container.
  func createSession(
    forUser userKey: Int64, passwordHash: String, _ container: ContainerID, _ environment: Environment, isKept: Bool,
    apiToken: [UInt8]? = nil, from source: SignInSource
  ) throws -> String? {
    try change {
      let isUnchanged = try connection.statement(
        SQL("session.user", "SELECT 1 FROM user WHERE id = ?1 AND passwordHash = ?2 AND isDisabled = 0")
      ).binding(userKey, passwordHash).first { $0.int64(0) }
      guard isUnchanged != nil else { return nil }
      if let apiToken, try !isKnown(apiToken: apiToken, container, environment) { return nil }
      return try openSession(
        forUser: userKey, container, environment, isKept: isKept, apiToken: apiToken, from: source)
    }
  }

  /// Within a change that has checked the user and the API token. Notes the sign-in.
  /// - Returns: the first token.
  func openSession(
    forUser userKey: Int64, _ container: ContainerID, _ environment: Environment, isKept: Bool, apiToken: [UInt8]?,
    from source: SignInSource, as person: SignInByIdentity.Person? = nil
  ) throws -> String {
    let token = SessionPolicy.token(random.bytes(64))
    let name = random.hex(byteCount: 8)
    let now = clock.now
    let lifetime = isKept ? sessions.keptLifetime : sessions.lifetime
    try sweepSessions(now)
    try connection.statement(
      SQL(
        "session.insert",
        """
        INSERT INTO session (name, user, container, environment, lifetime, created, expires, apiToken, way, provider, \
        client) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
        """
      )
    ).binding(
      name, userKey, try key(of: container), environment.rawValue, lifetime, now, now + lifetime, apiToken,
      source.way.rawValue, source.provider, source.client
    ).run()
    let session = try connection.insertedKey()
    try insertSessionToken(token, session: session, created: now, expires: now + lifetime)
    if let person { try note(person, ofSession: session) }
    try connection.statement(
      SQL(
        "session.limit",
        """
        DELETE FROM session WHERE user = ?1 AND id NOT IN
          (SELECT id FROM session WHERE user = ?1 ORDER BY id = ?2 DESC, expires DESC, \
        id DESC LIMIT \(SessionPolicy.sessionsPerUser))
        """)
    ).binding(userKey, session).run()
    if connection.changes > 0 { try endOrphanedRegistrations(ofUser: userKey) }
    try insert(
      NotedSignIn(
        source: source, user: try recordName(ofKey: userKey), container: container, environment: environment,
        session: name))
    return token
  }

  /// The user and validity of a token that counts; nil for any other token, and for another container or environment.
  func session(_ token: String, _ container: ContainerID, _ environment: Environment) throws -> (
    userRecordName: String, name: String, token: SessionToken
  )? {
    let hash = SHA256.hash(token)
    let now = clock.now
    let found = try connection.statement(
      SQL(
        "session.get",
        """
        SELECT user.recordName, hash, sessionToken.created, sessionToken.expires, isRotated, session.name \
        FROM sessionToken
        JOIN session ON session.id = sessionToken.session JOIN user ON user.id = session.user
        JOIN container ON container.id = session.container
        WHERE hash = ?1 AND sessionToken.expires > ?2 AND container.name = ?3 AND environment = ?4 \
        AND user.isDisabled = 0
        """)
    ).binding(hash, now, container.rawValue, environment.rawValue).first {
      (
        userRecordName: $0.text(0), name: $0.text(5), hash: $0.blob(1),
        token: SessionToken(created: $0.int64(2), expires: $0.int64(3), isRotated: $0.bool(4))
      )
    }
    guard let found, ConstantTime.areEqual(found.hash, hash) else { return nil }
    return (found.userRecordName, found.name, found.token)
  }

  /// The successor of a token, stored durably; nil when none is due or the session has ended.
  func rotate(_ token: String) throws -> String? {
    let hash = SHA256.hash(token)
    let now = clock.now
    let found = try connection.statement(
      SQL(
        "session.rotating",
        """
        SELECT session.id, lifetime, sessionToken.created, sessionToken.expires, isRotated FROM sessionToken
        JOIN session ON session.id = sessionToken.session JOIN user ON user.id = session.user
        WHERE hash = ?1 AND user.isDisabled = 0
        """)
    ).binding(hash).first {
      (
        session: $0.int64(0), lifetime: $0.int64(1),
        token: SessionToken(created: $0.int64(2), expires: $0.int64(3), isRotated: $0.bool(4))
      )
    }
    guard let found else { return nil }
    let successor = SessionPolicy.successor(of: token, key: signingKey)
    // Also for a token that has expired: the answer that carries the successor was requested while it counted.
    if found.token.isRotated { return successor }
    guard found.token.expires > now, found.token.rotationDelay(sessions, now: now) == 0 else { return nil }
    try change {
      try sweepSessions(now)
      try connection.statement(
        SQL("sessionToken.rotate", "UPDATE sessionToken SET isRotated = 1, expires = ?2 WHERE hash = ?1")
      )
      .binding(hash, min(found.token.expires, now + sessions.grace)).run()
      try insertSessionToken(successor, session: found.session, created: now, expires: now + found.lifetime)
      try connection.statement(SQL("session.extend", "UPDATE session SET expires = ?2 WHERE id = ?1")).binding(
        found.session, now + found.lifetime
      ).run()
    }
    return successor
  }

  private static let sessionRows = """
    SELECT session.name, user.name, container.name, environment, session.created, expires,
      (SELECT max(created) FROM sessionToken WHERE session = session.id), way, provider, client FROM session
    JOIN user ON user.id = session.user JOIN container ON container.id = session.container
    """

  /// Open sessions, latest first.
  /// - Parameter userName: the name or record name of a user, for theirs alone.
  func sessions(ofUser userName: String? = nil) throws -> [SessionRow] {
    if let userName { return try key(ofUser: userName).map { try sessions(ofUser: $0.key) } ?? [] }
    return try connection.statement(
      SQL("session.list", "\(Self.sessionRows) WHERE expires > ?1 ORDER BY session.id DESC")
    ).binding(clock.now).all(Self.sessionRow)
  }

  /// Reads this user's sessions alone.
  static let sessionsOfUser = SQL(
    "session.ofUser", "\(sessionRows) WHERE session.user = ?2 AND expires > ?1 ORDER BY session.id DESC")

  /// Open sessions of one user, latest first.
  func sessions(ofUser key: Int64) throws -> [SessionRow] {
    try connection.statement(Self.sessionsOfUser).binding(clock.now, key).all(Self.sessionRow)
  }

  private static func sessionRow(_ row: DirectoryStatement) throws -> SessionRow {
    SessionRow(
      name: row.text(0), userName: row.text(1), container: try containerID(row.text(2)),
      environment: try environment(row.text(3)), created: row.int64(4), expires: row.int64(5),
      lastUsed: row.optionalInt64(6) ?? row.int64(4), way: row.optionalText(7), provider: row.optionalText(8),
      client: row.optionalText(9))
  }

  /// - Throws: `notFound`.
  func endSession(_ name: String) throws {
    try change {
      let user = try connection.statement(SQL("session.owner", "SELECT user FROM session WHERE name = ?1")).binding(
        name
      ).first { $0.int64(0) }
      guard let user else { throw RecordError(.notFound, "There is no session '\(name)'") }
      try connection.statement(SQL("session.delete", "DELETE FROM session WHERE name = ?1")).binding(name).run()
      try endOrphanedRegistrations(ofUser: user)
    }
  }

  /// Ends all sessions of a user at once, also those in the console.
  /// - Returns: the record name.
  /// - Throws: `notFound`.
  func signOut(user name: String) throws -> String {
    try change {
      let (key, recordName) = try existingUser(name)
      try endSessions(ofUser: key)
      return recordName
    }
  }

  /// Within a change. Ends with the sessions what visitors of shares began by their password (`VerifyVisit`).
  /// - Parameter kept: the key of a session that stays; nil: none stays.
  func endSessions(ofUser userKey: Int64, except kept: Int64? = nil) throws {
    try connection.statement(
      SQL("user.signOut", "UPDATE user SET signOutCount = signOutCount + 1 WHERE id = ?1")
    ).binding(userKey).run()
    try connection.statement(
      SQL("session.deleteUser", "DELETE FROM session WHERE user = ?1 AND id IS DISTINCT FROM ?2")
    ).binding(userKey, kept).run()
    try connection.statement(SQL("consoleSession.deleteUser", "DELETE FROM consoleSession WHERE user = ?1")).binding(
      userKey
    ).run()
    try endOrphanedRegistrations(ofUser: userKey)
  }

  /// Ends the sessions that began with an API token; within a change.
  func endSessions(ofAPIToken hash: [UInt8]) throws {
    try endPushRegistrations(ofAPIToken: hash)
    try connection.statement(SQL("session.deleteAPIToken", "DELETE FROM session WHERE apiToken = ?1")).binding(hash)
      .run()
  }

  private func insertSessionToken(_ token: String, session: Int64, created: Int64, expires: Int64) throws {
    try connection.statement(
      SQL("sessionToken.insert", "INSERT INTO sessionToken (hash, session, created, expires) VALUES (?1, ?2, ?3, ?4)")
    )
    .binding(SHA256.hash(token), session, created, expires).run()
  }

  /// Within a change.
  private func sweepSessions(_ now: Int64) throws {
    try connection.statement(SQL("session.sweep", "DELETE FROM session WHERE expires < ?1")).binding(
      now - SessionPolicy.grantMemory
    ).run()
    try connection.statement(SQL("sessionToken.sweep", "DELETE FROM sessionToken WHERE expires < ?1")).binding(
      now - SessionPolicy.memory
    ).run()
  }

  // MARK: Signatures

  /// Notes used signatures, all in one change.
  /// - Returns: for each, true when it is new or was claimed by the same request before.
  func claim(_ claims: [ClaimSignature]) throws -> [Bool] {
    try change {
      try sweepSignatures()
      return try claims.map(isFirst)
    }
  }

  /// Within a change.
  func sweepSignatures() throws {
    try connection.statement(SQL("usedSignature.sweep", "DELETE FROM usedSignature WHERE expires < ?1")).binding(
      clock.now
    ).run()
  }

  /// Within a change: true when the claim is new or was made by the same request before.
  func isFirst(_ claim: ClaimSignature) throws -> Bool {
    try connection.statement(
      SQL(
        "usedSignature.insert",
        "INSERT INTO usedSignature (digest, request, expires) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
    ).binding(claim.digest, claim.requestID, claim.expiry).run()
    return try connection.changes > 0 || wasMade(claim)
  }

  /// True when the same request made the claim before.
  func wasMade(_ claim: ClaimSignature) throws -> Bool {
    let owner = try connection.statement(
      SQL("usedSignature.get", "SELECT request FROM usedSignature WHERE digest = ?1")
    ).binding(claim.digest).first { $0.text(0) }
    return owner == claim.requestID
  }
}
