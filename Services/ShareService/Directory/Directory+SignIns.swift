// The audit of sign-ins: who signed in, by which way and from where, and who was refused.

import Records
import SQLite
import ServiceBus
import ServiceKit

/// A sign-in as the audit notes it. It has no secret, and no name that nobody has: people type passwords into the field
/// of the name.
struct NotedSignIn: Sendable, Hashable {
  let source: SignInSource
  /// The record name; nil for a person whom the directory does not know.
  var user: String?
  /// nil where people sign in to the installation.
  var container: ContainerID?
  var environment: Environment?
  /// The name of the session that began; nil for none.
  var session: String?
  /// A word for the reason; nil for a sign-in that succeeded.
  var refusal: String?
}

extension Directory {
  struct SignInRow: Sendable, Hashable {
    let number: Int64
    /// Milliseconds since 1970.
    let at: Int64
    let signIn: NotedSignIn
    /// nil for a user who was deleted.
    let userName: String?
  }

  /// The latest sign-ins that stay, of the successful and of the refused ones: strangers can't push out the others.
  static let signInLimit: Int64 = 100_000
  /// Unit: milliseconds.
  static let signInMemory: Int64 = 90 * 86_400_000
  /// Those beyond the limit go together, since counting them takes time.
  static let signInSweepCount: Int64 = 1000

  /// Notes sign-ins in one change.
  /// - Parameter limit: the number of latest ones that stay of either kind.
  func note(_ signIns: [NotedSignIn], keeping limit: Int64 = signInLimit) throws {
    try change { for signIn in signIns { try insert(signIn, keeping: limit) } }
  }

  /// Within a change.
  func insert(_ signIn: NotedSignIn, keeping limit: Int64 = signInLimit) throws {
    try connection.statement(
      SQL(
        "signIn.insert",
        """
        INSERT INTO signIn (at, way, provider, user, container, environment, address, client, session, refusal)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        """)
    ).binding(
      clock.now, signIn.source.way.rawValue, signIn.source.provider, signIn.user, signIn.container?.rawValue,
      signIn.environment?.rawValue, signIn.source.address, signIn.source.client, signIn.session, signIn.refusal
    ).run()
    let number = try connection.insertedKey()
    try connection.statement(SQL("signIn.sweep", "DELETE FROM signIn WHERE at < ?1")).binding(
      clock.now - Self.signInMemory
    ).run()
    guard number.isMultiple(of: Self.signInSweepCount) else { return }
    for isRefused in [false, true] {
      try connection.statement(
        SQL(
          "signIn.limit",
          """
          DELETE FROM signIn WHERE CASE WHEN refusal IS NULL THEN 0 ELSE 1 END = ?1 AND number <=
            (SELECT number FROM signIn WHERE CASE WHEN refusal IS NULL THEN 0 ELSE 1 END = ?1
              ORDER BY number DESC LIMIT 1 OFFSET ?2)
          """)
      ).binding(isRefused, limit).run()
    }
  }

  /// Newest first.
  /// - Parameters:
  ///   - container: only those at this container's app.
  ///   - user: only this user's, by name or record name.
  ///   - before: only sign-ins with a lower number; nil: all.
  func signIns(in container: ContainerID?, ofUser user: String?, before: Int64?, limit: Int) throws -> [SignInRow] {
    let recordName = try user.map { try key(ofUser: $0)?.recordName ?? $0 }
    return try connection.statement(
      SQL(
        "signIn.list",
        """
        SELECT number, at, way, provider, signIn.user, container, environment, address, client, session, refusal,
          user.name
        FROM signIn LEFT JOIN user ON user.recordName = signIn.user
        WHERE (?1 IS NULL OR container = ?1) AND (?2 IS NULL OR signIn.user = ?2) AND number < ?3
        ORDER BY number DESC LIMIT ?4
        """)
    ).binding(container?.rawValue, recordName, before ?? Int64.max, Int64(limit)).all { row in
      guard let way = SignInSource.Way(rawValue: row.text(2)) else {
        throw RecordError(.internalError, "A stored sign-in has no valid way")
      }
      let signIn = NotedSignIn(
        source: SignInSource(
          way: way, provider: row.optionalText(3), address: row.text(7), client: row.optionalText(8)),
        user: row.optionalText(4), container: try row.optionalText(5).map(Self.containerID),
        environment: try row.optionalText(6).map(Self.environment), session: row.optionalText(9),
        refusal: row.optionalText(10))
      return SignInRow(number: row.int64(0), at: row.int64(1), signIn: signIn, userName: row.optionalText(11))
    }
  }
}
