// The limits of a process's end of the bus, and what it tells of itself: every queue is bounded and says so when full.

/// Limits and intervals of a bus.
public struct BusConfiguration: Sendable {
  /// Calls under way per peer and lane.
  public var windowCount = 512
  /// Calls per peer and lane that wait for a place in the window; one more is `overloaded` at once.
  public var backlogCount = 1024
  /// … of one party, so that nobody fills a backlog for all. Parties take turns for the window.
  public var partyBacklogCount = 256
  /// Handlers that run at a time, of each lane.
  public var runningCount = 1024
  /// Requests of a lane that wait for a handler or for their turn in an order; one more is answered `overloaded`.
  public var waitingCount = 8192
  /// Bytes of a lane's requests that wait or run here, and of calls that wait for a window; more is `overloaded`.
  public var heldByteCount = 512 << 20
  /// The longest body and the longest encoded arguments of a request or reply; longer ones are `tooLarge`.
  public var partByteLimit = 16 << 20
  /// Frames that a socket queues per connection and direction; what it does not take beyond that, the bus keeps up to `heldByteCount`.
  public var socketQueueCount = 4096
  /// How often a process announces itself.
  public var heartbeat: Duration = .milliseconds(500)
  /// The silence after which a peer counts as lost.
  public var liveness: Duration = .seconds(2)
  /// nil: what goes over the bus is neither encrypted nor authenticated, and stays on this machine.
  public var keys: BusKeys?
  /// The newest stored format of shards that the process knows; of workers. Peers are told.
  public var shardFormat: Int?
  /// Told what an operator may want to know. Called on the bus's own thread: must not block and must not call the bus.
  public var observe: @Sendable (BusEvent) -> Void = { _ in }

  public init() {}
}

/// What happened on the bus beside calls; for logs.
public enum BusEvent: Sendable, Equatable {
  case peerConnected(Peer)
  case peerLost(Peer)
  /// Another process announces itself with this process's name and a newer incarnation: peers listen to that one only.
  case superseded(by: Peer)
  /// Bytes that are no frame of ours were dropped.
  case malformedFrame
  /// A peer did not take what was sent to it; the link was given up.
  case stalledLink(peerName: String)
  /// An endpoint that is not connected to, and why.
  case refusedEndpoint(String, reason: String)
  /// Somebody wanted to connect here and must not.
  case refusedConnection(reason: String)
  /// A connected process sent what its key does not allow it; the frame was dropped.
  case refusedFrame(peerName: String, reason: String)
  /// A connection to an endpoint does not come about, and why; tried again.
  case failedHandshake(String, reason: String)
}

/// Counts since the start, and what is under way now; for metrics.
public struct BusStatistics: Sendable, Equatable {
  public var calls: UInt64 = 0
  /// Calls that failed, by code, whoever found the failure.
  public var failures: [BusError.Code: UInt64] = [:]
  public var served: UInt64 = 0
  /// Requests refused because too many wait.
  public var refusedRequests: UInt64 = 0
  public var malformedFrames: UInt64 = 0
  /// Connections that ended before they were one: strangers without a listed key, and whoever spoke something else.
  public var refusedConnections: UInt64 = 0
  /// Frames whose sender's key does not allow them: of another's name or role, or no longer listed.
  public var refusedFrames: UInt64 = 0
  public var callsUnderWay = 0
  public var callsInBacklog = 0
  public var handlersRunning = 0
  public var requestsWaiting = 0
  /// Those of `handlersRunning` and of `requestsWaiting` that are of the nested lane.
  public var nestedHandlersRunning = 0
  public var nestedRequestsWaiting = 0

  public init() {}
}
