// Users and their web-auth tokens.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

/// A user to create.
struct NewUser: Sendable, Hashable {
  let name: String
  var emailAddress: String?
  var phoneNumber: PhoneNumber?
  var givenName: String?
  var familyName: String?
  /// As `PasswordHash` makes it; nil: the user signs in with tokens only.
  var passwordHash: String?
  var isDiscoverable = false
  /// True for an account that its person made where everybody may.
  var isSelfMade = false
}

/// A change of a user; nil leaves a value as it is.
struct UserChange: Sendable, Hashable {
  var emailAddress: String?
  var phoneNumber: PhoneNumber?
  var givenName: String?
  var familyName: String?
  var isDiscoverable: Bool?
}

/// A user as the directory knows them.
struct User: Sendable, Hashable {
  /// `_` and 32 lower-case hex digits.
  let recordName: String
  let name: String
  let emailAddress: String?
  /// As `PhoneNumber` writes it.
  let phoneNumber: String?
  let givenName: String?
  let familyName: String?
  let isDisabled: Bool
  /// True when other users may find this one by record name or address.
  let isDiscoverable: Bool
  let hasPassword: Bool
}

extension Directory {
  /// - Returns: the user's record name and a first web-auth token, which can't be shown again.
  /// - Throws: `exists` for a name, e-mail address or telephone number that is taken.
  func createUser(_ user: NewUser) throws -> (recordName: String, webAuthToken: String) {
    do {
      return try change {
        let (key, recordName) = try insertUser(user)
        return (recordName, try insertWebAuthToken(forUser: key))
      }
    } catch let error as any DirectoryEngineError where error.isUniqueViolation {
      if try key(ofUser: user.name) != nil { throw RecordError(.exists, "The user '\(user.name)' exists already") }
      throw try taken(user.phoneNumber)
    }
  }

  /// The error for an e-mail address or telephone number that another user has.
  private func taken(_ phoneNumber: PhoneNumber?) throws -> RecordError {
    let isPhoneNumber = try phoneNumber.map { try user(phoneNumber: $0) != nil } ?? false
    return RecordError(.exists, "Another user has this \(isPhoneNumber ? "telephone number" : "e-mail address")")
  }

  private static let recordNameByteCount = 16

  /// True for a name that `insertUser` could have drawn.
  static func isUserRecordName(_ name: String) -> Bool {
    name.wholeMatch(of: /_[0-9a-f]+/) != nil && name.utf8.count == 1 + 2 * recordNameByteCount
  }

  /// Within a change.
  func insertUser(_ user: NewUser) throws -> (key: Int64, recordName: String) {
    let recordName = "_" + random.hex(byteCount: Self.recordNameByteCount)
    try connection.statement(
      SQL(
        "user.insert",
        """
        INSERT INTO user (recordName, name, email, givenName, familyName, created, passwordHash, isDiscoverable, phone,
          isSelfMade)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        """)
    ).binding(
      recordName, user.name, user.emailAddress, user.givenName, user.familyName, clock.now, user.passwordHash,
      user.isDiscoverable, user.phoneNumber?.description, user.isSelfMade
    ).run()
    return (try connection.insertedKey(), recordName)
  }

  /// - Returns: the record name.
  /// - Throws: `notFound`; `exists` for an e-mail address or telephone number that is taken.
  func updateUser(_ name: String, _ values: UserChange) throws -> String {
    do {
      return try change {
        let (key, recordName) = try existingUser(name)
        try connection.statement(
          SQL(
            "user.update",
            """
            UPDATE user SET email = coalesce(?2, email), givenName = coalesce(?3, givenName), familyName = \
            coalesce(?4, familyName),
            isDiscoverable = coalesce(?5, isDiscoverable), phone = coalesce(?6, phone) WHERE id = ?1
            """)
        ).binding(
          key, values.emailAddress, values.givenName, values.familyName, values.isDiscoverable,
          values.phoneNumber?.description
        ).run()
        return recordName
      }
    } catch let error as any DirectoryEngineError where error.isUniqueViolation {
      throw try taken(values.phoneNumber)
    }
  }

  /// A page of the users, ascending by name.
  /// - Parameter name: only users behind this name.
  func users(after name: String, limit: Int) throws -> [User] {
    try connection.statement(
      SQL("user.list", "SELECT \(Self.columns) FROM user WHERE name > ?1 ORDER BY name LIMIT ?2")
    ).binding(name, Int64(limit)).all(Self.user)
  }

