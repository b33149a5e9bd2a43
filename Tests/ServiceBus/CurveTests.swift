// A bus with keys: listed processes are admitted under their listed names, all others are refused.

import CZeroMQ
import Testing

@testable import ServiceBus
@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct CurveTests {
  private let fabric = Fabric(.tcp)

  /// `a`, a gateway, and `b`, a worker that it is connected to.
  private func pair(_ ring: Keyring, b events: Events = Events()) async throws -> (a: Station, b: Station) {
    let a = try fabric.station("a", .gateway, keys: ring.keys(of: "a"))
    let b = try fabric.station("b", .worker, keys: ring.keys(of: "b"), events: events)
    a.bus.connect(to: b.endpoint, of: .peer("b"))
    await a.meets("b")
    await b.meets("a")
    return (a, b)
  }

  @Test(arguments: [Transport.tcp, .ipc]) func `listed processes meet, call each other both ways and leave`(
    transport: Transport
  ) async throws {
    let ring = try Keyring()
    let fabric = Fabric(transport)
    let a = try fabric.station("a", .gateway, keys: ring.keys(of: "a"))
    let b = try fabric.station("b", .worker, keys: ring.keys(of: "b"))
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint, of: .role(.worker))
    await a.meets("b")
    await b.meets("a")
    let body = (0..<300_000).map { UInt8(truncatingIfNeeded: $0) }
    #expect(try await a.call(Echo(text: "there"), body: body, to: "b").body == body)
    #expect(try await b.call(Echo(text: "back"), body: body, to: "a").reply.servedBy == "a")
    await b.bus.drain(within: .seconds(5))
    await a.loses("b")
    for statistics in [await a.bus.statistics(), await b.bus.statistics()] {
      #expect(statistics.refusedConnections == 0 && statistics.refusedFrames == 0 && statistics.malformedFrames == 0)
    }
  }

  @Test func `an unlisted process gets in nowhere, and both sides say so`() async throws {
    let ring = try Keyring()
    let events = (b: Events(), stranger: Events())
    let (a, b) = try await pair(ring, b: events.b)
    let own = try BusKeyPair.generate()
    let stranger = try fabric.station(
      "c", .worker, keys: BusKeys(own: own, known: ring.known(without: ["c"], and: "worker c \(own.publicKey)")),
      events: events.stranger)
    defer { close(a, b, stranger) }
    stranger.bus.connect(to: b.endpoint, of: .peer("b"))
    await events.stranger.waitForFailedHandshake("it does not know this process's key")
    await events.b.waitFor {
      $0
        == .refusedConnection(
          reason:
            "--bus-peers has no line with the key \(own.publicKey): add one if the process is of this installation")
    }
    await eventually { await b.bus.statistics().refusedConnections > 1 }
    #expect(b.bus.peers.map(\.name) == ["a"] && stranger.bus.peers.isEmpty)
    #expect(await stranger.failure(Echo(text: ""), to: "b")?.code == .unreachable)
    #expect(try await a.call(Echo(text: "still"), to: "b").reply.text == "still")
  }

  @Test func `a process without a key gets in nowhere, and nobody with a key connects to it`() async throws {
    let ring = try Keyring()
    let (a, b) = try await pair(ring)
    let (plainEvents, keyedEvents) = (Events(), Events())
    let plain = try fabric.station("p", .worker, keys: nil, events: plainEvents)
    let known = try ring.known(without: ["b"], and: ring.line("p", .worker, key: ring.pair("b")))
    let keyed = try fabric.station("c", .worker, keys: ring.keys(of: "c", known), events: keyedEvents)
    defer { close(a, b, plain, keyed) }
    plain.bus.connect(to: b.endpoint)
    keyed.bus.connect(to: plain.endpoint, of: .peer("p"))
    await plainEvents.waitForFailedHandshake("it asks for a key: start this process with --bus-key and --bus-peers")
    await keyedEvents.waitForFailedHandshake("it has no key")
    await eventually { await b.bus.statistics().refusedConnections > 0 }
    #expect(plain.bus.peers.isEmpty && keyed.bus.peers.isEmpty && b.bus.peers.map(\.name) == ["a"])
    #expect(try await a.call(Echo(text: "still"), to: "b").reply.text == "still")
  }

  @Test func `a server whose key is another than the listed one is never talked to`() async throws {
    let ring = try Keyring()
    let events = Events()
    let a = try fabric.station(
      "a", .gateway,
      keys: ring.keys(of: "a", ring.known(without: ["b"], and: ring.line("b", key: BusKeyPair.generate()))),
      events: events)
    let b = try fabric.station("b", .worker, keys: ring.keys(of: "b"))
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint, of: .peer("b"))
    await events.waitForFailedHandshake("its key may differ from the one in --bus-peers")
    #expect(a.bus.peers.isEmpty && b.bus.peers.isEmpty)
  }

  @Test(arguments: [("a", Role.gateway), ("c", .share), ("d", .worker), ("b", .worker)])
  func `the key says who a process is, whatever it announces`(name: String, role: Role) async throws {
    let ring = try Keyring()
    let events = Events()
    let (a, b) = try await pair(ring, b: events)
    let impostor = try fabric.station(name, role, keys: ring.keys(of: "c"), incarnation: .max)
    defer { close(a, b, impostor) }
    impostor.bus.connect(to: b.endpoint, of: .peer("b"))
    await events.waitFor { $0 == .refusedFrame(peerName: "c", reason: "it calls itself the \(role.rawValue) \(name)") }
    #expect(await b.bus.statistics().refusedFrames > 0)
    #expect(b.bus.peers.map(\.name) == ["a"])
    #expect(try await b.call(Echo(text: "genuine"), to: "a").reply.servedBy == "a")
    // A process that calls itself b would call itself.
    if name != "b" { #expect(await impostor.failure(Echo(text: ""), to: "b", within: .milliseconds(700)) != nil) }
    #expect(
      !events.all.contains { if case .superseded = $0 { true } else { false } },
      "nor does it take the place of the process itself")
  }

  @Test func `one is connected to whom one meant, or to nobody`() async throws {
    let ring = try Keyring()
    let events = Events()
    let a = try fabric.station("a", .gateway, keys: ring.keys(of: "a"), events: events)
    // It has b's key but calls itself c.
    let other = try fabric.station("c", .worker, keys: ring.keys(of: "b"))
    defer { close(a, other) }
    a.bus.connect(to: other.endpoint, of: .peer("b"))
    await events.waitFor { $0 == .refusedFrame(peerName: "b", reason: "it calls itself the worker c") }
    #expect(a.bus.peers.isEmpty)
    a.bus.connect(to: "tcp://127.0.0.1:9")
    await events.waitFor {
      $0
        == .refusedEndpoint(
          "tcp://127.0.0.1:9",
          reason: "--bus-peers has no line for the process there: this process connects to it when it has one")
    }
  }

  @Test func `a process is added while the others run, whoever learns of it first`() async throws {
    let ring = try Keyring()
    let (aEvents, cEvents) = (Events(), Events())
    let known = try ring.known(without: ["c"])
    let a = try fabric.station("a", .gateway, keys: ring.keys(of: "a", known), events: aEvents)
    let b = try fabric.station("b", .worker, keys: ring.keys(of: "b", known))
    let c = try fabric.station("c", .worker, keys: ring.keys(of: "c"), events: cEvents)
    defer { close(a, b, c) }
    a.bus.connect(to: b.endpoint, of: .peer("b"))
    a.bus.connect(to: c.endpoint, of: .peer("c"))
    c.bus.connect(to: b.endpoint, of: .peer("b"))
    await a.meets("b")
    await cEvents.waitForFailedHandshake("it does not know this process's key")
    await aEvents.waitFor {
      if case .refusedEndpoint(c.endpoint, let reason) = $0 {
        reason.hasPrefix("--bus-peers has no line for c")
      } else {
        false
      }
    }
    for station in [a, b] { station.bus.admit(try ring.known()) }
    await a.meets("b", "c")
    await c.meets("a", "b")
    #expect(try await c.call(Echo(text: "new"), to: "b").reply.servedBy == "b")
  }

  @Test
  func
    `a process whose line is taken out is lost at once, its next frames are refused, and it comes back with its line`()
    async throws
  {
    let ring = try Keyring()
    let (a, b) = try await pair(ring)
    defer { close(a, b) }
    let pending = Task { await a.failure(Hold(id: "h"), to: "b") }
    await eventually { b.state.entries == ["start h"] }
    b.bus.admit(try ring.known(without: ["a"]))
    #expect(await pending.value?.code == .unreachable)
    await b.loses("a")
    await a.loses("b")
    // It keeps announcing itself.
    await eventually { await b.bus.statistics().refusedFrames > 0 }
    #expect(b.bus.peers.isEmpty && a.bus.peers.isEmpty)
    await eventually { b.state.entries == ["start h", "cancelled h"] }
    b.bus.admit(try ring.known())
    await a.meets("b")
    #expect(try await a.call(Echo(text: "again"), to: "b").reply.text == "again")
    // The same on the side that connected.
    a.bus.admit(try ring.known(without: ["b"]))
    await a.loses("b")
    a.bus.admit(try ring.known())
    await a.meets("b")
  }

  @Test func `a key takes another one's place while both are listed`() async throws {
    let ring = try Keyring()
    let (a, b) = try await pair(ring)
    defer { close(a) }
    let next = try BusKeyPair.generate()
    let both = try ring.known(and: ring.line("b", key: next))
    a.bus.admit(both)
    #expect(try await a.call(Echo(text: "old"), to: "b").reply.text == "old")
    let endpoint = b.endpoint
    b.bus.close()
    await a.loses("b")
    let renewed = try fabric.station("b", .worker, keys: BusKeys(own: next, known: both), endpoint: endpoint)
    defer { close(renewed) }
    await a.meets("b")
    a.bus.admit(try ring.known(without: ["b"], and: ring.line("b", key: next)))
    #expect(try await a.call(Echo(text: "new"), to: "b").reply.text == "new")
  }

  @Test func `a handler for keys that cannot be bound is an error, since anybody would get in without one`() throws {
    let context = try #require(zmq_ctx_new())
    let first = try ZAPHandler(in: context)
    let error = #expect(throws: BusError.self) { try ZAPHandler(in: context) }
    #expect(error?.reason.hasPrefix("keys cannot be checked: ") == true)
    #expect(throws: BusError.self) {
      var configuration = BusConfiguration()
      configuration.keys = try Keyring().keys(of: "a")
      _ = try Door("tcp://127.0.0.1:*", in: context, configuration)
    }
    first.close()
    zmq_ctx_term(context)
  }
}

