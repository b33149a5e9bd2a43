// Requests and answers as plain values that do not depend on the library below.

/// The methods that the server accepts. It answers 501 to any other. A HEAD reaches the handler as `.get`.
public enum HTTPMethod: String, Hashable, Sendable {
  case get = "GET"
  case head = "HEAD"
  case post = "POST"
  case put = "PUT"
  case delete = "DELETE"
  case options = "OPTIONS"
  case patch = "PATCH"
}

/// A complete request. Shape: the header policy (`HeaderPolicy`) has been applied; the body is at most the configured
/// limit.
public struct HTTPRequest: Sendable {
  /// `get` for a HEAD.
  public let method: HTTPMethod
  /// True for a HEAD: the server sends the answer to it without its body.
  public let isHead: Bool
  /// Path and query exactly as in the request line, which signatures cover.
  public let target: String
  /// The path's segments, percent-decoded. The server has refused segments with NUL or invalid UTF-8. Shape: empty for
  /// `/`; an empty segment (`//`, a final `/`) is an empty string.
  public let pathSegments: [String]
  /// The query's names and values, percent-decoded, in order. A `+` stays a plus sign, because web-auth tokens contain
  /// it.
  public let query: [(name: String, value: String)]
  /// Names in lower case.
  public let headers: [(name: String, value: String)]
  public let body: [UInt8]
  /// The sink that `intake(of:)` chose, which has received the whole body; `body` is empty then.
  public let sink: (any HTTPBodySink)?
  /// The client's address without port: the peer's, or the one that a trusted proxy names. Limits count
  /// `clientNetwork` instead.
  public let remoteAddress: String
  /// `scheme://host[:port]` as a trusted proxy reports it; never a client's own claim.
  public let forwardedOrigin: String?

  public init(
    method: HTTPMethod, isHead: Bool = false, target: String, pathSegments: [String],
    query: [(name: String, value: String)],
    headers: [(name: String, value: String)],
    body: [UInt8], sink: (any HTTPBodySink)? = nil, remoteAddress: String, forwardedOrigin: String? = nil
  ) {
    self.method = method
    self.isHead = isHead
    self.target = target
    self.pathSegments = pathSegments
    self.query = query
    self.headers = headers
    self.body = body
    self.sink = sink
    self.remoteAddress = remoteAddress
    self.forwardedOrigin = forwardedOrigin
  }

  /// The first value of a query parameter.
  public func query(_ name: String) -> String? { query.first { $0.name == name }?.value }
  /// The first value of a header; `name` in lower case.
  public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

public struct HTTPResponse: Sendable {
  public enum Body: Sendable {
    case bytes([UInt8])
    /// Sent piece by piece until the sequence ends. A peer that hangs up cancels the iteration. The server takes the
    /// next piece after the previous one was sent, so a slow reader holds one piece.
    case stream(AsyncStream<[UInt8]>)
    /// A body of known length whose pieces a sequence gives, as `stream` takes them. A sequence that ends before breaks
    /// the connection.
    case pieces(AsyncStream<[UInt8]>, byteCount: UInt64)
    /// An open-ended body (event streams), which needs no task while it waits. Draining ends it once its source has
    /// nothing to send.
    case source(any HTTPBodySource)
    /// A range of content that is read while it is sent.
    case content(any HTTPContent, offset: UInt64, byteCount: UInt64)
  }

  /// 200…599.
  public var status: Int
  /// Names are tokens and values have no control characters; otherwise the peer gets a 500. The server itself sets
  /// `Content-Length`, `Transfer-Encoding`, `Date` and `Connection`.
  public var headers: [(name: String, value: String)]
  public var body: Body
  /// Memory that `pieces` or `content` hold while they are sent, besides the block that the server sends from. Unit:
  /// bytes.
  public var heldByteCount = 0
  /// The party that is charged for the body's memory until it is sent; nil for the client's network.
  public var party: String?

