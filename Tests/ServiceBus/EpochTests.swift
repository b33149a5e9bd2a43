// Several share services, of which one leads: processes call and follow the one with the highest epoch.

import InMemoryServiceBus
import Testing

@testable import ServiceBus

@Suite(.timeLimit(.minutes(2))) struct EpochTests {
  /// The exchange of a gateway that calls the share service.
  private struct Caller {
    var exchange = MessageExchange(
      peer: Caller.peer("gateway-1", .gateway), served: [:], configuration: BusConfiguration(), now: 0)
    private var lastCorrelation: UInt64 = 0

    init() {}

    static func peer(_ name: String, _ role: Role, isReady: Bool = true, epoch: Int64? = nil) -> Peer {
      Peer(name: name, role: role, incarnation: 1, endpoint: "memory://" + name, isReady: isReady, epoch: epoch)
    }

    mutating func hears(_ peer: Peer, on link: UInt64) {
      exchange.received(
        Frame(kind: .announce, arguments: Announcement(peer: peer, isDraining: nil).encoded()),
        on: LinkID(number: link))
      _ = exchange.takeActions()
    }

    /// Calls several times. The links of the requests, or the error of all.
    mutating func callsLeadTo() -> Result<Set<UInt64>, BusError> {
      var links: Set<UInt64> = []
      for _ in 0..<6 {
        lastCorrelation += 1
        exchange.call(
          CallRequest(
            correlation: lastCorrelation, destination: .role(.share), name: "test.echo/1", key: "", arguments: [],
            body: [], deadline: 1000, reply: PendingReply()))
        for action in exchange.takeActions() {
          switch action {
          case .send(let frame, let link) where frame.kind == .request: links.insert(link.number)
          case .settle(_, .failure(let error)): return .failure(error)
          default: break
          }
        }
      }
      return .success(links)
    }
  }

  @Test func `calls lead to the share service with the highest epoch, and to none below it when that one is gone`() {
    var caller = Caller()
    caller.hears(Caller.peer("share-1", .share), on: 1)
    #expect(caller.callsLeadTo() == .success([1]))
    caller.hears(Caller.peer("share-2", .share, isReady: false, epoch: 2), on: 2)
    #expect(caller.callsLeadTo() == .success([1]), "the second one does not lead before it is ready")
    caller.hears(Caller.peer("share-2", .share, epoch: 2), on: 2)
    caller.hears(Caller.peer("share-3", .share, epoch: 2), on: 3)
    #expect(caller.callsLeadTo() == .success([2, 3]))
    caller.exchange.linkDown(LinkID(number: 3))
    _ = caller.exchange.takeActions()
    #expect(caller.callsLeadTo() == .success([2]))
    caller.exchange.linkDown(LinkID(number: 2))
    _ = caller.exchange.takeActions()
    #expect(caller.callsLeadTo() == .failure(BusError(.unreachable, "no ready share is connected")))
    caller.hears(Caller.peer("share-1", .share, epoch: 3), on: 1)
    #expect(caller.callsLeadTo() == .success([1]))
  }

  @Test func `a process that hears from another which epoch leads calls no share service below it`() {
    var caller = Caller()
    caller.hears(Caller.peer("share-1", .share, epoch: 1), on: 1)
    caller.hears(Caller.peer("worker-1", .worker, epoch: 2), on: 2)
    #expect(caller.callsLeadTo() == .failure(BusError(.unreachable, "no ready share is connected")))
  }

  @Test func `share services without an epoch are all called`() {
    var caller = Caller()
    caller.hears(Caller.peer("share-1", .share), on: 1)
    caller.hears(Caller.peer("share-2", .share), on: 2)
    #expect(caller.callsLeadTo() == .success([1, 2]))
  }

  @Test func `a map of a higher epoch counts whatever its version, and one of a lower epoch never again`() async throws
  {
    let network = InMemoryNetwork()
    let share = InMemoryBus(name: "share", role: .share, network: network, handlers: BusHandlers(), isReady: true)
    let worker = Follower("worker-1", of: ["share"], network)
    await share.waitForPeers { !$0.isEmpty }
    let maps: [(epoch: Int64?, version: Int64)] = [(nil, 5), (2, 3), (nil, 9), (1, 10), (2, 2), (2, 4)]
    var followed: [Int64?] = []
    for (epoch, version) in maps {
      let map = ClusterMap(version: version, members: [], holders: [], epoch: epoch)
      _ = try await share.call(PublishClusterMap(map: map), to: .peer("worker-1"), within: .seconds(100))
      followed.append(worker.cluster.current?.version)
    }
    #expect(followed == [5, 3, 3, 3, 3, 4])
    #expect(worker.bus.own.epoch == 2)
    share.close()
  }

  @Test func `a share service publishes nothing more once a process follows one with a higher epoch`() async throws {
    let network = InMemoryNetwork()
    let former = Publishing("share-1", epoch: 1, network)
    let worker = Follower("worker-1", of: ["share-1", "share-2"], network)
    _ = await worker.map { $0.epoch == 1 && $0.holders.contains("worker-1") }
    #expect(former.publisher.successor == nil)
    let leader = Publishing("share-2", epoch: 2, network)
    let followed = await worker.map { $0.epoch == 2 && $0.holders.contains("worker-1") }
    await former.task.value
    #expect(former.publisher.successor == 2)
    // A process that comes now, and reaches both, follows the leader.
    let late = Follower("worker-2", of: ["share-1", "share-2"], network)
    #expect(await late.map { $0.epoch == 2 }?.version ?? 0 > followed?.version ?? .max)
    #expect(leader.publisher.successor == nil)
    leader.bus.close()
    await leader.task.value
    former.bus.close()
  }

  @Test func `a former share service that comes back finds its successor by the processes that follow it`() async {
    let network = InMemoryNetwork()
    let leader = Publishing("share-2", epoch: 2, network)
    let worker = Follower("worker-1", of: ["share-1", "share-2"], network)
    _ = await worker.map { $0.epoch == 2 }
    let former = Publishing("share-1", epoch: 1, network)
    await former.task.value
    #expect(former.publisher.successor == 2)
    #expect(worker.cluster.current?.epoch == 2)
    leader.bus.close()
    await leader.task.value
    former.bus.close()
  }
}

/// A process that follows the maps of some share services.
private struct Follower {
  let bus: InMemoryBus
  let cluster: Cluster

  init(_ name: String, of shares: [String], _ network: InMemoryNetwork) {
    cluster = Cluster(name: name, role: .worker)
    var handlers = BusHandlers()
    cluster.register(in: &handlers)
    bus = InMemoryBus(name: name, role: .worker, network: network, handlers: handlers, isReady: true)
    cluster.start(on: bus, shareEndpoints: shares.map { "memory://" + $0 })
  }

  func map(where isWanted: (ClusterMap) -> Bool) async -> ClusterMap? {
    for await map in cluster.updates() where isWanted(map) { return map }
    return nil
  }
}

/// A share service that only publishes.
private struct Publishing {
  let bus: InMemoryBus
  let publisher: ClusterMapPublisher
  let task: Task<Void, Never>

  init(_ name: String, epoch: Int64, _ network: InMemoryNetwork) {
    bus = InMemoryBus(name: name, role: .share, network: network, handlers: BusHandlers(), isReady: true)
    bus.setEpoch(epoch)
    let publisher = ClusterMapPublisher(
      bus: bus, shardCount: 4, persisted: nil, epoch: epoch, gracePeriod: .zero, persist: { _ in })
    self.publisher = publisher
    task = Task { await publisher.run() }
  }
}