@Suite struct BusKeyTests {
  @Test func `a key is read as it was written, and shows its public half only`() throws {
    let pair = try BusKeyPair.generate()
    #expect(try BusKeyPair(parsing: pair.fileText) == pair)
    #expect(pair.publicKey.count == 40 && pair.publicKey != pair.secretKey)
    var dumped = ""
    dump(BusKeys(own: pair, known: try KnownPeers(parsing: "")), to: &dumped)
    for text in ["\(pair)", String(reflecting: pair), "\([pair])", dumped, "\(BusConfiguration().keys as Any)"] {
      #expect(!text.contains(pair.secretKey))
    }
    for text in [
      "", "short", pair.secretKey + " " + pair.publicKey, String(repeating: "~", count: 40),
      String(repeating: "#", count: 40),
    ] {
      let error = #expect(throws: BusError.self) { try BusKeyPair(parsing: text) }
      #expect(text.isEmpty || error?.reason.contains(text) == false)
    }
  }

  @Test func `known peers are lines of role, name and key`() throws {
    let keys = try (0..<3).map { _ in try BusKeyPair.generate().publicKey }
    let known = try KnownPeers(
      parsing: "# ours\n\nworker w-1 \(keys[0])\r\n  share  s \(keys[1])\nworker w-1 \(keys[2])")
    #expect(known.all.map(\.name) == ["w-1", "s", "w-1"])
    #expect(known[keys[1]] == KnownPeer(role: .share, name: "s", publicKey: keys[1]))
    #expect(known.peers(at: .peer("w-1")).map(\.publicKey) == [keys[0], keys[2]])
    #expect(known.peers(at: .role(.share)).map(\.name) == ["s"])
    #expect(try KnownPeers(parsing: "").all.isEmpty)
    for (text, reason) in [
      ("worker w", "line 1 is not"), ("\nboss b \(keys[0])", "line 2 is not"),
      ("worker w \(keys[0])x", "line 1 is not"), ("worker w \(keys[0]) x", "line 1 is not"),
      ("worker v \(keys[0])\nworker w \(keys[0])", "line 2 repeats the key of v"),
      ("worker v \(keys[0])\nshare v \(keys[1])", "line 2 calls a share by the name of a worker"),
    ] {
      let error = #expect(throws: BusError.self) { try KnownPeers(parsing: text) }
      #expect(error?.reason.hasPrefix(reason) == true, "\(text)")
    }
  }
}
