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
    server.account(FixedToken(token: token), gateway: gateway, hasPings: hasPings)
  }
}

extension Server {
  /// The account of whoever signs in.
  package func account(
    _ tokens: any Account.TokenStore, gateway: String? = nil, hasPings: Bool = true
  ) -> Account {
    Account(
      server: gateway ?? self.gateway, notifier: hasPings ? notifier : nil, apiToken: apiToken, tokens: tokens)
  }
}

/// A token of the operator's, which is never renewed.
package struct FixedToken: Account.TokenStore {
  package let token: String?

  package init(token: String?) { self.token = token }

  package func load() throws -> String? { token }
  package func store(_ token: String?) throws {}
}
