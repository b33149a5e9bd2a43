// Reads the credentials of a request from its query and headers, without checking them.

public import HTTPServer

/// The credentials of a request (docs/protocol/record-plane.md#credentials).
public struct Credentials: Hashable, Sendable {
  public let apiToken: String?
  /// A web-auth token, or the bearer token of the `Authorization` header (a user's or an operator's).
  public let userToken: String?
  /// True when `userToken` is a bearer token, which needs no API token.
  public let isBearer: Bool
  /// True when `userToken` is the console's cookie, as which alone a session of the console counts.
  public let isCookie: Bool
  /// The signature of a server-to-server request.
  public let signature: RequestSignature?

  public init(
    apiToken: String?, userToken: String?, isBearer: Bool, isCookie: Bool = false, signature: RequestSignature? = nil
  ) {
    self.apiToken = apiToken
    self.userToken = userToken
    self.isBearer = isBearer
    self.isCookie = isCookie
    self.signature = signature
  }

  public init(of request: HTTPRequest) {
    func given(_ name: String) -> String? { request.query(name).flatMap { $0.isEmpty ? nil : $0 } }
    let webToken = given("ckWebAuthToken") ?? given("ckSession")
    let bearerToken = webToken == nil ? request.header("authorization").flatMap(Self.bearerToken) : nil
    self.init(
      apiToken: given("ckAPIToken"), userToken: webToken ?? bearerToken, isBearer: bearerToken != nil,
      signature: RequestSignature(of: request))
  }

  /// The token of `Bearer <token>`; nil for other schemes.
  static func bearerToken(_ header: String) -> String? {
    let parts = header.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
    let token = parts[1].drop { $0 == " " }
    return token.isEmpty ? nil : String(token)
  }

  /// The query parameters that are credentials. The gateway removes them before it passes a request on.
  public static let queryNames: Set<String> = ["ckAPIToken", "ckWebAuthToken", "ckSession"]

  /// The prefix of the sign-in page's tokens. A client that presents one can sign in again.
  public static let sessionPrefix = "ses_"
}
