// Passkeys of users: their public keys, and sign-in with them.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit
import WebServices

extension DirectoryFormat {
  static let passkeyTable = """
    CREATE TABLE passkey (
      credential BLOB PRIMARY KEY, user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE, key BLOB NOT NULL,
      counter INTEGER NOT NULL, name TEXT NOT NULL, added INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX passkeyUser ON passkey (user);
    """
}

extension Directory {
  static let passkeysPerUser = 20

  struct PasskeyRow {
    let credentialID: [UInt8]
    let shown: UseAccount.Way
  }

  /// Oldest first.
  func passkeys(ofUser key: Int64) throws -> [PasskeyRow] {
    try connection.statement(
      SQL("passkey.list", "SELECT credential, name, added FROM passkey WHERE user = ?1 ORDER BY added, credential")
    ).binding(key).all { row in
      let credentialID = row.blob(0)
      return PasskeyRow(
        credentialID: credentialID,
        shown: UseAccount.Way(
          kind: .passkey, name: Hex.encode(SHA256.hash(credentialID).prefix(16)), displayName: row.text(1),
          added: row.int64(2)))
    }
  }

  /// Within a change that has judged the person.
  /// - Parameter recordName: the user's, for whom the challenge was made.
  func addPasskey(_ registration: PasskeyRegistration, user key: Int64, _ recordName: String) throws
    -> UseAccount.Refusal?
  {
    // Dropped because a person can only try again, whichever check failed.
    guard
      let challenge = try? Passkey.challenge(
        of: registration.clientData, type: "webauthn.create", at: registration.relyingParty, key: signingKey,
        now: clock.now),
      let made = try? Passkey.registered(registration),
      challenge.purpose == .registration(userRecordName: recordName)
    else { return .passkey }
    let answer = registration.clientData + registration.authenticatorData + registration.publicKey
    let claim = use(of: challenge, by: Hex.encode(SHA256.hash(answer)))
    // A gateway that heard nothing repeats its call: the passkey is there, or was removed since.
    if try wasMade(claim) { return try isPasskey(made.credentialID, made.key, ofUser: key) ? nil : .passkey }
    guard try passkeys(ofUser: key).count < Self.passkeysPerUser else { return .tooMany }
    guard try isFirst(claim) else { return .passkey }
    try connection.statement(
      SQL(
        "passkey.insert",
        """
        INSERT INTO passkey (credential, user, key, counter, name, added) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT DO NOTHING
        """)
    ).binding(made.credentialID, key, made.key.der, Int64(made.counter), registration.name, clock.now).run()
    // Without a change the credential is known already.
    return connection.changes > 0 ? nil : .passkey
  }

  private func isPasskey(_ credentialID: [UInt8], _ publicKey: P256PublicKey, ofUser key: Int64) throws -> Bool {
    try connection.statement(
      SQL("passkey.ofUser", "SELECT 1 FROM passkey WHERE credential = ?1 AND user = ?2 AND key = ?3")
    ).binding(credentialID, key, publicKey.der).first { _ in true } ?? false
  }

  /// Within a change that knows another way in.
  func removePasskey(_ credentialID: [UInt8]) throws {
    try connection.statement(SQL("passkey.delete", "DELETE FROM passkey WHERE credential = ?1")).binding(credentialID)
      .run()
  }

  /// A challenge counts once.
  private func use(of challenge: PasskeyChallenge, by requestID: String) -> ClaimSignature {
    ClaimSignature(
      digest: SHA256.hash("aquifer passkey " + challenge.nonce), requestID: requestID, expiry: challenge.expiry)
  }

  enum PasskeySignIn: Sendable {
    case token(String, userName: String)
    case refused(Passkey.Refusal)
    /// The app's API token no longer holds.
    case over
  }

  /// Verifies an assertion and opens the session, in one change that also notes the sign-in.
  func signIn(_ message: SignInByPasskey) throws -> PasskeySignIn {
    try change {
      let apiToken = message.grant.flatMap { Grant(text: $0) }?.apiToken
      if let apiToken, try !isKnown(apiToken: apiToken, message.container, message.environment) { return .over }
      let known = try knownPasskey(message.assertion.credentialID)
      switch try judge(message.assertion, by: known) {
      case .success(let counter):
        guard let known else { return .refused(.credential) }
        try connection.statement(SQL("passkey.count", "UPDATE passkey SET counter = ?2 WHERE credential = ?1"))
          .binding(message.assertion.credentialID, Int64(counter)).run()
        let token = try openSession(
          forUser: known.user, message.container, message.environment, isKept: message.isKept, apiToken: apiToken,
          from: message.source)
        return .token(token, userName: known.userName)
      case .failure(let refusal):
        try insert(
          NotedSignIn(
            source: message.source, user: known?.recordName, container: message.container,
            environment: message.environment, refusal: refusal.rawValue))
        return .refused(refusal)
      }
    }
  }

  private struct KnownPasskey {
    let user: Int64
    let recordName: String
    let userName: String
    let key: P256PublicKey
    let counter: UInt32
    let isDisabled: Bool
  }

  private func knownPasskey(_ credentialID: [UInt8]) throws -> KnownPasskey? {
    try connection.statement(
      SQL(
        "passkey.get",
        """
        SELECT user.id, recordName, user.name, key, counter, isDisabled FROM passkey JOIN user ON user.id = user
        WHERE credential = ?1
        """)
    ).binding(credentialID).first { row in
      KnownPasskey(
        user: row.int64(0), recordName: row.text(1), userName: row.text(2), key: P256PublicKey(der: row.blob(3)),
        counter: UInt32(clamping: row.int64(4)), isDisabled: row.bool(5))
    }
  }

  /// The new counter, or the check that failed. A challenge is used up only by a right signature.
  private func judge(_ assertion: PasskeyAssertion, by known: KnownPasskey?) throws -> Result<UInt32, Passkey.Refusal> {
    let challenge: PasskeyChallenge
    let counter: UInt32
    do throws(Passkey.Refusal) {
      challenge = try Passkey.challenge(
        of: assertion.clientData, type: "webauthn.get", at: assertion.relyingParty, key: signingKey, now: clock.now)
      guard challenge.purpose == .signIn else { throw .challenge }
      guard let known, !known.isDisabled else { throw .credential }
      guard assertion.userHandle.map({ $0 == Array(known.recordName.utf8) }) ?? true else { throw .user }
      counter = try Passkey.verify(assertion, key: known.key, counter: known.counter)
    } catch {
      return .failure(error)
    }
    return try isFirst(use(of: challenge, by: random.uuid())) ? .success(counter) : .failure(.challenge)
  }
}
