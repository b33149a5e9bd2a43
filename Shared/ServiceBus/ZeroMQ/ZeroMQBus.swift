// The bus between processes: one bound ROUTER, one DEALER per connected endpoint, and one thread that owns them.

import CLinux
import CZeroMQ
import Glibc
import Synchronization

/// A process's end of the bus over ZeroMQ.
public final class ZeroMQBus: Bus {
  let front: BusFront
  private let queue: CommandQueue
  private let loopExecutor: LoopExecutor
  private let thread: Mutex<pthread_t?>
  /// The endpoint for others to connect to, with the port that was chosen for `tcp://127.0.0.1:*`.
  public let endpoint: String

  /// Binds the endpoint and starts the thread.
  /// - Parameters:
  ///   - endpoint: `ipc://` and a path whose folder exists, or `tcp://` on a loopback address or, with keys, on any
  ///     address of the machine (port `*`: any port).
  ///   - incarnation: nil draws one from the clock and the system's randomness.
  /// - Throws: `BusError.refused` with one sentence if the endpoint is not allowed or cannot be bound.
  public init(
    name: String, role: Role, endpoint: String, adminURL: String? = nil, isReady: Bool = false, handlers: BusHandlers,
    configuration: BusConfiguration = BusConfiguration(), incarnation: UInt64? = nil
  ) throws(BusError) {
    if let reason = Endpoint.refusal(endpoint, hasKeys: configuration.keys != nil, isBound: true) {
      throw BusError(.refused, reason)
    }
    queue = try CommandQueue()
    loopExecutor = LoopExecutor(queue)
    guard let context = zmq_ctx_new() else { throw BusError(.refused, "no ZeroMQ context: \(ZeroMQSocket.lastError)") }
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 16_384)
    let door: Door
    do throws(BusError) {
      door = try Door(endpoint, in: context, configuration)
    } catch {
      zmq_ctx_term(context)
      throw error
    }
    self.endpoint = door.endpoint
    let peer = Peer(
      name: name, role: role, incarnation: incarnation ?? Incarnation.draw(at: Self.wallClock), endpoint: self.endpoint,
      isReady: isReady, adminURL: adminURL,
      shardFormat: configuration.shardFormat, clusters: configuration.clusters)
    front = BusFront(peer, handlers: handlers, configuration: configuration, start: .now)
    let loop = ZeroMQLoop(context: context, door: door, peer: peer, queue: queue, executor: loopExecutor, front: front)
    var started = pthread_t()
    let parcel = Unmanaged.passRetained(loop)
    let result = pthread_create(
      &started, nil,
      { parcel in
        guard let parcel else { return nil }
        name_this_thread("bus")
        ZeroMQBus.blockSignals()
        Unmanaged<ZeroMQLoop>.fromOpaque(parcel).takeRetainedValue().run()
        return nil
      }, parcel.toOpaque())
    guard result == 0 else {
      parcel.release()
      door.close()
      zmq_ctx_term(context)
      throw BusError(.refused, "no thread for the bus: \(String(cString: strerror(result)))")
    }
    thread = Mutex(started)
  }

  deinit { close() }

  /// The service's main thread handles signals.
  private static func blockSignals() {
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
  }

  private static var wallClock: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  public func call<M: Message>(_ message: M, body: [UInt8], to destination: Destination, within deadline: Duration)
    async throws(BusError) -> Answer<M.Reply>
  {
    try await front.call(message, body: body, to: destination, within: deadline, now: front.now) { [queue] in
      queue.post($0)
    }
  }

  public var executor: (any TaskExecutor)? { loopExecutor }
  public var own: Peer { front.own }
  public var peers: [Peer] { front.board.peers }
  public func peerChanges() -> AsyncStream<[Peer]> { front.board.changes() }
  public func connect(to endpoint: String, of peer: Destination?) {
    _ = queue.post(.connect(BusConnection(endpoint: endpoint, peer: peer)))
  }
  public func admit(_ known: KnownPeers) { _ = queue.post(.admit(known)) }
  public func disconnect(from endpoint: String) { _ = queue.post(.disconnect(endpoint)) }
  public func setReady(_ isReady: Bool) { front.setReady(isReady) { queue.post($0) } }
  public func setEpoch(_ epoch: Int64) { front.setEpoch(epoch) { queue.post($0) } }
  public func drain(within limit: Duration) async { await front.drain(within: limit) { queue.post($0) } }
  public func statistics() async -> BusStatistics { await front.statistics { queue.post($0) } }

  /// Returns when the sockets are closed and the endpoint is free, at most some 300 ms later.
  public func close() {
    queue.close()
    let started = thread.withLock { $0.take() }
    if let started { pthread_join(started, nil) }
  }
}
