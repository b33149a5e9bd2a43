// A provider of OpenID Connect on this machine, which keeps the protocol's rules and cheats where a test says so.

import Crypto
public import HTTPServer
import JSON
import Synchronization

/// Serves discovery, keys, authorization, tokens and userinfo. Its people sign in without being asked.
public final class ForgedProvider: HTTPHandler, Sendable {
  /// The provider's behaviour. The defaults are honest.
  public struct Behaviour: Sendable {
    /// Claims of ID tokens, as JSON values by name; a nil leaves a claim out.
    public var claims: [String: String?] = [:]
    /// Members of the description, likewise.
    public var metadata: [String: String?] = [:]
    /// Claims of userinfo, as JSON.
    public var userInfo = #"{"sub":"person-1"}"#
    /// The key and the algorithm of new tokens.
    public var key: ForgedKey
    public var algorithm = "RS256"
    public var header: [String: String]
    /// The keys that it publishes.
    public var publishedKeys: [ForgedKey]
    /// The secret that the client has to prove; nil: none.
    public var clientSecret: String? = "s3cret & more"
    /// An answer instead of that of a path.
    public var answers: [String: (status: Int, body: String)] = [:]
  }

  private struct Grant: Sendable {
    let nonce: String
    let challenge: String
    let redirect: String
    let clientID: String
  }

  private struct State: Sendable {
    var behaviour: Behaviour
    var grants: [String: Grant] = [:]
    var requests: [String] = []
    var issuer = ""
    var now: Int64 = 0
  }

  private let state: Mutex<State>

  /// - Parameter now: the time of its tokens, in milliseconds since 1970.
  public init(now: Int64, key: ForgedKey) {
    let behaviour = Behaviour(key: key, header: ["kid": "key-1"], publishedKeys: [key])
    state = Mutex(State(behaviour: behaviour, now: now))
  }

  /// Starts to serve.
  public func serve() throws -> HTTPServer {
    var configuration = HTTPServer.Configuration()
    configuration.threadCount = 1
    let server = try HTTPServer(configuration: configuration, handler: self)
    state.withLock { $0.issuer = "http://127.0.0.1:\(server.port)" }
    return server
  }

  public var issuer: String { state.withLock { $0.issuer } }
  /// Methods and paths, in order.
  public var requests: [String] { state.withLock { $0.requests } }
  public func change(_ body: (inout Behaviour) -> Void) { state.withLock { body(&$0.behaviour) } }

  /// An ID token, as the token endpoint or an app's own sign-in gives it out.
  public func idToken(clientID: String, nonce: String) -> String {
    state.withLock { state in
      let seconds = state.now / 1000
      let honest: [String: String?] = [
        "iss": Self.quoted(state.issuer), "aud": Self.quoted(clientID), "sub": #""person-1""#, "iat": String(seconds),
        "exp": String(seconds + 600), "nonce": Self.quoted(nonce), "email": #""ada@example.org""#,
        "email_verified": "true", "given_name": #""Ada""#, "family_name": #""Byron""#,
      ]
      let behaviour = state.behaviour
      return behaviour.key.token(
        Self.object(honest, behaviour.claims), algorithm: behaviour.algorithm, header: behaviour.header)
    }
  }

  /// A logout token for a person, or for one of their sessions.
  public func logoutToken(tokenID: String = "j-1", sessionID: String? = nil) -> String {
    state.withLock { state in
      let seconds = state.now / 1000
      let honest: [String: String?] = [
        "iss": Self.quoted(state.issuer), "aud": #""aquifer""#, "sub": #""person-1""#, "iat": String(seconds),
        "exp": String(seconds + 120), "jti": Self.quoted(tokenID), "sid": sessionID.map(Self.quoted),
        "events": #"{"http://schemas.openid.net/event/backchannel-logout":{}}"#,
      ]
      let behaviour = state.behaviour
      return behaviour.key.token(
        Self.object(honest, behaviour.claims), algorithm: behaviour.algorithm, header: behaviour.header)
    }
  }

  // MARK: Requests

