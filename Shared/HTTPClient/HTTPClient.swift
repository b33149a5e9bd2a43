// An async interface to libcurl, with which the command line tool and the process tests call services.

import Dispatch
import Synchronization

/// A request that got no usable answer.
public struct HTTPClientError: Error, Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// The URL is malformed, or neither `http` nor `https`. Nothing was sent.
    case badURL
    /// The host is unknown or refuses connections, or its certificate is not trusted. Nothing was sent.
    case unreachable
    /// So many names of hosts are being resolved for the same party, or for all, that no thread was left for this one.
    /// Nothing was sent, and nothing is known about the host.
    case crowded
    /// The time-out passed. The server may have acted.
    case timedOut
    /// The task was cancelled. The server may have acted.
    case cancelled
    /// The connection broke, or its bytes were no HTTP. The server may have acted.
    case lost
    /// The answer exceeds a limit, that of its body or 64 KiB of heads and trailers, or the reader of a stream fell too
    /// far behind.
    case tooLarge
  }

  /// A failure of TLS.
  public enum Security: Hashable, Sendable {
    /// The server's certificate comes from no trusted authority, or names another host.
    case untrusted
    /// The file of trusted authorities is unusable.
    case badAuthorities
    /// The server does not speak TLS, or shares no version or cipher with this client.
    case noTLS
  }

  public let kind: Kind
  /// One sentence, often libcurl's own.
  public let reason: String
  /// nil when TLS did not fail, or when the cause is unknown.
  public var security: Security?
  /// True once any byte of the request went out: the host takes connections.
  public var wasSent = false
}

/// A client with kept-alive connections. All transfers run on one thread of its own, which ends after the last
/// reference is gone.
///
/// The client sends exactly the requests that its caller makes: it follows no redirects, uses no proxies, retries
/// nothing and keeps no cookies.
public final class HTTPClient: Sendable {
  public struct Header: Hashable, Sendable {
    public let name: String
    public let value: String

    public init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  /// The servers that a client connects to.
  public enum Reach: Hashable, Sendable {
    case everywhere
    /// Only public addresses, for URLs that strangers have chosen: they must not reach this machine and its neighbours.
    /// The address is judged after the host's name is resolved.
    case publicAddresses
  }

  /// The status and headers of an answer.
  public struct Head: Hashable, Sendable {
    public var status = 0
    /// In the order received, with names as the server spelled them.
    public var headers: [Header] = []

    /// The first header of that name, regardless of case.
    public subscript(name: String) -> String? {
      let name = name.lowercased()
      return headers.first { $0.name.lowercased() == name }?.value
    }
  }

  public struct Response: Hashable, Sendable {
    public let head: Head
    public let body: [UInt8]

    public var status: Int { head.status }
    public var headers: [Header] { head.headers }
    public subscript(name: String) -> String? { head[name] }
  }

  /// An answer whose body is still arriving.
  public struct Stream: Sendable {
    public let head: Head
    /// The body in pieces of any size, as they arrive. Throws `HTTPClientError` when the connection breaks. Dropping
    /// the sequence ends the transfer.
    public let chunks: AsyncThrowingStream<[UInt8], any Error>

    public var status: Int { head.status }
  }

  private let loop: TransferLoop
  private let bodyByteLimit: Int
  private let acceptsGzip: Bool

  /// - Parameters:
  ///   - certificateAuthorityFile: a PEM file of the authorities to trust instead of the system's.
  ///   - localAddress: the address of this machine to connect from; nil lets the system choose.
  ///   - bodyByteLimit: the most bytes in the body of one answer to `send`, without its content coding.
  ///   - acceptsGzip: whether servers may compress answers; their bodies are decoded.
  ///   - reach: the servers that this client may connect to.
  ///   - sharesConnections: whether requests to one server wait for its first connection rather than open more, so that
  ///     they share it by HTTP/2.
  ///   - resolver: resolves the names of hosts that strangers have chosen; nil: libcurl does, for one host after the
  ///     other if they are slow.
  public init(
    certificateAuthorityFile: String? = nil, localAddress: String? = nil, bodyByteLimit: Int = 256 * 1024 * 1024,
    acceptsGzip: Bool = false, reach: Reach = .everywhere, sharesConnections: Bool = false,
    resolver: NameResolver? = nil
  ) {
    self.acceptsGzip = acceptsGzip
    loop = TransferLoop(
      TransferLoop.Configuration(
        certificateAuthorityFile: certificateAuthorityFile, localAddress: localAddress, reach: reach,
        sharesConnections: sharesConnections, resolver: resolver))
    self.bodyByteLimit = bodyByteLimit
  }

