// A process's copy of the cluster map, kept while the share service is away, and the bus connections that follow from
// it.

public import Records
import Synchronization

/// A process's view of the cluster: it takes the maps that the leading share service publishes and connects the bus
/// accordingly.
public final class Cluster: Sendable {
  private struct State {
    weak var bus: (any Bus)?
    var map: ClusterMap?
    /// Of the map; nil for one without shards.
    var layout: ShardLayout?
    /// Names of the connected members by endpoint.
    var connected: [String: String] = [:]
    var subscribers = Subscribers<ClusterMap>()
    var isClosed = false
  }

  private let name: String
  private let role: Role
  private let state = Mutex(State())

  public init(name: String, role: Role) {
    self.name = name
    self.role = role
  }

  /// True if processes of one role connect to those of another; all connect to the share service too. Calls go both
  /// ways on a link.
  static func connects(_ role: Role, to other: Role) -> Bool {
    switch (role, other) {
    case (.gateway, .worker), (.gateway, .notifier), (.worker, .notifier), (.worker, .gateway): true
    // Between two processes of one role, the one whose name comes first connects.
    case (.notifier, .notifier), (.worker, .worker): true
    default: false
    }
  }

  /// Serves `PublishClusterMap`; called before the bus is made.
  public func register(in handlers: inout BusHandlers) {
    handlers.on(PublishClusterMap.self) { [self] message, _, _ in
      accept(message.map)
      return Answer(Acknowledgement())
    }
  }

  /// Connects the bus to the share service, and to members as maps arrive.
  /// - Parameter shareEndpoints: those of all share services, of which one leads; none in a share service itself.
  public func start(on bus: any Bus, shareEndpoints: [String]) {
    for endpoint in shareEndpoints { bus.connect(to: endpoint, of: .role(.share)) }
    state.withLock { state in
      state.bus = bus
      connect(&state)
    }
  }

  /// The latest map; nil until the first arrives.
  public var current: ClusterMap? { state.withLock(\.map) }

  /// Where databases are; nil until a map tells it.
  public var layout: ShardLayout? { state.withLock(\.layout) }

  /// The worker that holds a database's shard according to the map; nil when no worker does or no map is known.
  public func holder(of database: DatabaseID) -> String? {
    let hash = database.placeHash
    return state.withLock { state in
      guard let map = state.map, let layout = state.layout else { return nil }
      return map.holders[layout.shard(ofHash: hash)]
    }
  }

  /// The worker that should hold a shard; nil if there is none, no map yet, or no such shard.
  public func holder(ofShard shard: Int) -> String? {
    state.withLock { state in
      guard let map = state.map, map.holders.indices.contains(shard) else { return nil }
      return map.holders[shard]
    }
  }

  /// The present map, if there is one, and later ones; a slow reader gets only the newest. Ends with `close`.
  public func updates() -> AsyncStream<ClusterMap> {
    let (stream, continuation) = AsyncStream.makeStream(of: ClusterMap.self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { state in
      if let map = state.map { continuation.yield(map) }
      if state.isClosed { continuation.finish() } else { state.subscribers.add(continuation) }
    }
    return stream
  }

  /// Ends the streams; the map stays readable.
  public func close() {
    state.withLock { state in
      state.isClosed = true
      state.subscribers.finish()
    }
  }

  /// Takes a map if it is newer than the present one, and its splits can be.
  func accept(_ map: ClusterMap) {
    let layout = map.layout
    if map.splits != nil, layout == nil { return }
    state.withLock { state in
      if let present = state.map, !map.isNewer(than: present) { return }
      state.map = map
      state.layout = layout
      connect(&state)
      state.subscribers.yield(map)
    }
  }

  /// Runs under the lock, so that two maps cannot cross; the bus only queues the commands.
  private func connect(_ state: inout State) {
    guard let bus = state.bus, let map = state.map else { return }
    if let epoch = map.epoch, bus.own.epoch != epoch { bus.setEpoch(epoch) }
    let members = map.members.filter {
      $0.name != name && Self.connects(role, to: $0.role) && ($0.role != role || name < $0.name)
    }
    let wanted = Dictionary(members.map { ($0.endpoint, $0.name) }, uniquingKeysWith: { first, _ in first })
    for (endpoint, name) in state.connected.sorted(by: { $0.key < $1.key }) where wanted[endpoint] != name {
      bus.disconnect(from: endpoint)
    }
    for (endpoint, name) in wanted.sorted(by: { $0.key < $1.key }) where state.connected[endpoint] != name {
      bus.connect(to: endpoint, of: .peer(name))
    }
    state.connected = wanted
  }
}
