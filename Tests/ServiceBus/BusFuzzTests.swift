// Invalid frames sent to every endpoint of a running bus: they are dropped and counted, and genuine calls go on.

import CZeroMQ
import Testing

@testable import ServiceBus
@testable import ServiceBusPeer

/// Draws frames of all kinds, with valid, nearly valid and invalid contents, and repeats earlier frames.
private struct FrameSource {
  var generator: Seeded
  /// The names that announcements may use.
  let names: [String]
  private var sent: [Frame] = []

  init(seed: UInt64, names: [String]) {
    generator = Seeded(state: seed)
    self.names = names
  }

  private mutating func bytes(_ limit: Int) -> [UInt8] {
    let count = Int.random(in: 0...limit, using: &generator)
    return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }

  private mutating func announcement() -> [UInt8] {
    let peer = Peer(
      name: names.randomElement(using: &generator) ?? "",
      role: Role.allCases.randomElement(using: &generator) ?? .worker,
      incarnation: Bool.random(using: &generator) ? .max : UInt64.random(in: 0...9, using: &generator),
      endpoint: "tcp://127.0.0.1:1", isReady: true)
    return Announcement(peer: peer, isDraining: Bool.random(using: &generator) ? true : nil).encoded()
  }

  private mutating func arguments() throws -> [UInt8] {
    var arguments: [UInt8]
    switch Int.random(in: 0..<5, using: &generator) {
    case 0: arguments = announcement()
    case 1: arguments = try Echo(text: "spoiled").encoded()
    case 2: arguments = try Hold(id: "spoiled", key: "k").encoded()
    case 3: arguments = try Append(key: "k", number: 7).encoded()
    default: arguments = bytes(200)
    }
    guard !arguments.isEmpty, Int.random(in: 0..<3, using: &generator) == 0 else { return arguments }
    if Bool.random(using: &generator) { arguments.removeLast(Int.random(in: 1...arguments.count, using: &generator)) }
    if let index = arguments.indices.randomElement(using: &generator) {
      arguments[index] = UInt8.random(in: 0...255, using: &generator)
    }
    return arguments
  }

  mutating func next() throws -> Frame {
    if Int.random(in: 0..<5, using: &generator) == 0, let again = sent.randomElement(using: &generator) { return again }
    let kinds: [Frame.Kind] = [
      .announce, .announce, .whoAreYou, .superseded, .request, .request, .request, .reply, .failure, .cancel,
      .drainAcknowledged, .goodbye,
    ]
    let messages = [
      Echo.name, Hold.name, Append.name, Journal.name, Fail.name, "test.nobody/1", "",
      String(repeating: "x", count: 4096), "\u{0}\u{fffd}",
    ]
    var frame = Frame(kind: kinds.randomElement(using: &generator) ?? .announce)
    frame.correlation =
      Bool.random(using: &generator)
      ? UInt64.random(in: 0...20, using: &generator) : .random(in: 0 ... .max, using: &generator)
    frame.budget = UInt32.random(in: 0 ... .max, using: &generator)
    frame.name = messages.randomElement(using: &generator) ?? ""
    frame.key = ["", "k", "spoiled"].randomElement(using: &generator) ?? ""
    frame.arguments = frame.kind == .announce || frame.kind == .superseded ? announcement() : try arguments()
    frame.body = bytes(300)
    if sent.count < 200 { sent.append(frame) }
    return frame
  }