  deinit { loop.stop() }

  /// Sends a request and reads the whole answer, whatever its status. Cancelling the task closes the connection.
  /// - Parameters:
  ///   - url: absolute, `http` or `https`, percent-encoded. Sent unchanged.
  ///   - timeout: the time from the call to the last byte of the answer.
  ///   - party: the person or program on whose behalf a stranger's host is called, for the resolver's bounds.
  /// - Throws: `HTTPClientError` when no whole answer arrives.
  public func send(
    _ method: String, _ url: String, headers: [Header] = [], body: [UInt8]? = nil, timeout: Duration = .seconds(30),
    party: String? = nil
  ) async throws(HTTPClientError) -> Response {
    let request = TransferRequest(
      method: method, url: url, headers: headers, body: body, timeout: timeout, bodyByteLimit: bodyByteLimit,
      acceptsGzip: acceptsGzip, party: party)
    return try await run(Ticket()) { answer, ticket in .start(request, .whole { answer.resume(returning: $0) }, ticket)
    }
  }

  /// Sends a request as `send` does, and blocks the thread until the answer is there. Tasks' threads must not call it.
  /// - Parameter isSentOnce: whether the server must not get the request again when a kept connection has ended.
  public func sendAndWait(
    _ method: String, _ url: String, headers: [Header] = [], body: [UInt8]? = nil, timeout: Duration = .seconds(30),
    isSentOnce: Bool = false
  ) throws(HTTPClientError) -> Response {
    let request = TransferRequest(
      method: method, url: url, headers: headers, body: body, timeout: timeout, bodyByteLimit: bodyByteLimit,
      acceptsGzip: acceptsGzip, isSentOnce: isSentOnce)
    let arrived = DispatchSemaphore(value: 0)
    let answer = Mutex<Result<Response, HTTPClientError>>(.failure(.cancelled))
    loop.submit(
      .start(
        request,
        .whole { result in
          answer.withLock { $0 = result }
          arrived.signal()
        }, Ticket()))
    arrived.wait()
    return try answer.withLock(\.self).get()
  }

  /// Sends a GET and returns as soon as the head has arrived. The body follows piece by piece for as long as the server
  /// sends.
  /// - Parameters:
  ///   - timeout: the time until the head has arrived.
  ///   - idleTimeout: the longest silence in the body, in whole seconds; nil allows any.
  ///   - waitingChunkLimit: the number of pieces that may wait for a slow reader before the transfer fails with
  ///     `tooLarge`.
  public func stream(
    _ url: String, headers: [Header] = [], timeout: Duration = .seconds(30), idleTimeout: Duration? = nil,
    waitingChunkLimit: Int = 4096
  ) async throws(HTTPClientError) -> Stream {
    let (chunks, sink) = AsyncThrowingStream<[UInt8], any Error>.makeStream(
      bufferingPolicy: .bufferingOldest(waitingChunkLimit))
    let request = TransferRequest(
      method: "GET", url: url, headers: headers, body: nil, timeout: timeout, bodyByteLimit: .max,
      idleTimeout: idleTimeout)
    let ticket = Ticket()
    // Retains the client, and with it the thread, until the stream has ended.
    sink.onTermination = { reason in
      if case .cancelled = reason { self.loop.cancel(ticket) }
    }
    let head: Head = try await run(ticket) { .start(request, .stream($0, sink), $1) }
    return Stream(head: head, chunks: chunks)
  }

  private func run<Value: Sendable>(
    _ ticket: Ticket, _ start: (TransferSink.Answer<Value>, Ticket) -> TransferLoop.Command
  ) async throws(HTTPClientError) -> Value {
    let result: Result<Value, HTTPClientError> = await withTaskCancellationHandler {
      await withCheckedContinuation { loop.submit(start($0, ticket)) }
    } onCancel: {
      loop.cancel(ticket)
    }
    return try result.get()
  }
}