  func user(recordName: String) throws -> User? {
    try connection.statement(SQL("user.get", "SELECT \(Self.columns) FROM user WHERE recordName = ?1")).binding(
      recordName
    ).first(Self.user)
  }

  /// - Parameter emailAddress: compared without regard to case.
  func user(emailAddress: String) throws -> User? {
    try connection.statement(
      SQL("user.getByEmail", "SELECT \(Self.columns) FROM user WHERE \(connection.isAddress("email", 1))")
    ).binding(
      emailAddress
    ).first(Self.user)
  }

  func user(phoneNumber: PhoneNumber) throws -> User? {
    try connection.statement(SQL("user.getByPhone", "SELECT \(Self.columns) FROM user WHERE phone = ?1")).binding(
      phoneNumber.description
    ).first(Self.user)
  }

  /// - Parameter name: the operator's name for the user, or the record name.
  /// - Throws: `notFound`.
  func recordName(ofUser name: String) throws -> String { try existingUser(name).recordName }

  func recordName(ofKey key: Int64) throws -> String? {
    try connection.statement(SQL("user.recordName", "SELECT recordName FROM user WHERE id = ?1")).binding(key).first {
      $0.text(0)
    }
  }

  // MARK: Passwords

  /// The stored password hash and the user's key; nil for an unknown name and for a user without a password.
  func passwordHash(ofUser name: String) throws -> (key: Int64, hash: String)? {
    try connection.statement(
      SQL("user.password", "SELECT id, passwordHash FROM user WHERE name = ?1 AND passwordHash IS NOT NULL")
    ).binding(name)
      .first { ($0.int64(0), $0.text(1)) }
  }

  /// - Returns: what holds as long as the visit may last; nil for a disabled user, or when the password changed after
  ///   its hash was read.
  func visitor(_ key: Int64, passwordHash: String) throws -> VerifyVisit? {
    try connection.statement(
      SQL(
        "user.visitor",
        "SELECT recordName, signOutCount FROM user WHERE id = ?1 AND passwordHash = ?2 AND isDisabled = 0")
    ).binding(key, passwordHash).first { VerifyVisit(userRecordName: $0.text(0), signOutCount: $0.int64(1)) }
  }

  /// False for a disabled or deleted user, and when all sessions of the user were ended meanwhile.
  func holds(_ visit: VerifyVisit) throws -> Bool {
    try connection.statement(
      SQL("user.visit", "SELECT 1 FROM user WHERE recordName = ?1 AND signOutCount = ?2 AND isDisabled = 0")
    ).binding(visit.userRecordName, visit.signOutCount).first { _ in true } ?? false
  }

  /// Sets a user's password and ends the user's sessions.
  /// - Returns: the record name.
  /// - Throws: `notFound`.
  func setPassword(ofUser name: String, hash: String) throws -> String {
    try change {
      let (key, recordName) = try existingUser(name)
      try connection.statement(SQL("user.setPassword", "UPDATE user SET passwordHash = ?2 WHERE id = ?1")).binding(
        key, hash
      ).run()
      try endSessions(ofUser: key)
      return recordName
    }
  }

  /// Stores the same password with other costs; has no effect when the password changed meanwhile.
  func replacePasswordHash(ofUser key: Int64, _ old: String, with new: String) throws {
    try change {
      try connection.statement(
        SQL("user.rehash", "UPDATE user SET passwordHash = ?3 WHERE id = ?1 AND passwordHash = ?2")
      ).binding(key, old, new).run()
    }
  }

  // MARK: Tokens

  /// Disables a user: every credential of theirs is refused, and their sessions end.
  /// - Parameter name: the operator's name for the user, or the record name.
  /// - Returns: the record name.
  /// - Throws: `notFound`.
  func disableUser(_ name: String) throws -> String {
    try change {
      let (key, recordName) = try existingUser(name)
      try connection.statement(SQL("user.disable", "UPDATE user SET isDisabled = 1 WHERE id = ?1")).binding(key).run()
      try endSessions(ofUser: key)
      return recordName
    }
  }