  /// A frame's parts in ZMTP, now and then with a changed byte, cut short, with another number of parts, or without an
  /// end.
  mutating func wire() throws -> [UInt8] {
    let frame = try next()
    var header = [UInt8](repeating: 0, count: frame.headerByteCount)
    header.withUnsafeMutableBytes { frame.writeHeader(into: $0) }
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: header[Int.random(in: 0..<header.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
    case 1: header.removeLast(Int.random(in: 1...header.count, using: &generator))
    default: break
    }
    var wire =
      Garbage.frame(header, more: true) + Garbage.frame(frame.arguments, more: true) + Garbage.frame(frame.body)
    if Int.random(in: 0..<12, using: &generator) == 0 {
      wire[Int.random(in: 0..<wire.count, using: &generator)] ^= 1 << UInt8.random(in: 0...7, using: &generator)
    }
    return wire
  }
}

@Suite(.timeLimit(.minutes(2))) struct BusFuzzTests {
  /// Checks that the genuine process still answers.
  private func ask(_ a: Station, _ number: Int) async throws {
    #expect(try await a.call(Echo(text: "\(number)"), to: "b").reply.text == "\(number)")
  }

  @Test(arguments: [1, 2, 3, 4]) func `spoiled, cut, repeated and foreign frames of strangers are dropped and counted`(
    seed: UInt64
  ) async throws {
    let (a, b) = try await Fabric(.tcp).pair()
    defer { close(a, b) }
    let port = try #require(b.endpoint.split(separator: ":").last.flatMap { UInt16($0) })
    var source = FrameSource(seed: seed, names: ["x", "y", "z"])
    for round in 0..<40 {
      let stranger = try #require(Stranger(port: port))
      stranger.send(Garbage.handshake)
      for _ in 0..<25 { stranger.send(try source.wire()) }
      try await ask(a, round)
      if round.isMultiple(of: 2) { stranger.reset() } else { stranger.close() }
    }
    try await ask(a, 40)
    #expect(await b.bus.statistics().malformedFrames > 0)
    await eventually { b.bus.peers.map(\.name) == ["a"] }
    await eventually { await b.bus.statistics().handlersRunning == 0 }
    #expect(await b.bus.statistics().requestsWaiting == 0)
  }

  @Test(arguments: [1, 2]) func `nothing that a stranger sends to a bus with keys is ever a frame`(seed: UInt64)
    async throws
  {
    let ring = try Keyring()
    let fabric = Fabric(.tcp)
    let a = try fabric.station("a", .gateway, keys: ring.keys(of: "a"))
    let b = try fabric.station("b", .worker, keys: ring.keys(of: "b"))
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint, of: .peer("b"))
    await a.meets("b")
    let port = try #require(b.endpoint.split(separator: ":").last.flatMap { UInt16($0) })
    var source = FrameSource(seed: seed, names: ["a", "b", "c"])
    for round in 0..<60 {
      let stranger = try #require(Stranger(port: port))
      if round.isMultiple(of: 2) {
        stranger.send(Garbage.handshake)
        for _ in 0..<10 { stranger.send(try source.wire()) }
      } else {
        // The greeting of a peer with a key, but without a handshake.
        stranger.send(Garbage.curveGreeting + (try source.wire()))
      }
      try await ask(a, round)
      if round.isMultiple(of: 3) { stranger.reset() } else { stranger.close() }
    }
    await eventually { await b.bus.statistics().refusedConnections > 0 }
    let statistics = await b.bus.statistics()
    #expect(statistics.malformedFrames == 0 && statistics.refusedFrames == 0 && statistics.served == 60)
    #expect(b.bus.peers.map(\.name) == ["a"])
  }

  @Test(arguments: [1, 2, 3]) func `a listed process that lies takes nobody's place and no answer of others`(
    seed: UInt64
  ) async throws {
    let ring = try Keyring()
    let fabric = Fabric(.tcp)
    let a = try fabric.station("a", .gateway, keys: ring.keys(of: "a"))
    let b = try fabric.station("b", .worker, keys: ring.keys(of: "b"))
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint, of: .peer("b"))
    await a.meets("b")
    await b.meets("a")
    let context = try #require(zmq_ctx_new())
    let liar = try ZeroMQSocket(
      .dealer, in: context, BusConfiguration(), keys: .connecting(ring.pair("c"), to: ring.pair("b").publicKey),
      monitorName: "liar")
    defer {
      liar.close()
      zmq_ctx_term(context)
    }
    try liar.connect(b.endpoint)
    await eventually { if case .established? = liar.nextEvent() { true } else { false } }
    var source = FrameSource(seed: seed, names: ["a", "b", "c"])
    for round in 0..<60 {
      for _ in 0..<25 { _ = liar.send(try source.next(), route: 0) }
      try await ask(a, round)
      #expect(try await b.call(Echo(text: "back"), to: "a").reply.servedBy == "a")
      while case .frame = liar.receive() {}
    }
    #expect(await b.bus.statistics().refusedFrames > 100)
    #expect(
      b.bus.peers.contains { $0.name == "a" && $0.role == .gateway }
        && b.bus.peers.allSatisfy { $0.name == "a" || $0.name == "c" && $0.role == .worker })
  }

  @Test(arguments: [1, 2, 3]) func `a process that one connects to may send what it likes`(seed: UInt64) async throws {
    let (a, b) = try await Fabric(.tcp).pair()
    defer { close(a, b) }
    let context = try #require(zmq_ctx_new())
    let hostile = try ZeroMQSocket(.router, in: context, BusConfiguration(), monitorName: "hostile")
    defer {
      hostile.close()
      zmq_ctx_term(context)
    }
    a.bus.connect(to: try hostile.bind("tcp://127.0.0.1:*"))
    var route: UInt32?
    await eventually {
      if case .frame(_, let sender, _) = hostile.receive() { route = sender }
      return route != nil
    }
    var source = FrameSource(seed: seed, names: ["x", "y"])
    for round in 0..<40 {
      for _ in 0..<25 { _ = hostile.send(try source.next(), route: try #require(route)) }
      while case .frame = hostile.receive() {}
      try await ask(a, round)
    }
    #expect(a.bus.peers.contains { $0.name == "b" })
  }
}
