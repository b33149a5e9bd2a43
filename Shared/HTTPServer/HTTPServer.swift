// libmicrohttpd behind one small Swift face.

internal import Synchronization

/// An HTTP/1.1 server on one address: epoll on threads of its own, every handler call in a task.
///
/// It owns its threads until `stop()`; a server that goes out of scope stops itself.
public final class HTTPServer: Sendable {
  public struct Configuration: Sendable {
    /// An IP address to listen on (IPv4 or IPv6), or `localhost`.
    public var address = "127.0.0.1"
    /// 0: any free port.
    public var port: UInt16 = 0
    /// Of one request's body; more is answered 413, before reading when `Content-Length` says so.
    public var bodyByteLimit = 8 * 1024 * 1024
    /// Of all bodies in hand together; more is answered 503, so that many large bodies can't exhaust the memory. One client's share is a
    /// sixth, but no less than two of the largest.
    public var totalBodyByteLimit = 64 * 1024 * 1024
    /// Of all answers together that clients have not taken yet; what is made beyond it is given up, and answered 503. One client's share is a
    /// sixth, but no less than the largest answer.
    public var totalAnswerByteLimit = 64 * 1024 * 1024
    /// The largest answer that a handler makes in memory.
    public var answerByteLimit = 16 * 1024 * 1024
    /// Of request line and headers; more is answered 431 or 414. Also what a connection costs in memory.
    public var headerByteLimit = 16 * 1024
    /// From the connection's start until the first request's headers are complete.
    public var headerDeadline = Duration.seconds(10)
    /// Without a byte in either direction, while the peer is expected to send or to read. Granularity: seconds.
    public var idleLimit = Duration.seconds(60)
    /// What a body must bring in each stretch of `paceStretch`, or its end: not on average, so that nobody sends fast and then holds on to it.
    public var slowestBodyBytesPerSecond = 16 * 1024
    public var paceStretch = Duration.seconds(20)
    /// An answer must be taken within `paceStretch` and the time that its length takes at this rate.
    public var slowestAnswerBytesPerSecond = 4 * 1024
    /// How long a refused body is read out after its answer, so that a client that still sends gets to read it.
    public var lingerLimit = Duration.seconds(3)
    /// The first request of a further connection is answered 503, and the connection closed. Fewer where fewer files may be open
    /// (`HTTPServer.connectionLimit`).
    public var connectionLimit = 10_000
    /// Of one address (of IPv6: of one /64); a further one is answered 429, and closed at once. nil: an eighth of all; 0: any number.
    /// Trusted proxies may have any number, and requests of each of their clients are counted instead.
    public var connectionsPerClient: Int?
    /// When seven eighths of the connections are open, those that were idle longest are closed, if it was for this long.
    public var pressureIdleLimit = Duration.seconds(1)
    public var threadCount = 2
    public var listenBacklog = 1024
    /// Speak TLS (1.2 or later) with this certificate; nil: plain HTTP.
    public var certificate: TLSCertificate?
    /// Whose `X-Forwarded-…` headers are believed.
    public var trustedProxies = NetworkList()
    /// Told whom something is refused for want of room. Called on a thread of the server: must not block.
    public var observe: @Sendable (_ refusal: ClientRefusal, _ address: String) -> Void = { _, _ in }

    public init() {}
  }

  /// Why a server could not start.
  public struct StartError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One sentence naming the address and what to change.
    public let description: String
    /// Of the failed system call; 0 when there was none.
    public let errno: Int32
  }

  /// The port it listens on.
  public let port: UInt16
  private let core: ServerCore
  private let daemon: Daemon

  /// Listens and serves at once.
  /// - Throws: `StartError`: the address is malformed or taken, or out of threads or file descriptors; nothing is left behind.
  public init(configuration: Configuration = Configuration(), handler: any HTTPHandler) throws(StartError) {
    let listener = try ListenSocket(configuration)
    port = listener.port
    do throws(StartError) {
      core = ServerCore(configuration, handler, try ConnectionTable(configuration, limit: ServerCore.connectionLimit(configuration)))
    } catch {
      listener.close()
      throw error
    }
    guard let daemon = Daemon(core, listener, configuration) else {
      listener.close()
      core.connections.stop()
      throw StartError(description: "The HTTP server could not start its threads; check the limits on threads and open files.", errno: 0)
    }
    self.daemon = daemon
  }

  deinit { stop() }

  /// How many connections there may be: what was configured, or what the limit of open files leaves room for.
  public var connectionLimit: Int { core.connectionLimit }

  /// Open connections, idle ones included.
  public var connectionCount: Int { core.connections.count }

  /// What was refused for want of room since the start.
  public var refusals: [ClientRefusal: Int] { core.clients.refused }

  /// Bytes of bodies and of answers that are in hand.
  public var heldByteCounts: (bodies: Int, answers: Int) { core.clients.held }

  /// Connections that were closed because they were idle and others wanted their place.
  public var pressedOutCount: Int { core.connections.pressedOutCount }

  /// Bytes of requests' and answers' bodies since the start.
  public var traffic: (received: Int, sent: Int) { (core.receivedByteCount.load(ordering: .relaxed), core.sentByteCount.load(ordering: .relaxed)) }

  /// Takes no further connections, answers what is in hand with `Connection: close`, closes idle connections, asks the handler to release
  /// what it holds, ends open-ended bodies, and returns when no connection is left or `limit` has passed; then what still runs is
  /// cancelled. Call `stop()` afterwards.
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
      // Polled, because an idle connection and the first byte of a request look alike until the request's headers are complete.
      guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { break }  // Dropped because a cancelled drain ends like a late one.
    }
    for link in core.connections.links { link.abandon() }
  }

  /// Ends everything now: requests in hand are answered 503 or cut, tasks are cancelled. Blocks until the threads are gone; a second
  /// call does nothing. Not to be called from within a handler's body source.
  public func stop() { daemon.stop(core) }
}
