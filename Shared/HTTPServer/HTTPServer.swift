// Wraps libmicrohttpd in a small Swift interface.

internal import Synchronization

/// An HTTP/1.1 server on one address. It uses epoll on threads of its own and runs every handler call in a task.
///
/// The threads end with `stop()`, which the deinit calls as well.
public final class HTTPServer: Sendable {
  public struct Configuration: Sendable {
    /// An IP address to listen on (IPv4 or IPv6), or `localhost`.
    public var address = "127.0.0.1"
    /// 0 for any free port.
    public var port: UInt16 = 0
    /// The most bytes of one request's body. A longer body is answered 413, before it is read if `Content-Length`
    /// announces it.
    public var bodyByteLimit = 8 * 1024 * 1024
    /// The most bytes of all request bodies in memory; more is answered 503. One client may take a sixth, or two bodies
    /// of the largest size if that is more; beyond that it gets 429.
    public var totalBodyByteLimit = 64 * 1024 * 1024
    /// The most bytes of all unsent answers; an answer beyond it is dropped, and its request answered 503. One client
    /// may take a sixth, or one answer of the largest size if that is more; beyond that it gets 429. Answers of up to
    /// 2 KiB do not count.
    public var totalAnswerByteLimit = 64 * 1024 * 1024
    /// The largest answer that a handler makes in memory, in bytes.
    public var answerByteLimit = 16 * 1024 * 1024
    /// The most bytes of request line and headers; more is answered 431 or 414. Each connection takes this much memory.
    public var headerByteLimit = 16 * 1024
    /// The time from the connection's start until the first request's headers are complete.
    public var headerDeadline = Duration.seconds(10)
    /// The longest time without a byte in either direction while the peer has to send or read. Granularity: seconds.
    public var idleLimit = Duration.seconds(60)
    /// The rate that a body must keep in each `paceStretch`. It is no average, so that a client cannot send fast and
    /// then stall.
    public var slowestBodyBytesPerSecond = 16 * 1024
    public var paceStretch = Duration.seconds(20)
    /// The client must take an answer within `paceStretch` plus the time that its length takes at this rate.
    public var slowestAnswerBytesPerSecond = 4 * 1024
    /// The time for which the server reads on after it has refused a body, so that a client that still sends sees the
    /// answer.
    public var lingerLimit = Duration.seconds(3)
    /// The number of connections. The first request of a further one is answered 503, and the connection closed. The
    /// limit on open files can lower the number (`HTTPServer.connectionLimit`).
    public var connectionLimit = 10_000
    /// The process's other descriptors: libraries, bus, its own server, files.
    public var otherFileCount = 256
    /// The number of connections of one IPv4 address or IPv6 /64. A further one is closed, without TLS after a 429. nil
    /// stands for an eighth of all, at least 16; 0 for any number. A trusted proxy may have any number; the requests of
    /// each of its clients count instead.
    public var connectionsPerClient: Int?
    /// When more than seven eighths of the connections are open, the server closes those idle for at least this long,
    /// the longest idle first.
    public var pressureIdleLimit = Duration.seconds(1)
    public var threadCount = 2
    public var listenBacklog = 1024
    /// The certificate for TLS (1.2 or later); nil for plain HTTP.
    public var certificate: TLSCertificate?
    /// The proxies whose `X-Forwarded-…` headers are believed.
    public var trustedProxies = NetworkList()
    /// Called with each refusal for lack of room and the client's address. Called on a thread of the server, and must
    /// not block.
    public var observe: @Sendable (_ refusal: ClientRefusal, _ address: String) -> Void = { _, _ in }

    public init() {}
  }

  /// The reason why a server could not start.
  public struct StartError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One sentence that names the address and the remedy.
    public let description: String
    /// The `errno` of the failed system call; 0 when no call failed.
    public let errno: Int32
  }

  public let port: UInt16
  private let core: ServerCore
  private let daemon: Daemon

  /// Listens and serves at once.
  /// - Throws: `StartError` when the address is malformed or taken, or when threads or file descriptors run out. It
  ///   leaves nothing behind.
  public init(configuration: Configuration = Configuration(), handler: any HTTPHandler) throws(StartError) {
    let listener = try ListenSocket(configuration)
    port = listener.port
    do throws(StartError) {
      core = ServerCore(
        configuration, handler, try ConnectionTable(configuration, limit: ServerCore.connectionLimit(configuration)))
    } catch {
      listener.close()
      throw error
    }
    guard let daemon = Daemon(core, listener, configuration) else {
      listener.close()
      core.connections.stop()
      throw StartError(
        description: "The HTTP server could not start its threads; check the limits on threads and open files.",
        errno: 0)
    }
    self.daemon = daemon
  }

  deinit { stop() }

  /// The most connections to serve: the configured number, or fewer if the limit on open files requires it.
  public var connectionLimit: Int { core.connectionLimit }

  /// Open connections, idle ones included.
  public var connectionCount: Int { core.connections.count }

  /// The number of refusals for lack of room since the start.
  public var refusals: [ClientRefusal: Int] { core.clients.refused }

  /// Bytes of request bodies and unsent answers in memory.
  public var heldByteCounts: (bodies: Int, answers: Int) { core.clients.held }

  /// The number of idle connections that were closed to make room.
  public var pressedOutCount: Int { core.connections.pressedOutCount }

  /// How often the server has looked for late connections.
  var passCount: Int { core.connections.passCount }

  /// Bytes of request and answer bodies since the start.
  public var traffic: (received: Int, sent: Int) {
    (core.receivedByteCount.load(ordering: .relaxed), core.sentByteCount.load(ordering: .relaxed))
  }

  /// Ends service gracefully. It accepts no connections, answers open requests with `Connection: close`, closes idle
  /// connections, tells the handler to release held requests, and ends open-ended bodies. It returns when no connection
  /// is left. After `limit` it cancels the rest. Call `stop()` afterwards.
  public func drain(within limit: Duration) async {
    core.isDraining.store(true, ordering: .sequentiallyConsistent)
    daemon.quiesce()
    core.handler.releaseHeldRequests()
    let deadline = ContinuousClock.now + limit
    while true {
      let links = core.connections.links
      if links.isEmpty { return }
      for link in links { link.drain() }
      if ContinuousClock.now >= deadline { break }
      // Polled, because an idle connection and one that is sending headers look alike until the headers are complete.
      // Dropped because a cancelled drain ends like a late one.
      guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { break }
    }
    for link in core.connections.links { link.abandon() }
  }

  /// Ends everything at once: open requests are answered 503 or cut off, and tasks are cancelled. Blocks until the
  /// threads have ended. A second call does nothing. Must not be called from a handler's body source.
  public func stop() { daemon.stop(core) }
}
