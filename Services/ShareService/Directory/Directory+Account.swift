// A person's own account: what they see of their sessions and ways to sign in, and what they may change.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  /// Identities of one user.
  static let identitiesPerUser = 20

  /// The session of the account page, and its user.
  struct OwnSession {
    let key: Int64
    let user: Int64
  }

  /// Carries out what a person does on the account page, and reads the account as it is then, in one change.
  func use(_ message: UseAccount) throws -> UseAccount.Reply {
    try change {
      guard let own = try ownSession(message) else { return UseAccount.Reply() }
      var refusal: UseAccount.Refusal?
      switch message.act {
      case .look: break
      case .endSession(let name):
        try connection.statement(
          SQL("session.deleteOwn", "DELETE FROM session WHERE user = ?1 AND name = ?2")
        ).binding(own.user, name).run()
        try endOrphanedRegistrations(ofUser: own.user)
      case .endOtherSessions: try endSessions(ofUser: own.user, except: own.key)
      case .link(let provider, let person):
        refusal = try link(person, of: provider, at: message.container, toUser: own.user)
      case .addPasskey(let registration):
        refusal = try addPasskey(registration, user: own.user, message.userRecordName)
      case .removeWay(let name): refusal = try removeWay(name, fromUser: own.user)
      case .allowDevice(let code): refusal = try decide(code, allowedBy: own)
      case .refuseDevice(let code): refusal = try decide(code, allowedBy: nil)
      }
      // The person may have ended the page's own session.
      guard try ownSession(message) != nil else { return UseAccount.Reply() }
      return UseAccount.Reply(account: try account(own), refusal: refusal)
    }
  }

  /// nil unless the grant is that of a session that began on the account page shortly before.
  private func ownSession(_ message: UseAccount) throws -> OwnSession? {
    let verified = VerifyGrant(
      container: message.container, environment: message.environment, userRecordName: message.userRecordName,
      grant: message.grant)
    guard case .session(let name) = Grant(text: message.grant)?.user, try holds(verified) else { return nil }
    return try connection.statement(
      SQL("session.own", "SELECT id, user FROM session WHERE name = ?1 AND created > ?2")
    ).binding(name, clock.now - UseAccount.sessionTime).first { OwnSession(key: $0.int64(0), user: $0.int64(1)) }
  }

  private func account(_ own: OwnSession) throws -> UseAccount.Account {
    let ownName = try connection.statement(SQL("session.name", "SELECT name FROM session WHERE id = ?1")).binding(
      own.key
    ).first { $0.text(0) }
    return UseAccount.Account(
      sessions: try sessions(ofUser: own.user).map { row in
        UseAccount.Session(
          name: row.name, container: row.container, environment: row.environment, client: row.client,
          provider: row.provider, created: row.created, lastUsed: row.lastUsed, isOwn: row.name == ownName)
      },
      ways: try identities(ofUser: own.user).map(\.shown) + passkeys(ofUser: own.user).map(\.shown),
      hasPassword: try hasPassword(own.user))
  }

  // MARK: Ways to sign in

  private struct IdentityRow {
    let issuer: String
    let subject: String
    /// True while people can sign in with this issuer.
    let counts: Bool
    let shown: UseAccount.Way
  }

  private func identities(ofUser key: Int64) throws -> [IdentityRow] {
    let providers = try identityProviders()
    return try connection.statement(
      SQL(
        "identity.ofUser", "SELECT issuer, subject, added FROM identity WHERE user = ?1 ORDER BY added, issuer, subject"
      )
    ).binding(key).all { row in
      let (issuer, subject) = (row.text(0), row.text(1))
      let provider = providers.first { $0.entry.issuer == issuer }
      return IdentityRow(
        issuer: issuer, subject: subject, counts: provider != nil,
        shown: UseAccount.Way(
          kind: .identity, name: Hex.encode(SHA256.hash("\(issuer)\n\(subject)").prefix(16)),
          displayName: provider?.entry.displayName ?? issuer, added: row.int64(2)))
    }
  }

  private func link(
    _ person: SignInByIdentity.Person, of provider: String, at container: ContainerID, toUser key: Int64
  ) throws -> UseAccount.Refusal? {
    let isOffered = try identityProviders(of: container).contains {
      $0.entry.name == provider && $0.entry.issuer == person.issuer
    }
    guard isOffered else { return .provider }
    if let owner = try identifiedUser(person) { return owner.key == key ? nil : .taken }
    guard try identities(ofUser: key).count < Self.identitiesPerUser else { return .tooMany }
    try insertIdentity(of: person, user: key)
    return nil
  }

  private func removeWay(_ name: String, fromUser key: Int64) throws -> UseAccount.Refusal? {
    let (identities, passkeys) = (try identities(ofUser: key), try passkeys(ofUser: key))
    let hasOtherWay =
      try hasPassword(key) || identities.contains { $0.counts && $0.shown.name != name }
      || passkeys.contains { $0.shown.name != name }
    guard hasOtherWay else { return .lastWay }
    // One that is gone already was the person's wish.
    for identity in identities where identity.shown.name == name {
      try connection.statement(
        SQL("identity.delete", "DELETE FROM identity WHERE issuer = ?1 AND subject = ?2")
      ).binding(identity.issuer, identity.subject).run()
    }
    for passkey in passkeys where passkey.shown.name == name { try removePasskey(passkey.credentialID) }
    return nil
  }

  private func hasPassword(_ key: Int64) throws -> Bool {
    try connection.statement(SQL("user.hasPassword", "SELECT passwordHash IS NOT NULL FROM user WHERE id = ?1"))
      .binding(
        key
      )
      .first { $0.bool(0) } ?? false
  }
}
