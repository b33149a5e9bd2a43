// ZeroMQ's additions to the bus: addresses, and connections of strangers.

import Glibc
import Testing

@testable import ServiceBus
@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct EndpointTests {
  @Test(arguments: [
    "ipc:///run/aquifer/worker-1.sock", "ipc://@name", "ipc://*", "tcp://127.0.0.1:5550", "tcp://127.255.0.9:*",
  ])
  func `addresses that do not leave the machine are allowed`(endpoint: String) {
    #expect(Endpoint.refusal(endpoint) == nil)
  }

  @Test(arguments: [
    "tcp://0.0.0.0:5550", "tcp://*:5550", "tcp://10.0.0.7:5550", "tcp://localhost:5550",
    "tcp://127.0.0.1.example.org:5550", "tcp://127.0.0:5550",
    "tcp://127.0.0.1", "tcp://[::]:5550", "tcp://eth0:5550", "tcp://127.0.0.256:1", "tcp://127.0.0.+1:1", "tcp://",
    "tcp://:", "udp://127.0.0.1:1",
    "inproc://x", "ipc://", "worker-1", "",
  ])
  func `other addresses are refused in one sentence, bound or connected to`(endpoint: String) async throws {
    #expect(throws: BusError.self) {
      try ZeroMQBus(name: "a", role: .share, endpoint: endpoint, handlers: BusHandlers())
    }
    let refused = Guarded<[String]>([])
    var configuration = BusConfiguration()
    configuration.observe = { event in
      if case .refusedEndpoint(let endpoint, let reason) = event { refused.change { $0 += [endpoint, reason] } }
    }
    let a = try Fabric(.ipc).station("a", configuration: configuration)
    a.bus.connect(to: endpoint)
    a.bus.close()
    #expect(refused.value == [endpoint, Endpoint.refusal(endpoint)])
  }

  @Test func `an address beyond the machine is answered with what to use instead`() {
    #expect(
      Endpoint.refusal("tcp://10.0.0.7:5550")
        == """
        tcp://10.0.0.7:5550 could carry unencrypted data beyond this machine: give the process a key (--bus-key and \
        --bus-peers), or use ipc:// with the path of a socket
        """
    )
    #expect(Endpoint.refusal("ipc://" + String(repeating: "x", count: 108))?.hasSuffix("use a shorter path") == true)
  }

  @Test func `with keys every address may be used but those that nobody else can connect to`() {
    for endpoint in ["ipc:///run/aquifer/worker-1.sock", "tcp://127.0.0.1:*", "tcp://10.0.0.7:5550", "tcp://eth0:5550"]
    {
      #expect(Endpoint.refusal(endpoint, hasKeys: true, isBound: true) == nil)
      #expect(Endpoint.refusal(endpoint, hasKeys: true) == nil)
    }
    for endpoint in ["tcp://*:5550", "tcp://0.0.0.0:5550", "tcp://[::]:5550"] {
      #expect(Endpoint.refusal(endpoint, hasKeys: true, isBound: true)?.hasSuffix("use this machine's address") == true)
    }
    for endpoint in ["tcp://", "tcp://:1", "udp://10.0.0.7:1", "worker-1", "ipc://"] {
      #expect(Endpoint.refusal(endpoint, hasKeys: true) != nil)
    }
  }

  @Test func `an endpoint that cannot be bound says why`() throws {
    let error = #expect(throws: BusError.self) {
      try ZeroMQBus(name: "a", role: .share, endpoint: "ipc:///nonexistent-folder/socket", handlers: BusHandlers())
    }
    #expect(error?.code == .refused)
    #expect(error?.reason.hasPrefix("ipc:///nonexistent-folder/socket cannot be bound: ") == true)
    let first = try ZeroMQBus(name: "a", role: .share, endpoint: "tcp://127.0.0.1:*", handlers: BusHandlers())
    defer { first.close() }
    #expect(throws: BusError.self) {
      try ZeroMQBus(name: "b", role: .share, endpoint: first.endpoint, handlers: BusHandlers())
    }
  }

  @Test func `the port that was found is the one announced`() async throws {
    let (a, b) = try await Fabric(.tcp).pair()
    defer { close(a, b) }
    #expect(b.endpoint.hasPrefix("tcp://127.0.0.1:"))
    #expect(!b.endpoint.hasSuffix("*"))
    #expect(a.bus.peers.map(\.endpoint) == [b.endpoint])
    #expect(b.bus.own.endpoint == b.endpoint)
  }

  @Test(arguments: [Transport.ipc, .tcp])
  func `messages for a stopped peer wait in their order and arrive when it goes on`(transport: Transport) async throws {
    var configuration = BusConfiguration()
    configuration.socketQueueCount = 4
    configuration.liveness = .seconds(600)
    let a = try Fabric(transport).station("a", .gateway, configuration: configuration)
    defer { close(a) }
    let b = try a.fabric.neighbour("b", livenessSeconds: 600)
    defer { b.end() }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    b.stop()
    let sent = await a.appendAll(0..<400, key: "k", bodyByteCount: 10_000) {
      #expect(await a.bus.statistics().callsUnderWay == 400)
      b.goOn()
    }
    let entries = try await a.call(Journal(), to: "b").reply.entries
    #expect(entries == sent.map { "k \($0)" })
  }

  @Test(arguments: [Transport.ipc, .tcp])
  func `a link that takes nothing is given up when too much waits for it`(transport: Transport) async throws {
    let events = Guarded<[BusEvent]>([])
    var configuration = BusConfiguration()
    configuration.socketQueueCount = 4
    configuration.liveness = .seconds(600)
    configuration.heldByteCount = 1 << 20
    configuration.observe = { event in events.change { $0.append(event) } }
    let a = try Fabric(transport).station("a", .gateway, configuration: configuration)
    defer { close(a) }
    let b = try a.fabric.neighbour("b", livenessSeconds: 600)
    defer { b.end() }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    b.stop()
    let codes = await withTaskGroup(of: BusError.Code?.self) { group in
      for _ in 0..<300 {
        group.addTask { await a.failure(Echo(text: ""), body: Array(repeating: 7, count: 100_000), to: "b")?.code }
      }
      return await group.reduce(into: Set<BusError.Code?>()) { $0.insert($1) }
    }
    #expect(codes == [.unreachable])
    #expect(events.value.contains(.stalledLink(peerName: "b")))
    b.goOn()
    await a.meets("b")
    #expect(try await a.call(Echo(text: "back"), to: "b").reply.text == "back")
  }

  /// The heartbeats of libzmq 4.3.4 aborted the process here. The frames are more than the socket takes (`RCVHWM`).
  @Test func `a connection that is reset while its frames wait for a stalled thread does not end the process`()
    async throws
  {
    let fabric = Fabric(.tcp)
    // Two that count the process as lost: the first when it stalls, the second several of its heartbeats later.
    let watchers = try [1200, 4000].map { limit in
      var configuration = BusConfiguration()
      configuration.liveness = .milliseconds(limit)
      return try fabric.station("watcher-\(limit)", .gateway, configuration: configuration)
    }
    defer { close(watchers[0], watchers[1]) }
    let process = try fabric.neighbour("b")
    defer { process.end() }
    for watcher in watchers {
      watcher.bus.connect(to: process.endpoint)
      await watcher.meets("b")
    }
    #expect(await watchers[0].failure(Stall(), to: "b")?.code == .unreachable)
    let port = try #require(process.endpoint.split(separator: ":").last.flatMap { UInt16($0) })
    let stranger = try #require(Stranger(port: port))
    let count = BusConfiguration().socketQueueCount + 200
    stranger.send(Garbage.handshake + (0..<count).flatMap { _ in Garbage.frame(Garbage.header(.reply)) })
    await eventually { stranger.unacknowledgedByteCount == 0 }
    stranger.reset()
    await watchers[1].loses("b")
    process.tell("go on")
    await eventually { !process.isRunning || watchers.allSatisfy { $0.bus.peers.map(\.name) == ["b"] } }
    try #require(process.isRunning)
    for watcher in watchers {
      #expect(try await watcher.call(Echo(text: "back"), to: "b").reply.text == "back")
    }
  }

  @Test func `strangers who send garbage disturb no genuine call`() async throws {
    let (a, b) = try await Fabric(.tcp).pair()
    defer { close(a, b) }
    let port = try #require(b.endpoint.split(separator: ":").last.flatMap { UInt16($0) })
    var generator = Seeded(state: 42)
    for round in 0..<60 {
      let stranger = try #require(Stranger(port: port))
      stranger.send(Garbage.all[round % Garbage.all.count].bytes(&generator))
      if round.isMultiple(of: 2) { stranger.reset() } else { stranger.close() }
      #expect(try await a.call(Echo(text: "\(round)"), to: "b").reply.text == "\(round)")
    }
    let fresh = try a.fabric.station("c", .gateway)
    defer { close(fresh) }
    fresh.bus.connect(to: b.endpoint)
    await fresh.meets("b")
    #expect(try await fresh.call(Echo(text: "newcomer"), to: "b").reply.text == "newcomer")
    #expect(b.bus.peers.map(\.name) == ["a", "c"])
    #expect(await b.bus.statistics().malformedFrames > 0)
  }
}

/// Random numbers that are the same in every run.
struct Seeded: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ z >> 30) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ z >> 27) &* 0x94d0_49bb_1331_11eb
    return z ^ z >> 31
  }
}
