// A provider's own description (OpenID Connect Discovery 1.0): its addresses, and what it supports.

import JSON

struct ProviderMetadata: Hashable, Sendable {
  /// Ways in which a client proves itself at the token endpoint.
  enum ClientAuthentication: String, Sendable {
    case basic = "client_secret_basic"
    case post = "client_secret_post"
  }

  let authorizationEndpoint: String
  let tokenEndpoint: String
  let keysAddress: String
  let userInfoEndpoint: String?
  let clientAuthentication: ClientAuthentication
  /// True for a provider that names itself in each answer (RFC 9207), so that answers of two can't be mixed up.
  let namesItself: Bool

  /// - Throws: `misconfigured` for a description of another issuer, and for one that lacks what sign-in needs.
  init(_ document: [UInt8], issuer: String) throws(IdentityError) {
    guard let value = try? JSONValue(parsing: document), value.kind == .object else {
      throw .misconfigured("The description of \(issuer) is no JSON object")
    }
    guard value["issuer"]?.string == issuer else {
      throw .misconfigured("The description of \(issuer) names another issuer")
    }
    func address(_ name: String) throws(IdentityError) -> String? {
      guard let text = value[name]?.string else { return nil }
      guard Self.isAddress(text) else { throw .misconfigured("The \(name) of \(issuer) is not an https address") }
      return text
    }
    guard let authorization = try address("authorization_endpoint"), let token = try address("token_endpoint"),
      let keys = try address("jwks_uri")
    else {
      throw .misconfigured("The description of \(issuer) lacks an endpoint that sign-in needs")
    }
    authorizationEndpoint = authorization
    tokenEndpoint = token
    keysAddress = keys
    userInfoEndpoint = try address("userinfo_endpoint")
    let methods = value["token_endpoint_auth_methods_supported"]?.elements.compactMap(\.string) ?? []
    clientAuthentication = methods.isEmpty || methods.contains(ClientAuthentication.basic.rawValue) ? .basic : .post
    namesItself = value["authorization_response_iss_parameter_supported"]?.bool ?? false
  }

  /// True for an https address, and for an http address of this machine, as tests and trials have it.
  static func isAddress(_ text: String) -> Bool {
    guard text.utf8.count <= 2048, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "#") })
    else { return false }
    if text.hasPrefix("https://") { return text.utf8.count > 8 }
    return ["http://127.0.0.1", "http://[::1]"].contains { host in
      guard text.hasPrefix(host) else { return false }
      let rest = text.dropFirst(host.count)
      return rest.isEmpty || rest.first == ":" && !rest.contains("@") || rest.first == "/"
    }
  }
}
