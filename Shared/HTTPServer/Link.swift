// One connection: what is going on on it, and until when that may take.

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
  private let core: ServerCore
  private let state = Mutex(State())
  /// On `monotonicMilliseconds`; when it passes, the connection is shut down.
  private let deadline: Atomic<Int64>

  private static let nextID = Atomic<UInt64>(1)

  private struct State {
    var exchange: Exchange?
    /// Of the request whose headers are being read; nil when it is not UTF-8.
    var target: String?
    var hasHungUp = false
    var lingers = false
    /// There were as many connections as there may be when it came.
    var isSurplus = false
    /// Shown to the peer; kept here as long as the library may use them.
    var credentials: TLSCredentials?
  }

  init(fd: Int32, remoteAddress: String, _ core: ServerCore) {
    id = Self.nextID.add(1, ordering: .relaxed).oldValue
    self.fd = fd
    self.remoteAddress = remoteAddress
    self.core = core
    deadline = Atomic(monotonicMilliseconds() + core.configuration.headerDeadline.milliseconds)
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
  func begin(_ exchange: Exchange, bodyByteCount: UInt64?) -> Bool {
    if let bodyByteCount {
      let seconds = 20 + Int64(clamping: bodyByteCount) / Int64(max(core.configuration.slowestBodyBytesPerSecond, 1))
      deadline.store(monotonicMilliseconds() + seconds * 1000, ordering: .relaxed)
    } else {
      deadline.store(.max, ordering: .relaxed)
    }
    return state.withLock { state in
      state.exchange = exchange
      return state.hasHungUp
    }
  }

  /// The body is complete: what follows takes the time it takes.
  func bodyIsComplete() { deadline.store(.max, ordering: .relaxed) }

  /// The request is over; the next one's headers must be complete within the idle limit and the header deadline.
  func finish() {
    let configuration = core.configuration
    deadline.store(monotonicMilliseconds() + configuration.idleLimit.milliseconds + configuration.headerDeadline.milliseconds, ordering: .relaxed)
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
