// What a handler is given and what it answers: plain values that know nothing of the library below.

/// The methods that reach a handler; the server answers 501 for any other.
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
  public let method: HTTPMethod
  /// Path and query exactly as in the request line (what signatures cover).
  public let target: String
  /// The path's segments, percent-decoded; a segment that does not decode to UTF-8 without NUL was refused before.
  /// Shape: `/` has none; an empty segment (`//`, a final `/`) stays an empty string.
  public let pathSegments: [String]
  /// The query's names and values, percent-decoded, in order; a `+` is a plus sign (web-auth tokens contain it).
  public let query: [(name: String, value: String)]
  /// Names in lower case.
  public let headers: [(name: String, value: String)]
  public let body: [UInt8]
  /// What took the body in place of `body`, if the handler wanted that (`intake(of:)`); it has all of it.
  public let sink: (any HTTPBodySink)?
  /// The client's address without port: the peer's, or what a trusted proxy says.
  public let remoteAddress: String
  /// `scheme://host[:port]` as the client addressed a trusted proxy, when that says so; never a client's own claim.
  public let forwardedOrigin: String?

  public init(
    method: HTTPMethod, target: String, pathSegments: [String], query: [(name: String, value: String)], headers: [(name: String, value: String)],
    body: [UInt8], sink: (any HTTPBodySink)? = nil, remoteAddress: String, forwardedOrigin: String? = nil
  ) {
    self.method = method
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

/// An answer.
public struct HTTPResponse: Sendable {
  public enum Body: Sendable {
    case bytes([UInt8])
    /// Sent piece by piece until the sequence ends or the peer hangs up, which cancels its iteration; the next piece is asked for when
    /// the one before was taken, so a slow reader holds one piece.
    case stream(AsyncStream<[UInt8]>)
    /// An open-ended body that costs no task while it waits (event streams); draining ends it once it has nothing to say.
    case source(any HTTPBodySource)
    /// A range of content that is read while it is sent.
    case content(any HTTPContent, offset: UInt64, byteCount: UInt64)
  }

  /// 200…599.
  public var status: Int
  /// Names are tokens, values have no control characters (else the peer gets a 500). `Content-Length`, `Transfer-Encoding`, `Date` and
  /// `Connection` are the server's.
  public var headers: [(name: String, value: String)]
  public var body: Body
  /// Who pays for the body's memory until it is sent; nil: the client's address.
  public var party: String?

  public init(status: Int, headers: [(name: String, value: String)] = [], body: Body = .bytes([])) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// Content of a known length that is read from any place.
public protocol HTTPContent: AnyObject, Sendable {
  /// What is at `offset`, at least one byte and at most `limit`. Called on a thread of the server: may block as long as a read of a file does.
  /// - Returns: nil when it can't be read; the connection ends in the middle then.
  func read(at offset: UInt64, limit: Int) -> [UInt8]?
}

/// Where an open-ended body comes from. The server pulls, so that nothing can queue up behind a slow reader.
public protocol HTTPBodySource: AnyObject, Sendable {
  /// Called once, before the first `next`. `wake` makes the server ask `next` again; it may be called from anywhere, any number of times,
  /// also after `detach`, but not while holding a lock that `next` or `detach` takes.
  func attach(wake: @escaping @Sendable () -> Void)
  /// What is to be sent now. Called on a thread of the server: must not block.
  func next() -> HTTPBodyPiece
  /// The peer is gone, or the body has ended. Called once, also when `attach` never was (an answer to HEAD).
  func detach()
}

public enum HTTPBodyPiece: Sendable {
  case bytes([UInt8])
  /// Nothing until `wake` is called.
  case nothingYet
  case end
}

/// What becomes of a request's body, decided when its headers are known.
public enum HTTPBodyIntake: Sendable {
  /// It is collected in memory, up to a limit, or the server's; it counts for whoever is named, too, wherever it comes from.
  case collect(byteLimit: Int? = nil, party: String? = nil)
  /// It is handed on as it arrives.
  case stream(any HTTPBodySink)
  /// It is not wanted: this is the answer, and the connection ends.
  case refuse(HTTPResponse)
  /// That has to be asked first; nothing is read meanwhile. The answer is one of the others.
  case ask(@Sendable () async -> HTTPBodyIntake)
}

/// Takes a body piece by piece, so that none is ever in memory as a whole. Pieces come one after the other.
public protocol HTTPBodySink: AnyObject, Sendable {
  /// More is answered 413, before reading when `Content-Length` says so.
  var byteLimit: Int { get }
  /// Takes the next piece, whose memory is the server's. Called on a thread of the server: must not block.
  /// - Parameter resume: may be called from anywhere, any number of times, but not from within `receive`.
  /// - Returns: whether more may come at once; if not, nothing is read from the connection until `resume` is called.
  func receive(_ piece: UnsafeRawBufferPointer, resume: @escaping @Sendable () -> Void) -> Bool
  /// The body will not be complete: the peer hung up, was too slow or sent too much. Called once; never once a handler has the request.
  func abort()
}

/// Answers requests; called concurrently, cancelled when the peer hangs up.
///
/// A HEAD arrives as `.get`; the server leaves the body of its answer out.
public protocol HTTPHandler: Sendable {
  func respond(to request: HTTPRequest) async -> HTTPResponse
  /// Asked for a POST or PUT, and whatever else has a body, before that is read: `request` is complete but for that. Called on a thread of the server: must not block.
  func intake(of request: HTTPRequest) -> HTTPBodyIntake
  /// Answers what the server itself refuses before a handler is asked (bad header, too large, bad percent-encoding), in the API's
  /// own error form.
  func refusal(status: Int, reason: String) -> HTTPResponse
  /// Where the handler goes on after it has waited; its first part then runs on the server's own thread, so neither may block or take long.
  /// nil: a task on the threads that all tasks share.
  func executor(for request: HTTPRequest) -> (any TaskExecutor)?
  /// Called once when the server starts to drain: requests that wait for something to happen should be answered now.
  func releaseHeldRequests()
}

extension HTTPHandler {
  public func executor(for request: HTTPRequest) -> (any TaskExecutor)? { nil }
  public func releaseHeldRequests() {}
  public func intake(of request: HTTPRequest) -> HTTPBodyIntake { .collect() }
}
