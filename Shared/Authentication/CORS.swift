// The headers that let browsers read an answer, errors included (docs/protocol/record-plane.md#browsers).

public import HTTPServer

public enum CORS {
  private static let exposed = "X-Apple-CloudKit-Web-Auth-Token, X-Apple-Request-UUID"

  /// True when pages of `origin` may use an API token that lists `allowed`. A request without an origin does not come
  /// from a page.
  public static func allows(_ origin: String?, allowed: [String]) -> Bool {
    guard let origin, !allowed.isEmpty else { return true }
    return allowed.contains { $0 == "*" || $0.lowercased() == origin.lowercased() }
  }

  /// The headers that let a page of `origin` read an answer.
  /// - Parameter allowed: the origins of the API token; empty allows any, also while the token is not known yet.
  public static func headers(origin: String?, allowed: [String]) -> [(name: String, value: String)] {
    guard allows(origin, allowed: allowed) else { return [("Vary", "Origin")] }
    guard let origin, !allowed.isEmpty else {
      return [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", exposed)]
    }
    return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), ("Access-Control-Expose-Headers", exposed)]
  }

  /// Answers a preflight. It carries no credentials, so any origin passes; the request itself is checked against its
  /// token.
  public static func preflight(methods: String, headers: String) -> HTTPResponse {
    HTTPResponse(
      status: 204,
      headers: Self.headers(origin: nil, allowed: []) + [
        ("Access-Control-Allow-Methods", methods), ("Access-Control-Allow-Headers", headers),
      ])
  }
}
