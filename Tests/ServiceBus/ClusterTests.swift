// The cluster map from the share service to all processes, over in-memory buses: arrival, order, newcomers, restarts,
// connections.

import InMemoryServiceBus
import ServiceBus
import Synchronization
import Testing

/// A process that follows the map.
private struct Member {
  let bus: InMemoryBus
  let cluster: Cluster

  init(_ name: String, _ role: Role, _ network: InMemoryNetwork, isReady: Bool = true) {
    cluster = Cluster(name: name, role: role)
    var handlers = BusHandlers()
    cluster.register(in: &handlers)
    bus = InMemoryBus(name: name, role: role, network: network, handlers: handlers, isReady: isReady)
    cluster.start(on: bus, shareEndpoints: ["memory://share"])
  }

  func meets(_ names: Set<String>) async {
    await bus.waitForPeers { Set($0.map(\.name)) == names }
  }

  /// The first map that satisfies a condition.
  func map(where isWanted: (ClusterMap) -> Bool) async -> ClusterMap? {
    for await map in cluster.updates() where isWanted(map) { return map }
    return nil
  }
}

/// Stores maps; fails as often as the test says.
private final class Keeper: Sendable {
  private struct State {
    var maps: [ClusterMap] = []
    var failureCount = 0
  }
  private let state: Mutex<State>

  init(failureCount: Int = 0) { state = Mutex(State(failureCount: failureCount)) }

  func keep(_ map: ClusterMap) throws {
    try state.withLock { state in
      state.failureCount -= 1
      if state.failureCount >= 0 { throw BusError(.internalError, "the disk is full") }
      state.maps.append(map)
    }
  }

  var maps: [ClusterMap] { state.withLock(\.maps) }
}

/// A share service that only publishes.
private struct Share {
  let bus: InMemoryBus
  let task: Task<Void, Never>

  init(_ network: InMemoryNetwork, _ keeper: Keeper, persisted: ClusterMap? = nil, grace: Duration = .zero) {
    bus = InMemoryBus(name: "share", role: .share, network: network, handlers: BusHandlers(), isReady: true)
    let publisher = ClusterMapPublisher(
      bus: bus, shardCount: 16, persisted: persisted, gracePeriod: grace, persist: { try keeper.keep($0) })
    task = Task { await publisher.run() }
  }

  func stop() async {
    bus.close()
    await task.value
  }
}

@Suite(.timeLimit(.minutes(2))) struct ClusterTests {
  let network = InMemoryNetwork()
  private let keeper = Keeper()

  @Test func `everybody learns who holds what, connects as its role does, and lets go of who left`() async {
    let share = Share(network, keeper)
    let gateway = Member("gateway-1", .gateway, network)
    let worker = Member("worker-1", .worker, network)
    let notifier = Member("notifier-1", .notifier, network)
    let second = Member("notifier-2", .notifier, network)
    await gateway.meets(["notifier-1", "notifier-2", "share", "worker-1"])
    await worker.meets(["gateway-1", "notifier-1", "notifier-2", "share"])
    // Notifiers report deliveries to one another.
    await notifier.meets(["gateway-1", "notifier-2", "share", "worker-1"])
    await second.meets(["gateway-1", "notifier-1", "share", "worker-1"])
    #expect(await gateway.map { $0.members.count == 5 }?.holders == Array(repeating: "worker-1", count: 16))
    #expect(gateway.cluster.holder(ofShard: 15) == "worker-1")
    #expect(gateway.cluster.holder(ofShard: 16) == nil)
    #expect(gateway.cluster.holder(ofShard: -1) == nil)
    network.kill("worker-1")
    await gateway.meets(["notifier-1", "notifier-2", "share"])
    #expect(await gateway.map { $0.members.count == 4 }?.holders == Array(repeating: nil, count: 16))
    await share.stop()
    #expect(keeper.maps.map(\.version) == Array(1...Int64(keeper.maps.count)))
  }

  @Test func `a map is kept before anybody learns of it, also when keeping fails at first`() async {
    let keeper = Keeper(failureCount: 2)
    let share = Share(network, keeper)
    let worker = Member("worker-1", .worker, network)
    let map = await worker.map { $0.holders[0] == "worker-1" }
    #expect(keeper.maps.contains { $0 == map })
    await share.stop()
  }

  @Test func `a newcomer learns the present map although nothing changes for the others`() async {
    let share = Share(network, keeper)
    let first = Member("worker-1", .worker, network)
    _ = await first.map { $0.members.count == 2 }
    let late = Member("worker-2", .worker, network)
    let map = await late.map { $0.members.count == 3 }
    #expect(await first.map { $0.members.count == 3 } == map)
    await share.stop()
  }

  @Test func `the last map stays while the share service is away, and its restart moves nothing`() async throws {
    let share = Share(network, keeper)
    let gateway = Member("gateway-1", .gateway, network)
    let workers = [Member("worker-1", .worker, network), Member("worker-2", .worker, network)]
    let steady = try #require(
      await gateway.map { $0.members.count == 4 && $0.holders.contains("worker-1") && $0.holders.contains("worker-2") })
    for worker in workers { _ = await worker.map { $0.version == steady.version } }
    network.kill("share")
    await share.task.value
    await gateway.meets(["worker-1", "worker-2"])
    #expect(gateway.cluster.current == steady)
    // A map that the killed share service may have made while it was alone must not count.
    let next = Share(network, keeper, persisted: steady, grace: .seconds(60))
    await gateway.meets(["share", "worker-1", "worker-2"])
    // The only change is the share service itself, which was restarted.
    let map = try #require(await gateway.map { $0.version > steady.version })
    #expect(map.holders == steady.holders)
    #expect(map.members.map(\.name) == steady.members.map(\.name))
    await next.stop()
    withExtendedLifetime(workers) {}
  }

  @Test func `a map older than the present one is ignored`() async throws {
    let share = InMemoryBus(name: "share", role: .share, network: network, handlers: BusHandlers(), isReady: true)
    let worker = Member("worker-1", .worker, network)
    await share.waitForPeers { !$0.isEmpty }
    for version in [5, 3, 5, 4] as [Int64] {
      let map = ClusterMap(version: version, members: [], holders: ["worker-\(version)"])
      _ = try await share.call(PublishClusterMap(map: map), to: .peer("worker-1"), within: .seconds(100))
    }
    #expect(worker.cluster.holder(ofShard: 0) == "worker-5")
    share.close()
    worker.cluster.close()
    for await _ in worker.cluster.updates() {}
  }

  @Test func `a peer that does not take the map at first gets it when it does`() async {
    let share = Share(network, keeper)
    let worker = Member("worker-1", .worker, network)
    _ = await worker.map { $0.members.count == 2 }
    network.pause("worker-1")
    let second = Member("worker-2", .worker, network)
    _ = await second.map { $0.members.count == 3 }
    network.resume("worker-1")
    #expect(await worker.map { $0.members.contains { $0.name == "worker-2" } } != nil)
    await share.stop()
  }
}
