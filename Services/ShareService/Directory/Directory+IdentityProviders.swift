// Providers of identities: their registrations, with secrets and icons.

import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit

/// A rule for people whom a provider identifies for the first time.
enum SignUpRule: String, Sendable, CaseIterable {
  /// Everybody becomes a user.
  case open
  /// People become users with an invitation for their verified address, by an operator or to a share of the app.
  case invited
  /// Nobody does: an operator makes users.
  case closed
}

extension Directory {
  struct IdentityProviderRow: Sendable, Hashable {
    let entry: IdentityProviderEntry
    /// nil: all containers.
    let container: ContainerID?
    let signUp: SignUpRule
    /// Milliseconds since 1970.
    let created: Int64
  }

  static let identityProviderLimit = 50

  /// - Throws: `notFound` for the container; `exists` for a name that is taken; `badRequest` for one too many.
  func addIdentityProvider(_ entry: IdentityProviderEntry, of container: ContainerID?, signUp: SignUpRule) throws {
    do {
      try change {
        guard try count("SELECT count(*) FROM identityProvider") < Self.identityProviderLimit else {
          throw RecordError(.badRequest, "There are \(Self.identityProviderLimit) providers, which is the limit")
        }
        try connection.statement(
          SQL(
            "identityProvider.insert",
            """
            INSERT INTO identityProvider (name, container, entry, issuer, signUp, created) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """)
        ).binding(
          entry.name, try container.map { try key(of: $0) }, try MessagePackEncoder().encode(entry), entry.issuer,
          signUp.rawValue, clock.now
        ).run()
      }
    } catch let error as any DirectoryEngineError where error.isUniqueViolation {
      throw RecordError(.exists, "There is a provider '\(entry.name)' already")
    }
  }

  /// - Parameter icon: nil: none from now on.
  /// - Throws: `notFound`.
  func setIcon(_ icon: ProviderIcon?, ofProvider name: String) throws {
    try change {
      guard var entry = try identityProviders().first(where: { $0.entry.name == name })?.entry else {
        throw RecordError(.notFound, "There is no provider '\(name)'")
      }
      entry.icon = icon
      try connection.statement(SQL("identityProvider.icon", "UPDATE identityProvider SET entry = ?2 WHERE name = ?1"))
        .binding(name, try MessagePackEncoder().encode(entry)).run()
    }
  }

  /// The users keep their sessions and their identities, which count again when the issuer is registered again.
  /// - Throws: `notFound`.
  func removeIdentityProvider(_ name: String) throws {
    try change {
      try connection.statement(SQL("identityProvider.delete", "DELETE FROM identityProvider WHERE name = ?1"))
        .binding(name).run()
      guard connection.changes > 0 else { throw RecordError(.notFound, "There is no provider '\(name)'") }
    }
  }

  /// Ascending by name.
  /// - Parameter container: only those with which people sign in to this container's app.
  func identityProviders(of container: ContainerID? = nil) throws -> [IdentityProviderRow] {
    try connection.statement(
      SQL(
        "identityProvider.list",
        """
        SELECT entry, container.name, signUp, identityProvider.created FROM identityProvider
        LEFT JOIN container ON container.id = container
        WHERE ?1 IS NULL OR container IS NULL OR container.name = ?1 ORDER BY identityProvider.name
        """)
    ).binding(container?.rawValue).all(Self.identityProvider)
  }

  private static func identityProvider(_ row: DirectoryStatement) throws -> IdentityProviderRow {
    guard let signUp = SignUpRule(rawValue: row.text(2)) else {
      throw RecordError(.internalError, "A stored provider has no valid rule for sign-up")
    }
    return IdentityProviderRow(
      entry: try MessagePackDecoder().decode(IdentityProviderEntry.self, from: row.blob(0)),
      container: try row.optionalText(1).map(containerID), signUp: signUp, created: row.int64(3))
  }
}