  public init(status: Int, headers: [(name: String, value: String)] = [], body: Body = .bytes([])) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// Content of a known length that can be read from any offset.
public protocol HTTPContent: AnyObject, Sendable {
  /// Reads from `offset`: at least one byte, at most `limit`. Called on a thread of the server, and may block only as
  /// long as reading a file does.
  /// - Returns: nil when the content cannot be read; the connection ends in the middle then.
  func read(at offset: UInt64, limit: Int) -> [UInt8]?
}

/// The source of an open-ended body. The server pulls, so that nothing queues up behind a slow reader.
public protocol HTTPBodySource: AnyObject, Sendable {
  /// Called once, before the first `next`. `wake` makes the server call `next` again. It may be called from any thread,
  /// any number of times, also after `detach`, but not while holding a lock that `next` or `detach` takes.
  func attach(wake: @escaping @Sendable () -> Void)
  /// The next piece. Called on a thread of the server, and must not block.
  func next() -> HTTPBodyPiece
  /// Called once, when the peer is gone or the body has ended, even if `attach` was not called (an answer to HEAD).
  func detach()
}

public enum HTTPBodyPiece: Sendable {
  case bytes([UInt8])
  /// The source has nothing to send until it calls `wake`.
  case nothingYet
  case end
}

/// The treatment of a request's body, which the handler chooses when it has the headers.
public enum HTTPBodyIntake: Sendable {
  /// Collects the body in memory, up to `byteLimit` (nil for the server's limit). `party` is charged for the memory
  /// besides the client's network.
  case collect(byteLimit: Int? = nil, party: String? = nil)
  /// Hands the body on as it arrives.
  case stream(any HTTPBodySink)
  /// Refuses the body with this answer. The connection ends.
  case refuse(HTTPResponse)
  /// Reads nothing until the closure has returned one of the other cases.
  case ask(@Sendable () async -> HTTPBodyIntake)
}

/// Takes a body piece by piece, so that the whole body is never in memory. Pieces come in order, one at a time.
public protocol HTTPBodySink: AnyObject, Sendable {
  /// A longer body is answered 413, before it is read if `Content-Length` announces it.
  var byteLimit: Int { get }
  /// Takes the next piece, whose memory belongs to the server. Called on a thread of the server, and must not block.
  /// - Parameter resume: may be called from any thread, any number of times, but not from within `receive`.
  /// - Returns: whether more may come at once. If not, the server reads nothing until `resume` is called.
  func receive(_ piece: UnsafeRawBufferPointer, resume: @escaping @Sendable () -> Void) -> Bool
  /// The body stays incomplete: the peer hung up, was too slow or sent too much. Called at most once, and never after a
  /// handler has the request.
  func abort()
}

/// Answers requests. The server makes calls concurrently and cancels the task when the peer hangs up.
///
/// A HEAD arrives as `.get`, and the server omits the body of the answer.
public protocol HTTPHandler: Sendable {
  func respond(to request: HTTPRequest) async -> HTTPResponse
  /// Chooses the treatment of a body before it is read: for every POST, PUT and other request with a body. `request` is
  /// complete except for its body. Called on a thread of the server, and must not block.
  func intake(of request: HTTPRequest) -> HTTPBodyIntake
  /// Answers a request that the server itself refuses (bad header, too large, bad percent-encoding), in the API's error
  /// format.
  func refusal(status: Int, reason: String) -> HTTPResponse
  /// The executor that resumes the handler after a suspension. The handler's first part runs on the server's own
  /// thread, so neither part may block or take long. nil runs the whole handler on the shared thread pool.
  func executor(for request: HTTPRequest) -> (any TaskExecutor)?
  /// Called once when the server starts to drain. The handler then answers the requests that wait for an event.
  func releaseHeldRequests()
}

extension HTTPHandler {
  public func executor(for request: HTTPRequest) -> (any TaskExecutor)? { nil }
  public func releaseHeldRequests() {}
  public func intake(of request: HTTPRequest) -> HTTPBodyIntake { .collect() }
}
