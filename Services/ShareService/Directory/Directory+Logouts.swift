// Sessions that end because a person has signed out at a provider of identities.

import SQLite
import ServiceBus

extension DirectoryFormat {
  static let sessionIdentityColumns = """
    ALTER TABLE session ADD COLUMN issuer TEXT;
    ALTER TABLE session ADD COLUMN subject TEXT;
    ALTER TABLE session ADD COLUMN providerSession TEXT;
    CREATE INDEX sessionIdentity ON session (issuer, subject) WHERE issuer NOT NULL;
    CREATE INDEX sessionProvider ON session (issuer, providerSession) WHERE providerSession NOT NULL;
    """
}

extension Directory {
  /// Within the change that opens the session.
  func note(_ person: SignInByIdentity.Person, ofSession key: Int64) throws {
    try connection.statement(
      SQL("session.identity", "UPDATE session SET issuer = ?2, subject = ?3, providerSession = ?4 WHERE id = ?1")
    ).binding(key, person.issuer, person.subject, person.sessionID).run()
  }

  /// Ends sessions of an issuer's people. A session that its provider did not name ends with any of its person's.
  /// - Returns: the number of sessions; nil when the provider's token was used before.
  func end(_ message: EndIdentitySessions) throws -> Int? {
    try change {
      guard try isFirst(message.claim) else { return nil }
      let ended = try connection.statement(
        SQL(
          "session.ofIdentity",
          """
          SELECT id, user FROM session WHERE issuer = ?1 AND (?2 IS NULL OR subject = ?2)
          AND (?3 IS NULL OR providerSession = ?3 OR providerSession IS NULL AND ?2 IS NOT NULL)
          """)
      ).binding(message.issuer, message.subject, message.sessionID).all { (key: $0.int64(0), user: $0.int64(1)) }
      for session in ended {
        try connection.statement(SQL("session.deleteKey", "DELETE FROM session WHERE id = ?1")).binding(session.key)
          .run()
      }
      for user in Set(ended.map(\.user)) { try endOrphanedRegistrations(ofUser: user) }
      return ended.count
    }
  }
}
