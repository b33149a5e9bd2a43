// The times and counts that bound a notifier's work.

public import HTTPClient

extension Notifier {
  /// Times and counts that bound the notifier's work.
  public struct Limits: Sendable {
    /// Time of a courier's poll before it is answered without a notification.
    public var courierHold = Duration.seconds(50)
    /// Time without a poll after which a courier is forgotten.
    public var courierIdle = Duration.seconds(600)
    /// Time between two heartbeats of a stream.
    public var heartbeat = Duration.seconds(25)
    /// Time after which streams' credentials are checked again even without a change of the directory: its message may
    /// be lost.
    public var recheck = Duration.seconds(60)
    /// Couriers of one user. Clients choose their names, and each courier is kept for the idle time.
    public var couriersPerUser = 256
    /// Event streams of one user at a time.
    public var streamsPerUser = 256
    /// Time for a question to the share service, including retries.
    public var directoryCall = Duration.seconds(5)
    /// Of the pushes to sleeping devices.
    var pushes = PushLimits()
    /// Servers that clients may name to be woken by.
    public var pushReach = HTTPClient.Reach.publicAddresses
    /// A PEM file of the authorities that vendors' certificates must come from; nil: the system's.
    public var pushAuthorities: String?
    /// Time between two rounds of due work; > 0.
    public var tick = Duration.milliseconds(500)

    public init() {}
  }
}
