// One connection: what is going on on it, and until when that may take.

internal import CLinux
internal import CMicroHTTPD
internal import Glibc
internal import Synchronization

/// The library's handle of a connection.
///
/// Unchecked because it is only a pointer: it is used on the connection's own thread, and elsewhere (`MHD_resume_connection`, which is safe
/// from any thread) only while the connection is suspended and so can't go away.
struct ConnectionHandle: @unchecked Sendable {
  let pointer: OpaquePointer
}

final class Link: Sendable {
  /// Never used twice, unlike file descriptors.
  let id: UInt64
  let fd: Int32
  let remoteAddress: String
  /// Of the peer.
  let network: ClientNetwork
  private let core: ServerCore
  private let state = Mutex(State())
  /// On `monotonicMilliseconds`; when it passes, the connection is shut down.
  private let deadline: Atomic<Int64>
  /// Since when nothing goes on here, on the same clock; the end of time while something does, and before the first request.
  private let idle = Atomic(Int64.max)
  private let pressedOut = Atomic(false)
  /// Bytes of a body in the present stretch of its pace.
  private let paceByteCount = Atomic(0)

  private static let nextID = Atomic<UInt64>(1)

  private struct State {
    var exchange: Exchange?
    /// Of the request whose headers are being read; nil when it is not UTF-8.
    var target: String?
    var hasHungUp = false
    var lingers = false
    /// There were as many connections as there may be when it came.
    var isSurplus = false
    /// Among the peer's.
    var isCounted = false
    /// Shown to the peer; kept here as long as the library may use them.
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

  /// Shut down, because it was idle.
  var isPressedOut: Bool { pressedOut.load(ordering: .relaxed) }

  func pressOut() {
    idle.store(.max, ordering: .relaxed)
    pressedOut.store(true, ordering: .relaxed)
  }

  /// The connection has begun: one of the peer's, or one too many, which is answered and shut down before it has said anything.
  func count() {
    guard !core.configuration.isTrustedProxy(remoteAddress) else { return }
    if core.clients.connect(network) { return state.withLock { $0.isCounted = true } }
    core.configuration.observe(.connections, remoteAddress)
    setLingers()
    if core.configuration.certificate == nil {
      let answer = core.handler.refusal(status: 429, reason: "Your address has as many connections as it may have.").wire
      _ = answer.withUnsafeBytes { send(fd, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) }
    }
    _ = shutdown(fd, Int32(SHUT_RDWR))
  }

  /// The connection is over.
  func giveBack() {
    if state.withLock({ $0.isCounted }) { core.clients.disconnect(network) }
  }

  func isLate(at now: Int64) -> Bool { deadline.load(ordering: .relaxed) < now }

  func setTarget(_ target: String?) { state.withLock { $0.target = target } }

  /// The raw target of the request that begins; nil when it is not UTF-8.
  func takeTarget() -> String? {
    state.withLock { state in
      defer { state.target = nil }
      return state.target
    }
  }

  /// What this connection shows in its handshake; nil without TLS.
  func credentials() -> TLSCredentials? {
    if let known = state.withLock({ $0.credentials }) { return known }
    let credentials = core.configuration.certificate?.current()
    state.withLock { $0.credentials = credentials }
    return credentials
  }

  /// A request's headers are complete.
  /// - Returns: whether the peer hung up already.
  func begin(_ exchange: Exchange, expectsBody: Bool) -> Bool {
    idle.store(.max, ordering: .relaxed)
    if expectsBody { startPace() } else { deadline.store(.max, ordering: .relaxed) }
    return state.withLock { state in
      state.exchange = exchange
      return state.hasHungUp
    }
  }

  /// More of a body has come.
  func received(_ count: Int) {
    let configuration = core.configuration
    let stretch = paceByteCount.add(count, ordering: .relaxed).newValue
    if Int64(stretch) * 1000 >= Int64(configuration.slowestBodyBytesPerSecond) * configuration.paceStretch.milliseconds { startPace() }
  }

  /// A stretch of time begins in which a body must bring its bytes, or its end.
  func startPace() {
    paceByteCount.store(0, ordering: .relaxed)
    deadline.store(monotonicMilliseconds() + core.configuration.paceStretch.milliseconds, ordering: .relaxed)
  }

  /// The server holds the body up, or it is complete: what follows takes the time it takes.
  func stopPace() { deadline.store(.max, ordering: .relaxed) }

  /// An answer is about to be sent.
  /// - Parameter byteCount: nil: it has no known end, and its peer only has to go on reading.
  func startSending(_ byteCount: Int?) {
    guard let byteCount else { return stopPace() }
    let configuration = core.configuration
    let milliseconds = Int64(clamping: byteCount) * 1000 / Int64(max(configuration.slowestAnswerBytesPerSecond, 1))
    deadline.store(monotonicMilliseconds() + configuration.paceStretch.milliseconds + milliseconds, ordering: .relaxed)
  }

  /// The request is over; the next one's headers must be complete within the idle limit and the header deadline.
  func finish() {
    let configuration = core.configuration
    let now = monotonicMilliseconds()
    idle.store(now, ordering: .relaxed)
    deadline.store(now + configuration.idleLimit.milliseconds + configuration.headerDeadline.milliseconds, ordering: .relaxed)
    state.withLock { $0.exchange = nil }
  }

  /// The peer will send nothing any more.
  func peerHungUp() {
    let exchange = state.withLock { state in
      state.hasHungUp = true
      return state.exchange
    }
    exchange?.hangUp()
  }

  /// Closes an idle connection, ends an open-ended body. The caller holds the table's lock or knows that the descriptor is open.
  func drain() {
    let exchange = state.withLock { $0.exchange }
    if let exchange { exchange.drain() } else { core.connections.shutDown(self) }
  }

  /// Ends whatever goes on, now.
  func abandon() {
    let exchange = state.withLock { $0.exchange }
    if let exchange { exchange.abandon() } else { core.connections.shutDown(self) }
  }

  /// Keep reading (and dropping) for a while after the connection's end: closing with unread bytes would reset the connection and might
  /// take the answer with it.
  func setLingers() { state.withLock { $0.lingers = true } }
  func setSurplus() { state.withLock { $0.isSurplus = true } }
  var isSurplus: Bool { state.withLock { $0.isSurplus } }
  var lingers: Bool { state.withLock { $0.lingers } }
}

/// Milliseconds on a clock that never goes back.
func monotonicMilliseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}

extension Duration {
  var milliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}
