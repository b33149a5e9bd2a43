// People whom providers of identities have identified, and their sign-up.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

extension Directory {
  static let invitationLimit = 10_000

  // MARK: Sign-in

  /// Finds or makes the person's user and opens a session, in one change that also notes the sign-in.
  /// - Parameter claim: uses the provider's token up in that change; nil: there is none, or the gateway did.
  func signIn(_ message: SignInByIdentity, claim: ClaimSignature? = nil) throws -> SignInByIdentity.Reply {
    // A gateway of an earlier release tells no source.
    let source = message.source ?? SignInSource(way: .provider, provider: message.provider, address: "")
    return try change {
      let reply = try admit(message, claim, from: source)
      if let refusal = reply.refusal {
        try insert(
          NotedSignIn(
            source: source, user: try identifiedUser(message.person)?.recordName, container: message.container,
            environment: message.environment, refusal: refusal.rawValue))
      }
      return reply
    }
  }

  private func admit(
    _ message: SignInByIdentity, _ claim: ClaimSignature?, from source: SignInSource
  ) throws -> SignInByIdentity.Reply {
    if let claim {
      try sweepSignatures()
      guard try isFirst(claim) else { return SignInByIdentity.Reply(refusal: .used) }
    }
    let apiToken = message.grant.flatMap { Grant(text: $0) }?.apiToken
    let rows = try identityProviders(of: message.container)
    guard
      let provider = rows.first(where: {
        $0.entry.name == message.provider && $0.entry.issuer == message.person.issuer
      })
    else { return SignInByIdentity.Reply(refusal: .provider) }
    if let apiToken, try !isKnown(apiToken: apiToken, message.container, message.environment) {
      return SignInByIdentity.Reply(refusal: .apiToken)
    }
    let user: IdentifiedUser
    switch try identifiedUser(message.person) {
    case let known?: user = known
    case nil:
      if let refusal = try signUpRefusal(message, provider.signUp) {
        return SignInByIdentity.Reply(refusal: refusal)
      }
      user = try signUp(message.person, at: provider)
    }
    guard !user.isDisabled else { return SignInByIdentity.Reply(refusal: .disabled) }
    return SignInByIdentity.Reply(
      webAuthToken: try openSession(
        forUser: user.key, message.container, message.environment, isKept: message.isKept, apiToken: apiToken,
        from: source, as: message.person),
      userRecordName: user.recordName, userName: user.name)
  }

  struct IdentifiedUser {
    let key: Int64
    let recordName: String
    let name: String
    let isDisabled: Bool
  }

  func identifiedUser(_ person: SignInByIdentity.Person) throws -> IdentifiedUser? {
    try connection.statement(
      SQL(
        "identity.user",
        """
        SELECT user.id, recordName, user.name, isDisabled FROM identity JOIN user ON user.id = identity.user
        WHERE issuer = ?1 AND subject = ?2
        """)
    ).binding(person.issuer, person.subject).first {
      IdentifiedUser(key: $0.int64(0), recordName: $0.text(1), name: $0.text(2), isDisabled: $0.bool(3))
    }
  }

  /// nil: the person may become a user. An address alone never leads to an existing user, because a provider may have
  /// another idea of its owner.
  private func signUpRefusal(_ message: SignInByIdentity, _ rule: SignUpRule) throws -> SignInByIdentity.Refusal? {
    let (address, number) = (message.person.emailAddress, message.person.phoneNumber)
    switch rule {
    case .open: break
    case .closed: return .closed
    case .invited:
      let isInvited =
        try address.map(isInvited) ?? false
        || isInvitedToShare(emailAddress: address, phoneNumber: number, message.container, message.environment)
      guard isInvited else { return .uninvited }
    }
    if let address, try key(ofUserWithAddress: address) != nil { return .addressTaken }
    if let number = number.flatMap({ PhoneNumber($0) }), try user(phoneNumber: number) != nil { return .addressTaken }
    return nil
  }

  /// Makes a user. The name is the verified address, or the provider's name and some digits.
  private func signUp(_ person: SignInByIdentity.Person, at provider: IdentityProviderRow) throws -> IdentifiedUser {
    let address = person.emailAddress ?? ""
    let isName =
      !address.isEmpty && !address.hasPrefix("_") && address.utf8.count <= Limit.nameByteCount
    let isFree = try isName && key(ofUser: address) == nil
    let name = isFree ? address : "\(provider.entry.name)-\(random.hex(byteCount: 6))"
    let (key, recordName) = try insertUser(
      NewUser(
        name: name, emailAddress: person.emailAddress, phoneNumber: person.phoneNumber.flatMap { PhoneNumber($0) },
        givenName: person.givenName, familyName: person.familyName, isSelfMade: provider.signUp == .open))
    try insertIdentity(of: person, user: key)
    if let address = person.emailAddress {
      try connection.statement(
        SQL("invitation.use", "DELETE FROM invitation WHERE \(connection.isAddress("email", 1))")
      ).binding(address).run()
    }
    return IdentifiedUser(key: key, recordName: recordName, name: name, isDisabled: false)
  }

  /// Within a change.
  func insertIdentity(of person: SignInByIdentity.Person, user key: Int64) throws {
    try connection.statement(
      SQL("identity.insert", "INSERT INTO identity (issuer, subject, user, added) VALUES (?1, ?2, ?3, ?4)")
    ).binding(person.issuer, person.subject, key, clock.now).run()
  }

  private func key(ofUserWithAddress address: String) throws -> Int64? {
    try connection.statement(SQL("user.address", "SELECT id FROM user WHERE \(connection.isAddress("email", 1))"))
      .binding(address).first {
        $0.int64(0)
      }
  }

  // MARK: Invitations

  /// Repeating it changes nothing.
  /// - Throws: `exists` for a user's address; `badRequest` for one too many.
  func invite(_ address: String) throws {
    try change {
      guard try key(ofUserWithAddress: address) == nil else {
        throw RecordError(.exists, "A user has this e-mail address already")
      }
      guard try count("SELECT count(*) FROM invitation") < Self.invitationLimit else {
        throw RecordError(.badRequest, "There are \(Self.invitationLimit) invitations, which is the limit")
      }
      try connection.statement(
        SQL("invitation.insert", "INSERT INTO invitation (email, created) VALUES (?1, ?2) ON CONFLICT DO NOTHING")
      ).binding(address, clock.now).run()
    }
  }

  /// - Throws: `notFound`.
  func withdrawInvitation(_ address: String) throws {
    try change {
      try connection.statement(
        SQL("invitation.delete", "DELETE FROM invitation WHERE \(connection.isAddress("email", 1))")
      ).binding(address)
        .run()
      guard connection.changes > 0 else { throw RecordError(.notFound, "Nobody invited '\(address)'") }
    }
  }

  /// Addresses with the times of their invitations, in milliseconds since 1970; oldest first.
  func invitations() throws -> [(address: String, created: Int64)] {
    try connection.statement(
      SQL("invitation.list", "SELECT email, created FROM invitation ORDER BY created, email")
    ).all { ($0.text(0), $0.int64(1)) }
  }

  private func isInvited(_ address: String) throws -> Bool {
    try connection.statement(
      SQL("invitation.get", "SELECT 1 FROM invitation WHERE \(connection.isAddress("email", 1))")
    ).binding(address)
      .first { _ in true } ?? false
  }

  /// The one number that a query without parameters selects; 0 for NULL.
  func count(_ query: String) throws -> Int64 {
    // PostgreSQL takes names of 40 bytes. Queries differ in their ends.
    try connection.statement(SQL("c." + query.suffix(38), query)).first { $0.int64(0) } ?? 0
  }
}
