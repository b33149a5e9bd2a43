// The state of one connection: its current request and its deadlines.

internal import CLinux
internal import CMicroHTTPD
internal import Glibc
internal import Synchronization

/// The library's handle of a connection.
///
/// Unchecked because it is a bare pointer. The connection's own thread uses it. Other threads only call
/// `MHD_resume_connection`, which is thread-safe, while the connection is suspended and so cannot go away.
struct ConnectionHandle: @unchecked Sendable {
  let pointer: OpaquePointer
}

final class Link: Sendable {
  /// Never reused, unlike file descriptors.
  let id: UInt64
  let fd: Int32
  let remoteAddress: String
  /// The peer's network.
  let network: ClientNetwork
  private let core: ServerCore
  private let state = Mutex(State())
  /// The time at which the connection is shut down, on the clock of `monotonicMilliseconds`.
  private let deadline: Atomic<Int64>
  /// The time since which the connection is idle, on the same clock; `.max` during a request and before the first one.
  private let idle = Atomic(Int64.max)
  private let pressedOut = Atomic(false)
  /// The bytes of a body in the current stretch of its pace.
  private let paceByteCount = Atomic(0)

  private static let nextID = Atomic<UInt64>(1)

  private struct State {
    var exchange: HTTPExchange?
    /// The target of the request whose headers are being read; nil when it is not UTF-8.
    var target: String?
    var hasHungUp = false
    var lingers = false
    /// The connection came when the server had all the connections that it serves.
    var isSurplus = false
    /// The connection counts towards the peer's limit.
    var isCounted = false
    /// The credentials that the peer was shown, retained as long as the library may use them.
    var credentials: TLSCredentials?
  }

  init(fd: Int32, remoteAddress: String, _ core: ServerCore) {
    id = Self.nextID.add(1, ordering: .relaxed).oldValue
    self.fd = fd
    self.remoteAddress = remoteAddress
    self.core = core
    network = ClientNetwork(remoteAddress)
    deadline = Atomic(monotonicMilliseconds() + core.configuration.headerDeadline.milliseconds)
  }

  var idleSince: Int64 { idle.load(ordering: .relaxed) }

  /// The connection was shut down because it was idle.
  var isPressedOut: Bool { pressedOut.load(ordering: .relaxed) }

  func pressOut() {
    idle.store(.max, ordering: .relaxed)
    pressedOut.store(true, ordering: .relaxed)
  }

  /// Counts the connection towards its peer's limit. Beyond the limit, the connection is shut down before its first
  /// request; without TLS it gets a 429.
  func count() {
    guard !core.configuration.isTrustedProxy(remoteAddress) else { return }
    if core.clients.connect(network) { return state.withLock { $0.isCounted = true } }
    core.configuration.observe(.connections, remoteAddress)
    setLingers()
    if core.configuration.certificate == nil {
      let answer = core.handler.refusal(status: 429, reason: "Your address has too many connections.").wire
      _ = answer.withUnsafeBytes { send(fd, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) }
    }
    _ = shutdown(fd, Int32(SHUT_RDWR))
  }

  /// Ends the count of the connection.
  func giveBack() {
    if state.withLock({ $0.isCounted }) { core.clients.disconnect(network) }
  }

  func isLate(at now: Int64) -> Bool { deadline.load(ordering: .relaxed) < now }

  func setTarget(_ target: String?) { state.withLock { $0.target = target } }

  /// The raw target of the request whose headers are complete; nil when it is not UTF-8.
  func takeTarget() -> String? {
    state.withLock { state in
      defer { state.target = nil }
      return state.target
    }
  }

  /// The credentials for this connection's handshake; nil without TLS.
  func credentials() -> TLSCredentials? {
    if let known = state.withLock({ $0.credentials }) { return known }
    let credentials = core.configuration.certificate?.current()
    state.withLock { $0.credentials = credentials }
    return credentials
  }

  /// Begins a request whose headers are complete.
  /// - Returns: whether the peer has hung up already.
  func begin(_ exchange: HTTPExchange, expectsBody: Bool) -> Bool {
    idle.store(.max, ordering: .relaxed)
    if expectsBody { startPace() } else { deadline.store(.max, ordering: .relaxed) }
    return state.withLock { state in
      state.exchange = exchange
      return state.hasHungUp
    }
  }

  /// Counts bytes of a body. A full quota starts the next stretch.
  func received(_ count: Int) {
    let configuration = core.configuration
    let stretch = paceByteCount.add(count, ordering: .relaxed).newValue
    if Int64(stretch) * 1000 >= Int64(configuration.slowestBodyBytesPerSecond) * configuration.paceStretch.milliseconds
    {
      startPace()
    }
  }

  /// Begins a stretch of time in which a body must bring its quota of bytes, or its end.
  func startPace() {
    paceByteCount.store(0, ordering: .relaxed)
    deadline.store(monotonicMilliseconds() + core.configuration.paceStretch.milliseconds, ordering: .relaxed)
  }

  /// Removes the deadline, because the server holds the body back or the body is complete.
  func stopPace() { deadline.store(.max, ordering: .relaxed) }

  /// Sets the deadline for an answer.
  /// - Parameter byteCount: the answer's length; nil for an open-ended one, which has no deadline.
  func startSending(_ byteCount: Int?) {
    guard let byteCount else { return stopPace() }
    let configuration = core.configuration
    let milliseconds = Int64(clamping: byteCount) * 1000 / Int64(max(configuration.slowestAnswerBytesPerSecond, 1))
    deadline.store(monotonicMilliseconds() + configuration.paceStretch.milliseconds + milliseconds, ordering: .relaxed)
  }

  /// Ends the request. The next one's headers must be complete within the idle limit plus the header deadline.
  func finish() {
    let configuration = core.configuration
    let now = monotonicMilliseconds()
    idle.store(now, ordering: .relaxed)
    deadline.store(
      now + configuration.idleLimit.milliseconds + configuration.headerDeadline.milliseconds, ordering: .relaxed)
    state.withLock { $0.exchange = nil }
  }

  /// Notes that the peer sends nothing more.
  func peerHungUp() {
    let exchange = state.withLock { state in
      state.hasHungUp = true
      return state.exchange
    }
    exchange?.hangUp()
  }

  /// Closes an idle connection, or ends an open-ended body.
  func drain() {
    let exchange = state.withLock { $0.exchange }
    if let exchange { exchange.drain() } else { core.connections.shutDown(self) }
  }

  /// Ends the current request at once, or closes the idle connection.
  func abandon() {
    let exchange = state.withLock { $0.exchange }
    if let exchange { exchange.abandon() } else { core.connections.shutDown(self) }
  }

  /// Makes the server read on for a while after the connection's end. Closing with unread bytes resets the connection,
  /// and the peer could lose the answer.
  func setLingers() { state.withLock { $0.lingers = true } }
  func setSurplus() { state.withLock { $0.isSurplus = true } }
  var isSurplus: Bool { state.withLock { $0.isSurplus } }
  var lingers: Bool { state.withLock { $0.lingers } }
}

/// The time in milliseconds on a clock that never goes back.
func monotonicMilliseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}

extension Duration {
  var milliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}
