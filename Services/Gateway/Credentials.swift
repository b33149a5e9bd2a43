// Who a request says it is from: pure reading of its query and headers.

import HTTPServer

/// The credentials a request carries (wire-protocol.md 2.1, mirror-api.md "Common").
struct Credentials: Hashable, Sendable {
  let apiToken: String?
  /// A web-auth token, or the bearer token of the `Authorization` header (a user's or an operator's).
  let userToken: String?
  /// `userToken` stands on its own, without an API token.
  let isBearer: Bool

  init(apiToken: String?, userToken: String?, isBearer: Bool) {
    self.apiToken = apiToken
    self.userToken = userToken
    self.isBearer = isBearer
  }

  init(of request: HTTPRequest) {
    apiToken = request.query("ckAPIToken").flatMap { $0.isEmpty ? nil : $0 }
    let webToken = request.query("ckWebAuthToken") ?? request.query("ckSession")
    if let webToken, !webToken.isEmpty {
      userToken = webToken
      isBearer = false
    } else {
      userToken = request.header("authorization").flatMap(Self.bearerToken)
      isBearer = userToken != nil
    }
  }

  /// The token of `Bearer <token>`; nil for other schemes.
  static func bearerToken(_ header: String) -> String? {
    let parts = header.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
    let token = parts[1].drop { $0 == " " }
    return token.isEmpty ? nil : String(token)
  }

  /// Query parameters that are credentials: they stay in the gateway.
  static let queryNames: Set<String> = ["ckAPIToken", "ckWebAuthToken", "ckSession"]
}