  /// Reverses `disableUser`: the user's tokens count again. Ended sessions stay ended.
  /// - Returns: the record name.
  /// - Throws: `notFound`.
  func enableUser(_ name: String) throws -> String {
    try change {
      let (key, recordName) = try existingUser(name)
      try connection.statement(SQL("user.enable", "UPDATE user SET isDisabled = 0 WHERE id = ?1")).binding(key).run()
      return recordName
    }
  }

  /// Makes another token, which lives until it is revoked.
  /// - Throws: `notFound`; `badRequest` for a disabled user.
  func createWebAuthToken(forUser name: String) throws -> (recordName: String, webAuthToken: String) {
    try change {
      let (key, recordName) = try existingUser(name)
      guard try user(recordName: recordName)?.isDisabled == false else {
        throw RecordError(.badRequest, "The user '\(name)' is disabled")
      }
      return (recordName, try insertWebAuthToken(forUser: key))
    }
  }

  /// The user of a token; nil for an unknown or revoked token, or a disabled user.
  func userRecordName(forWebAuthToken token: String) throws -> String? {
    let hash = SHA256.hash(token)
    let found = try connection.statement(
      SQL(
        "webAuthToken.user",
        """
        SELECT user.recordName, webAuthToken.hash FROM webAuthToken JOIN user ON user.id = webAuthToken.user \
        WHERE hash = ?1 AND user.isDisabled = 0
        """
      )
    ).binding(hash).first { (recordName: $0.text(0), hash: $0.blob(1)) }
    guard let found, ConstantTime.areEqual(found.hash, hash) else { return nil }
    return found.recordName
  }

  /// Revokes a web-auth token; for a session's token, ends the session.
  /// - Returns: true when there was such a token.
  func revokeWebAuthToken(_ token: String) throws -> Bool {
    try change {
      let hash = SHA256.hash(token)
      let user = try connection.statement(
        SQL(
          "user.ofToken",
          """
          SELECT user FROM session JOIN sessionToken ON session = session.id WHERE hash = ?1
          UNION ALL SELECT user FROM webAuthToken WHERE hash = ?1
          """)
      ).binding(hash).first { $0.int64(0) }
      guard let user else { return false }
      try connection.statement(
        SQL("session.deleteToken", "DELETE FROM session WHERE id = (SELECT session FROM sessionToken WHERE hash = ?1)")
      ).binding(hash).run()
      try connection.statement(SQL("webAuthToken.delete", "DELETE FROM webAuthToken WHERE hash = ?1")).binding(hash)
        .run()
      try endOrphanedRegistrations(ofUser: user)
      return true
    }
  }

  /// 128 hex digits: clients accept only tokens of 100 characters or more as complete, and hex needs no
  /// percent-encoding.
  private func insertWebAuthToken(forUser key: Int64) throws -> String {
    let token = random.hex(byteCount: 64)
    try connection.statement(
      SQL("webAuthToken.insert", "INSERT INTO webAuthToken (hash, user, created) VALUES (?1, ?2, ?3)")
    )
    .binding(SHA256.hash(token), key, clock.now).run()
    return token
  }

  func userExists(_ name: String) throws -> Bool { try key(ofUser: name) != nil }

  func existingUser(_ name: String) throws -> (key: Int64, recordName: String) {
    guard let user = try key(ofUser: name) else { throw RecordError(.notFound, "There is no user '\(name)'") }
    return user
  }

  /// Names never begin with the underscore of record names, so one query can look up both.
  func key(ofUser name: String) throws -> (key: Int64, recordName: String)? {
    try connection.statement(Self.userKey).binding(name).first { ($0.int64(0), $0.text(1)) }
  }

  /// Reads no other users.
  static let userKey = SQL("user.key", "SELECT id, recordName FROM user WHERE name = ?1 OR recordName = ?1")

  private static let columns =
    "recordName, name, email, givenName, familyName, isDisabled, isDiscoverable, passwordHash IS NOT NULL, phone"

  private static func user(_ row: DirectoryStatement) -> User {
    User(
      recordName: row.text(0), name: row.text(1), emailAddress: row.optionalText(2), phoneNumber: row.optionalText(8),
      givenName: row.optionalText(3),
      familyName: row.optionalText(4), isDisabled: row.bool(5), isDiscoverable: row.bool(6), hasPassword: row.bool(7))
  }
}