  public func respond(to request: HTTPRequest) async -> HTTPResponse {
    let path = "/" + request.pathSegments.joined(separator: "/")
    let (forced, issuer) = state.withLock { state in
      state.requests.append("\(request.method.rawValue) \(path)")
      return (state.behaviour.answers[path], state.issuer)
    }
    if let forced { return Self.json(forced.body, status: forced.status) }
    switch path {
    case "/.well-known/openid-configuration": return Self.json(description(issuer))
    case "/keys":
      let keys = state.withLock { $0.behaviour.publishedKeys.map(\.publicJWK) }
      return Self.json("{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\"},\(keys.joined(separator: ","))]}")
    case "/authorize": return authorize(request)
    case "/token": return token(request)
    case "/userinfo":
      guard request.header("authorization") == "Bearer access-1" else { return Self.json("{}", status: 401) }
      return Self.json(state.withLock { $0.behaviour.userInfo })
    default: return Self.json("{}", status: 404)
    }
  }

  public func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }

  private func description(_ issuer: String) -> String {
    let honest: [String: String?] = [
      "issuer": Self.quoted(issuer), "authorization_endpoint": Self.quoted("\(issuer)/authorize"),
      "token_endpoint": Self.quoted("\(issuer)/token"), "jwks_uri": Self.quoted("\(issuer)/keys"),
      "userinfo_endpoint": Self.quoted("\(issuer)/userinfo"),
    ]
    return state.withLock { Self.object(honest, $0.behaviour.metadata) }
  }

  /// Sends the browser back with a code.
  private func authorize(_ request: HTTPRequest) -> HTTPResponse {
    guard request.query("response_type") == "code", request.query("code_challenge_method") == "S256",
      let redirect = request.query("redirect_uri"), let state = request.query("state"),
      let nonce = request.query("nonce"), let challenge = request.query("code_challenge"),
      let clientID = request.query("client_id"), request.query("scope")?.contains("openid") == true
    else { return Self.json(#"{"error":"invalid_request"}"#, status: 400) }
    let code = self.state.withLock { own in
      let code = "code-\(own.grants.count + 1)-\(own.requests.count)"
      own.grants[code] = Grant(nonce: nonce, challenge: challenge, redirect: redirect, clientID: clientID)
      return code
    }
    return HTTPResponse(status: 302, headers: [("Location", "\(redirect)?code=\(code)&state=\(state)")])
  }

  /// Takes each code once, from the client that proves its secret and the verifier.
  private func token(_ request: HTTPRequest) -> HTTPResponse {
    let fields = Self.fields(request.body)
    let secret = state.withLock { $0.behaviour.clientSecret }
    if let secret {
      let pair = "\(fields["client_id"] ?? "aquifer"):\(secret)"
      let basic = request.header("authorization").map { $0.dropFirst("Basic ".count) }.flatMap {
        Base64.decode(String($0))
      }
      let told = basic.map { String(decoding: $0, as: UTF8.self) }.flatMap(Self.decoded)
      guard told == pair || fields["client_secret"] == secret else {
        return Self.json(#"{"error":"invalid_client"}"#, status: 401)
      }
    }
    let grant = state.withLock { $0.grants.removeValue(forKey: fields["code"] ?? "") }
    guard let grant, fields["grant_type"] == "authorization_code", fields["redirect_uri"] == grant.redirect,
      Base64URL.encode(SHA256.hash(fields["code_verifier"] ?? "")) == grant.challenge
    else { return Self.json(#"{"error":"invalid_grant"}"#, status: 400) }
    let token = idToken(clientID: grant.clientID, nonce: grant.nonce)
    return Self.json("{\"access_token\":\"access-1\",\"token_type\":\"Bearer\",\"id_token\":\"\(token)\"}")
  }

  // MARK: Texts

  private static func json(_ text: String, status: Int = 200) -> HTTPResponse {
    HTTPResponse(status: status, headers: [("Content-Type", "application/json")], body: .bytes(Array(text.utf8)))
  }

  private static func quoted(_ text: String) -> String { "\"\(text)\"" }

  private static func object(_ honest: [String: String?], _ changes: [String: String?]) -> String {
    let members = honest.merging(changes) { $1 }.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }
    return "{\(members.joined(separator: ","))}"
  }

  private static func fields(_ body: [UInt8]) -> [String: String] {
    let pairs = String(decoding: body, as: UTF8.self).split(separator: "&").map { pair in
      pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map { decoded(String($0)) ?? "" }
    }
    return Dictionary(pairs.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { first, _ in first }
  }

  private static func decoded(_ text: String) -> String? {
    var (bytes, rest) = ([UInt8](), Substring(text))
    while let character = rest.popFirst() {
      guard character == "%" else {
        bytes += Array((character == "+" ? " " : String(character)).utf8)
        continue
      }
      guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
      bytes.append(byte)
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }
}
