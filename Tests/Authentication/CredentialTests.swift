import HTTPServer
import Testing

@testable import Authentication

private func request(query: [(String, String)] = [], headers: [(String, String)] = []) -> HTTPRequest {
  HTTPRequest(
    method: .get, target: "/", pathSegments: [], query: query.map { (name: $0.0, value: $0.1) },
    headers: headers.map { (name: $0.0, value: $0.1) }, body: [],
    remoteAddress: "127.0.0.1")
}

struct CredentialTests {
  @Test func `query parameters win over a bearer token`() {
    let credentials = Credentials(
      of: request(query: [("ckAPIToken", "a"), ("ckWebAuthToken", "u+/=")], headers: [("authorization", "Bearer b")]))
    #expect(credentials == Credentials(apiToken: "a", userToken: "u+/=", isBearer: false))
  }

  @Test func `the old name of the web auth token is understood`() {
    #expect(Credentials(of: request(query: [("ckAPIToken", "a"), ("ckSession", "u")])).userToken == "u")
  }

  @Test func `empty parameters count as absent`() {
    #expect(
      Credentials(of: request(query: [("ckAPIToken", ""), ("ckWebAuthToken", "")]))
        == Credentials(apiToken: nil, userToken: nil, isBearer: false))
  }

  @Test(
    arguments: [
      ("Bearer t", "t"), ("bearer  t", "t"), ("BEARER a b", "a b"), ("Basic t", nil), ("Bearer", nil), ("Bearer ", nil),
      ("", nil),
    ] as [(String, String?)])
  func `only a bearer token is taken from the header`(header: String, token: String?) {
    #expect(Credentials.bearerToken(header) == token)
  }
}

struct CORSTests {
  private func value(_ name: String, _ headers: [(name: String, value: String)]) -> String? {
    headers.first { $0.name == name }?.value
  }

  @Test func `an origin of the token is echoed, others are not`() {
    let allowed = ["https://app.example", "http://127.0.0.1:3000"]
    for origin in allowed {
      #expect(value("Access-Control-Allow-Origin", CORS.headers(origin: origin, allowed: allowed)) == origin)
    }
    let refused = CORS.headers(origin: "https://evil.example", allowed: allowed)
    #expect(value("Access-Control-Allow-Origin", refused) == nil)
    #expect(value("Vary", refused) == "Origin")
  }

  @Test func `a token for any origin, and no token, allow all`() {
    for origin in [nil, "https://app.example"] {
      let headers = CORS.headers(origin: origin, allowed: [])
      #expect(value("Access-Control-Allow-Origin", headers) == "*")
      #expect(
        value("Access-Control-Expose-Headers", headers) == "X-Apple-CloudKit-Web-Auth-Token, X-Apple-Request-UUID")
    }
  }
}
