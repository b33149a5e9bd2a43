// Names of credentials that are no credentials themselves, for addresses that must end together with them.

import Crypto
import Records
import SQLite
import ServiceBus
import ServiceKit

/// Names the credentials of a request. Clients hold its text in addresses, so it contains only hashes of tokens and
/// names of sessions.
struct Grant: Hashable, Sendable {
  enum User: Hashable, Sendable {
    case session(String)
    /// The token's SHA-256.
    case webAuthToken([UInt8])
  }

  /// The token's SHA-256; nil: the user's token came alone.
  var apiToken: [UInt8]?
  /// nil: the user has not signed in yet.
  var user: User?

  init(apiToken: [UInt8]? = nil, user: User? = nil) {
    self.apiToken = apiToken
    self.user = user
  }

  /// The API token's hash in hex, or nothing; a colon; then `s` and a session's name, or `t` and a web-auth token's
  /// hash in hex, or nothing.
  var text: String {
    let user =
      switch user {
      case .session(let name): "s" + name
      case .webAuthToken(let hash): "t" + Hex.encode(hash)
      case nil: ""
      }
    return (apiToken.map { Hex.encode($0) } ?? "") + ":" + user
  }

  /// nil for a text that no grant has.
  init?(text: String) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2 else { return nil }
    if !parts[0].isEmpty {
      guard let hash = Hex.decode(String(parts[0])) else { return nil }
      apiToken = hash
    }
    guard let kind = parts[1].first else { return }
    let rest = String(parts[1].dropFirst())
    switch kind {
    case "s": user = .session(rest)
    case "t":
      guard let hash = Hex.decode(rest) else { return nil }
      user = .webAuthToken(hash)
    default: return nil
    }
  }
}

extension Directory {
  /// True while the credentials of a grant hold. A session that ended for lack of use still counts, since nobody
  /// revoked it: a page that only waits for notifications goes on waiting.
  func holds(_ message: VerifyGrant) throws -> Bool {
    guard let grant = Grant(text: message.grant), try keyIfPresent(of: message.container) != nil else { return false }
    if let hash = grant.apiToken, try !isKnown(apiToken: hash, message.container, message.environment) { return false }
    switch grant.user {
    case .session(let name):
      return try connection.statement(
        SQL(
          "grant.session",
          """
          SELECT 1 FROM session JOIN user ON user.id = session.user JOIN container ON container.id = session.container
          WHERE session.name = ?1 AND expires >= ?2 AND user.recordName = ?3 AND container.name = ?4 \
          AND environment = ?5 AND user.isDisabled = 0
          """)
      ).binding(
        name, clock.now - SessionPolicy.grantMemory, message.userRecordName, message.container.rawValue,
        message.environment.rawValue
      ).first { _ in true }
        ?? false
    case .webAuthToken(let hash):
      return try connection.statement(
        SQL(
          "grant.webAuthToken",
          """
          SELECT 1 FROM webAuthToken JOIN user ON user.id = webAuthToken.user WHERE hash = ?1 AND user.recordName = ?2 \
          AND user.isDisabled = 0
          """
        )
      ).binding(hash, message.userRecordName).first { _ in true } ?? false
    case nil: return false
    }
  }

  /// - Parameter hash: the token's SHA-256.
  func isKnown(apiToken hash: [UInt8], _ container: ContainerID, _ environment: Environment) throws -> Bool {
    try connection.statement(
      SQL(
        "apiToken.isKnown",
        """
        SELECT 1 FROM apiToken JOIN container ON container.id = container WHERE hash = ?1 AND container.name = ?2 \
        AND environment = ?3
        """
      )
    ).binding(hash, container.rawValue, environment.rawValue).first { _ in true } ?? false
  }
}
