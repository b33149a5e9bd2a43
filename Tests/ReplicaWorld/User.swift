// Somebody with an account on a test's server.

package import ReplicaSync

/// Somebody with an account.
package struct User: Sendable {
  package let server: Server
  package let name: String
  package let recordName: String
  package let token: String

  /// The same person on another server, which has the same users.
  package func on(_ server: Server) -> User {
    User(server: server, name: name, recordName: recordName, token: token)
  }

  /// - Parameters:
  ///   - gateway: nil: the server's own.
  ///   - hasPings: false: imports wait at the gateway.
  package func account(gateway: String? = nil, hasPings: Bool = true) -> Account {
    Account(
      server: gateway ?? server.gateway, notifier: hasPings ? server.notifier : nil, apiToken: server.apiToken,
      tokens: FixedToken(token: token))
  }
}

/// A token of the operator's, which is never renewed.
package struct FixedToken: Account.TokenStore {
  package let token: String?

  package init(token: String?) { self.token = token }

  package func load() throws -> String? { token }
  package func store(_ token: String?) throws {}
}
