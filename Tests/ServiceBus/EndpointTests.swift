// What ZeroMQ adds to the contract: addresses, and strangers at the door.

import Glibc
import Testing

@testable import ServiceBus
@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct EndpointTests {
  @Test(arguments: ["ipc:///run/aquifer/worker-1.sock", "ipc://@name", "ipc://*", "tcp://127.0.0.1:5550", "tcp://127.255.0.9:*"])
  func `addresses that do not leave the machine are allowed`(endpoint: String) {
    #expect(Endpoint.refusal(endpoint) == nil)
  }

  @Test(arguments: [
    "tcp://0.0.0.0:5550", "tcp://*:5550", "tcp://10.0.0.7:5550", "tcp://localhost:5550", "tcp://127.0.0.1.example.org:5550", "tcp://127.0.0:5550",
    "tcp://127.0.0.1", "tcp://[::]:5550", "tcp://eth0:5550", "tcp://127.0.0.256:1", "tcp://127.0.0.+1:1", "tcp://", "tcp://:", "udp://127.0.0.1:1",
    "inproc://x", "ipc://", "worker-1", "",
  ])
  func `other addresses are refused in one sentence, bound or connected to`(endpoint: String) async throws {
    #expect(throws: BusError.self) { try ZeroMQBus(name: "a", role: .share, endpoint: endpoint, handlers: BusHandlers()) }
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
      Endpoint.refusal("tcp://0.0.0.0:5550") == "tcp://0.0.0.0:5550 could carry unencrypted data beyond this machine: use ipc://, or tcp:// on 127.0.0.1")
    #expect(Endpoint.refusal("ipc://" + String(repeating: "x", count: 108))?.hasSuffix("use a shorter path") == true)
  }

  @Test func `an endpoint that cannot be bound says why`() throws {
    let error = #expect(throws: BusError.self) {
      try ZeroMQBus(name: "a", role: .share, endpoint: "ipc:///nonexistent-folder/socket", handlers: BusHandlers())
    }
    #expect(error?.code == .refused)
    #expect(error?.reason.hasPrefix("ipc:///nonexistent-folder/socket cannot be bound: ") == true)
    let first = try ZeroMQBus(name: "a", role: .share, endpoint: "tcp://127.0.0.1:*", handlers: BusHandlers())
    defer { first.close() }
    #expect(throws: BusError.self) { try ZeroMQBus(name: "b", role: .share, endpoint: first.endpoint, handlers: BusHandlers()) }
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
  func `what a stopped peer does not take waits in its order and arrives when it goes on`(transport: Transport) async throws {
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
      for _ in 0..<300 { group.addTask { await a.failure(Echo(text: ""), body: Array(repeating: 7, count: 100_000), to: "b")?.code } }
      return await group.reduce(into: Set<BusError.Code?>()) { $0.insert($1) }
    }
    #expect(codes == [.unreachable])
    #expect(events.value.contains(.stalledLink(peerName: "b")))
    b.goOn()
    await a.meets("b")
    #expect(try await a.call(Echo(text: "back"), to: "b").reply.text == "back")
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

/// What a stranger may send to a ROUTER.
private struct Garbage: Sendable {
  let bytes: @Sendable (inout Seeded) -> [UInt8]

  /// A ZMTP 3.0 greeting and a DEALER's READY command: from here on the peer takes frames.
  private static let handshake: [UInt8] =
    [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0] + Array("NULL".utf8) + Array(repeating: 0, count: 16 + 1 + 31)
    + [4, 28, 5] + Array("READY".utf8) + [11] + Array("Socket-Type".utf8) + [0, 0, 0, 6] + Array("DEALER".utf8)

  private static func frame(_ bytes: [UInt8], more: Bool = false) -> [UInt8] {
    [more ? 1 : 0, UInt8(bytes.count)] + bytes
  }

  private static func header(_ kind: Frame.Kind) -> [UInt8] {
    let frame = Frame(kind: kind, correlation: 7, budget: 1000, name: "test.echo/1")
    var bytes = [UInt8](repeating: 0, count: frame.headerByteCount)
    bytes.withUnsafeMutableBytes { frame.writeHeader(into: $0) }
    return bytes
  }

  private static func random(_ count: Int, _ generator: inout Seeded) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }

  static let all: [Garbage] = [
    Garbage { random(Int.random(in: 1...200, using: &$0), &$0) },
    // An unversioned peer of old.
    Garbage { [1, 0, 2, 0] + random(50, &$0) },
    // Half a greeting.
    Garbage { _ in Array(handshake[..<20]) },
    // A frame that says it has 2^60 bytes.
    Garbage { _ in handshake + [2, 0x10, 0, 0, 0, 0, 0, 0, 0] },
    // Frames of random bytes.
    Garbage { generator in handshake + (0..<20).flatMap { _ in frame(random(Int.random(in: 0...100, using: &generator), &generator)) } },
    // A request, a reply and a cancellation of somebody who never announced himself.
    Garbage { _ in handshake + [.request, .reply, .cancel, .goodbye, .superseded].flatMap { frame(header($0)) } },
    // An announcement that does not decode.
    Garbage { handshake + frame(header(.announce), more: true) + frame(random(60, &$0)) },
    // Many parts.
    Garbage { _ in handshake + (0..<200).flatMap { _ in frame(header(.request), more: true) } + frame([]) },
    // A header cut short, and one of a later version.
    Garbage { _ in handshake + frame(Array(header(.request)[..<19])) + frame([0x41, 0x71, 9] + Array(header(.request)[3...])) },
  ]
}

/// A raw TCP connection.
private struct Stranger {
  private let descriptor: Int32

  init?(port: UInt16) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
    guard descriptor >= 0, result == 0 else { return nil }
  }

  func send(_ bytes: [UInt8]) { _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
  func close() { Glibc.close(descriptor) }

  /// Ends the connection with an RST.
  func reset() {
    var now = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
    close()
  }
}
