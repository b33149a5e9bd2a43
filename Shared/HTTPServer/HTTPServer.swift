// libmicrohttpd behind one small Swift face.

public enum HTTPMethod: String, Hashable, Sendable {
  case get = "GET"
  case head = "HEAD"
  case post = "POST"
  case put = "PUT"
  case delete = "DELETE"
  case options = "OPTIONS"
  case patch = "PATCH"
}

/// A complete request. Shape: the header policy has been applied (pitfalls.md); the body is at most the configured limit.
public struct HTTPRequest: Sendable {
  public let method: HTTPMethod
  /// Path and query exactly as in the request line (what signatures cover).
  public let target: String
  /// The path's segments, percent-decoded; a segment that does not decode to UTF-8 was refused before.
  public let pathSegments: [String]
  /// The query's names and values, percent-decoded, in order.
  public let query: [(name: String, value: String)]
  /// Names in lower case.
  public let headers: [(name: String, value: String)]
  public let body: [UInt8]
  /// The peer's address without port.
  public let remoteAddress: String

  public init(
    method: HTTPMethod, target: String, pathSegments: [String], query: [(name: String, value: String)], headers: [(name: String, value: String)],
    body: [UInt8], remoteAddress: String
  ) {
    self.method = method
    self.target = target
    self.pathSegments = pathSegments
    self.query = query
    self.headers = headers
    self.body = body
    self.remoteAddress = remoteAddress
  }

  /// The first value of a query parameter.
  public func query(_ name: String) -> String? { query.first { $0.name == name }?.value }
  /// The first value of a header; `name` in lower case.
  public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// An answer.
public struct HTTPResponse: Sendable {
  public enum Body: Sendable {
    case bytes([UInt8])
    /// Sent piece by piece until the sequence ends or the peer hangs up, which cancels its iteration.
    case stream(AsyncStream<[UInt8]>)
    /// A range of a regular file (sendfile); the server answers 404 if it can't be opened.
    case file(path: String, offset: UInt64, byteCount: UInt64)
  }

  public var status: Int
  public var headers: [(name: String, value: String)]
  public var body: Body

  public init(status: Int, headers: [(name: String, value: String)] = [], body: Body = .bytes([])) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// Answers requests; called concurrently, cancelled when the peer hangs up.
public protocol HTTPHandler: Sendable {
  func respond(to request: HTTPRequest) async -> HTTPResponse
  /// Answers what the server itself refuses before a handler is asked (bad header, too large, bad percent-encoding), in the API's
  /// own error form.
  func refusal(status: Int, reason: String) -> HTTPResponse
}
