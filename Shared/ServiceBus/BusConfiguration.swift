// The limits of a process's end of the bus, its counts and its events: every queue is bounded and refuses more when
// full.

/// Limits and intervals of a bus.
public struct BusConfiguration: Sendable {
  /// The calls that may be under way per peer and lane.
  public var windowCount = 512
  /// The calls per peer and lane that may wait for a place in the window; one more fails with `overloaded` at once.
  public var backlogCount = 1024
  /// The same limit for one party, so that no party fills the backlog alone. Parties take turns for the window.
  public var partyBacklogCount = 256
  /// The handlers that may run at a time, per lane.
  public var runningCount = 1024
  /// The requests of a lane that may wait for a handler or for their ordering key; one more is answered `overloaded`.
  public var waitingCount = 8192
  /// The bytes of a lane's requests that wait or run here, and of calls that wait for a window; more fails with
  /// `overloaded`.
  public var heldByteCount = 512 << 20
  /// The byte limit of a body, and of the encoded arguments, of a request or reply; longer ones fail with `tooLarge`.
  public var partByteLimit = 16 << 20
  /// The frames that a socket queues per connection and direction. The bus keeps frames beyond that, up to
  /// `heldByteCount`.
  public var socketQueueCount = 4096
  /// The interval at which a process announces itself.
  public var heartbeat: Duration = .milliseconds(500)
  /// The silence after which a peer counts as lost.
  public var liveness: Duration = .seconds(2)
  /// nil: the bus neither encrypts nor authenticates, and stays on this machine.
  public var keys: BusKeys?
  /// The newest stored format of shards that this process knows; only workers set it. Peers learn it.
  public var shardFormat: Int?
  /// The clusters that this process reaches; only workers set it. Peers learn it.
  public var clusters: [String]?
  /// Gets events for operators, on the bus's own thread: it must neither block nor call the bus.
  public var observe: @Sendable (BusEvent) -> Void = { _ in }

  public init() {}
}

/// An event of the bus outside calls; for logs.
public enum BusEvent: Sendable, Equatable {
  case peerConnected(Peer)
  case peerLost(Peer)
  /// Another process announces this process's name with a greater incarnation: peers listen to that process only.
  case superseded(by: Peer)
  /// Bytes that are no frame of this protocol were dropped.
  case malformedFrame
  /// A peer did not read what was sent to it; the link was given up.
  case stalledLink(peerName: String)
  /// An endpoint that the bus does not connect to, and the reason.
  case refusedEndpoint(String, reason: String)
  /// A connection from outside was refused.
  case refusedConnection(reason: String)
  /// A connected process sent a frame that its key does not allow; the frame was dropped.
  case refusedFrame(peerName: String, reason: String)
  /// Connecting to an endpoint failed for a reason; the bus tries again.
  case failedHandshake(String, reason: String)
}

/// Counts since the start, and the present load; for metrics.
public struct BusStatistics: Sendable, Equatable {
  public var calls: UInt64 = 0
  /// Failed calls by code, whether this process or its peer found the failure.
  public var failures: [BusError.Code: UInt64] = [:]
  public var served: UInt64 = 0
  /// Requests refused because too many waited.
  public var refusedRequests: UInt64 = 0
  public var malformedFrames: UInt64 = 0
  /// Connections that ended in their handshake: processes without a listed key, or of another protocol.
  public var refusedConnections: UInt64 = 0
  /// Frames that their sender's key does not allow: of another name or role, or of a key no longer listed.
  public var refusedFrames: UInt64 = 0
  public var callsUnderWay = 0
  public var callsInBacklog = 0
  public var handlersRunning = 0
  public var requestsWaiting = 0
  /// The part of `handlersRunning` and `requestsWaiting` in the nested lane.
  public var nestedHandlersRunning = 0
  public var nestedRequestsWaiting = 0

  public init() {}
}
