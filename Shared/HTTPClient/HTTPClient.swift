// libcurl behind a small async face: the command line tool and the process tests talk to services with it.

import Synchronization

/// A request that was not answered.
public struct HTTPClientError: Error, Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// Not `http` or `https`, or no URL at all; nothing was sent.
    case badURL
    /// No such host, nobody listens, or the certificate is not trusted; nothing was sent.
    case unreachable
    /// The time was up; it is unknown whether the server acted.
    case timedOut
    /// The task was cancelled; it is unknown whether the server acted.
    case cancelled
    /// The connection broke, or its bytes were no HTTP; it is unknown whether the server acted.
    case lost
    /// The answer is larger than the limit, or a stream's reader fell too far behind.
    case tooLarge
  }

  /// What was wrong with the connection's security.
  public enum Security: Hashable, Sendable {
    /// The server's certificate is no authority's that is trusted, or another name's.
    case untrusted
    /// The file of authorities to trust can't be used.
    case badAuthorities
    /// The server does not speak TLS, or not as this client does.
    case noTLS
  }

  public let kind: Kind
  /// One sentence, in libcurl's words where they are good.
  public let reason: String
  /// nil: nothing, or nobody knows.
  public var security: Security?
}

/// A client with kept-alive connections. All transfers run on one thread of its own, which ends after the last reference is gone.
///
/// Redirects are not followed, proxies not used, nothing is retried and no cookie kept: what a test or operator asks for is what is sent.
public final class HTTPClient: Sendable {
  public struct Header: Hashable, Sendable {
    public let name: String
    public let value: String

    public init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  /// The first part of an answer.
  public struct Head: Hashable, Sendable {
    public var status = 0
    /// In the order received; names as the server spelled them.
    public var headers: [Header] = []

    /// The first header of that name, whatever its case.
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
    /// Pieces as they arrive, cut anywhere; throws `HTTPClientError` when the connection breaks. Letting go of it ends the transfer.
    public let chunks: AsyncThrowingStream<[UInt8], any Error>

    public var status: Int { head.status }
  }

  private let loop: TransferLoop
  private let bodyByteLimit: Int

  /// - Parameters:
  ///   - certificateAuthorityFile: PEM of the authorities to trust instead of the system's.
  ///   - localAddress: of this machine, that connections are made from; nil: as the system chooses.
  ///   - bodyByteLimit: of one answer of `send`.
  public init(certificateAuthorityFile: String? = nil, localAddress: String? = nil, bodyByteLimit: Int = 256 * 1024 * 1024) {
    loop = TransferLoop(certificateAuthorityFile: certificateAuthorityFile, localAddress: localAddress)
    self.bodyByteLimit = bodyByteLimit
  }

  deinit { loop.stop() }

  /// Sends a request and reads the whole answer, whatever its status. A cancelled task stops waiting and closes the connection.
  /// - Parameters:
  ///   - url: absolute, `http` or `https`, already percent-encoded; sent as it is.
  ///   - timeout: from the call to the last byte.
  public func send(
    _ method: String, _ url: String, headers: [Header] = [], body: [UInt8]? = nil, timeout: Duration = .seconds(30)
  ) async throws(HTTPClientError) -> Response {
    let request = TransferRequest(method: method, url: url, headers: headers, body: body, timeout: timeout, bodyByteLimit: bodyByteLimit)
    return try await run(Ticket()) { .start(request, .whole($0), $1) }
  }

  /// Sends a GET and answers as soon as the head is there; the body follows piece by piece, for as long as the server likes.
  /// - Parameters:
  ///   - timeout: until the head has arrived.
  ///   - idleTimeout: the longest silence in the body; nil: any. Granularity: seconds.
  ///   - waitingChunkLimit: pieces that wait for a slow reader before the transfer fails with `tooLarge`.
  public func stream(
    _ url: String, headers: [Header] = [], timeout: Duration = .seconds(30), idleTimeout: Duration? = nil, waitingChunkLimit: Int = 4096
  ) async throws(HTTPClientError) -> Stream {
    let (chunks, sink) = AsyncThrowingStream<[UInt8], any Error>.makeStream(bufferingPolicy: .bufferingOldest(waitingChunkLimit))
    let request = TransferRequest(
      method: "GET", url: url, headers: headers, body: nil, timeout: timeout, bodyByteLimit: .max, idleTimeout: idleTimeout)
    let ticket = Ticket()
    // Keeps the client, and so its thread, until the stream has ended.
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
