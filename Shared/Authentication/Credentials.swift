// Who a request says it is from: pure reading of its query and headers.

public import HTTPServer

/// The credentials of a request (docs/protocol/record-plane.md#credentials).
public struct Credentials: Hashable, Sendable {
  public let apiToken: String?
  /// A web-auth token, or the bearer token of the `Authorization` header (a user's or an operator's).
  public let userToken: String?
  /// `userToken` stands on its own, without an API token.
  public let isBearer: Bool
  /// A server's.
  public let signature: RequestSignature?

  public init(apiToken: String?, userToken: String?, isBearer: Bool, signature: RequestSignature? = nil) {
    self.apiToken = apiToken
    self.userToken = userToken
    self.isBearer = isBearer
    self.signature = signature
  }

  public init(of request: HTTPRequest) {
    func given(_ name: String) -> String? { request.query(name).flatMap { $0.isEmpty ? nil : $0 } }
    let webToken = given("ckWebAuthToken") ?? given("ckSession")
    let bearerToken = webToken == nil ? request.header("authorization").flatMap(Self.bearerToken) : nil
    self.init(
      apiToken: given("ckAPIToken"), userToken: webToken ?? bearerToken, isBearer: bearerToken != nil, signature: RequestSignature(of: request))
  }

  /// The token of `Bearer <token>`; nil for other schemes.
  static func bearerToken(_ header: String) -> String? {
    let parts = header.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
    let token = parts[1].drop { $0 == " " }
    return token.isEmpty ? nil : String(token)
  }

  /// Query parameters that are credentials: they stay in the gateway.
  public static let queryNames: Set<String> = ["ckAPIToken", "ckWebAuthToken", "ckSession"]

  /// What tokens of the sign-in page begin with. A client that presents one can sign in again.
  public static let sessionPrefix = "ses_"
}
