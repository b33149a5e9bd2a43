// The bus of tests: it decides like the bus over ZeroMQ, in one process and without sockets.

public import ServiceBus

/// A process's end of an `InMemoryNetwork`.
public final class InMemoryBus: Bus {
  let front: BusFront
  private let network: InMemoryNetwork
  /// The given endpoint, or `memory://` and the name.
  public let endpoint: String
  private let node: InMemoryNetwork.NodeID

  /// Joins a network. A bus that is bound to the same endpoint there is cut off, as if its process had died.
  /// - Parameter incarnation: nil takes one greater than all others of the network.
  public init(
    name: String, role: Role, network: InMemoryNetwork, handlers: BusHandlers, endpoint: String? = nil,
    adminURL: String? = nil, isReady: Bool = false,
    configuration: BusConfiguration = BusConfiguration(), incarnation: UInt64? = nil
  ) {
    self.network = network
    self.endpoint = endpoint ?? "memory://" + name
    let peer = Peer(
      name: name, role: role, incarnation: incarnation ?? network.nextIncarnation(), endpoint: self.endpoint,
      isReady: isReady, adminURL: adminURL,
      shardFormat: configuration.shardFormat, clusters: configuration.clusters)
    front = BusFront(peer, handlers: handlers, configuration: configuration, start: network.start)
    node = network.join(peer, front)
  }

  private var post: @Sendable (Command) -> Bool {
    { [network, node] in network.post($0, from: node) }
  }

  public func call<M: Message>(_ message: M, body: [UInt8], to destination: Destination, within deadline: Duration)
    async throws(BusError) -> Answer<M.Reply>
  {
    try await front.call(message, body: body, to: destination, within: deadline, now: network.now, post: post)
  }

  public var own: Peer { front.own }
  public var peers: [Peer] { front.board.peers }
  public func peerChanges() -> AsyncStream<[Peer]> { front.board.changes() }
  public func connect(to endpoint: String, of peer: Destination?) {
    _ = post(.connect(BusConnection(endpoint: endpoint, peer: peer)))
  }
  public func disconnect(from endpoint: String) { _ = post(.disconnect(endpoint)) }
  public func setReady(_ isReady: Bool) { front.setReady(isReady, post: post) }
  public func setEpoch(_ epoch: Int64) { front.setEpoch(epoch, post: post) }
  public func drain(within limit: Duration) async { await front.drain(within: limit, post: post) }
  public func close() { network.remove(node) }
  public func statistics() async -> BusStatistics { await front.statistics(post: post) }
}
