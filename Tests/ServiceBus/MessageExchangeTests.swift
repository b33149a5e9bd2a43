// The pure decisions of an exchange: links that end with unsent frames, answers from the wrong peer, deadlines.

import InMemoryServiceBus
import Testing

@testable import ServiceBus
@testable import ServiceBusPeer

@Suite struct MessageExchangeTests {
  private static func peer(_ name: String, incarnation: UInt64 = 1) -> Peer {
    Peer(name: name, role: .worker, incarnation: incarnation, endpoint: "memory://" + name, isReady: true)
  }

  private func exchange() -> MessageExchange {
    MessageExchange(
      peer: Self.peer("a"), served: ["test.echo/1": ServedMessage(senders: [.worker])],
      configuration: BusConfiguration(), now: 0)
  }

  private func announcement(_ name: String) -> Frame {
    Frame(kind: .announce, arguments: Announcement(peer: Self.peer(name), isDraining: nil).encoded())
  }

  private func request(_ correlation: UInt64, deadline: Int64 = 1000) -> CallRequest {
    CallRequest(
      correlation: correlation, destination: .peer("b"), name: "test.echo/1", key: "", arguments: [], body: [],
      deadline: deadline, reply: PendingReply())
  }

  private func sent(_ exchange: inout MessageExchange) -> [(UInt64, UInt64)] {
    exchange.takeActions().compactMap { action in
      if case .send(let frame, let link) = action, frame.kind == .request { return (frame.correlation, link.number) }
      return nil
    }
  }

  private func outcomes(_ exchange: inout MessageExchange) -> [Outcome] {
    exchange.takeActions().compactMap { action in
      if case .settle(_, let outcome) = action { return outcome }
      return nil
    }
  }

  @Test func `requests that never left take the peer's other link, in their order`() {
    var exchange = exchange()
    for link in [1, 2] as [UInt64] { exchange.received(announcement("b"), on: LinkID(number: link)) }
    _ = exchange.takeActions()
    for correlation in [5, 6, 7] as [UInt64] { exchange.call(request(correlation)) }
    #expect(sent(&exchange).map(\.1) == [1, 1, 1])
    let unsent = [6, 7].map { Frame(kind: .request, correlation: $0) }
    exchange.undeliverable(unsent, on: LinkID(number: 1))
    let actions = exchange.actions
    #expect(sent(&exchange).map(\.0) == [6, 7])
    #expect(
      actions.contains { if case .settle(_, .failure(let error)) = $0 { error.code == .unreachable } else { false } },
      "the one that left fails")
    #expect(exchange.peers["b"]?.windows[.usual].underWay == 2)
    #expect(exchange.currentStatistics.callsInBacklog == 0)
  }

  @Test func `requests that never left fail when the peer has no other link`() {
    var exchange = exchange()
    exchange.received(announcement("b"), on: LinkID(number: 1))
    exchange.call(request(5))
    _ = exchange.takeActions()
    exchange.undeliverable([Frame(kind: .request, correlation: 5)], on: LinkID(number: 1))
    #expect(outcomes(&exchange) == [.failure(BusError(.unreachable, "b is not connected"))])
    #expect(
      exchange.currentStatistics
        == {
          var s = exchange.statistics; s.callsInBacklog = 0; return s
        }())
    #expect(exchange.peers.isEmpty)
  }

  @Test
  func `a link is the one's whose key it showed first: another's frames on it are refused, and it ends with its key`()
    throws
  {
    var exchange = exchange()
    let keys = try (0..<2).map { _ in try BusKeyPair.generate().publicKey }
    let (b, c) = (
      KnownPeer(role: .worker, name: "b", publicKey: keys[0]), KnownPeer(role: .worker, name: "c", publicKey: keys[1])
    )
    let link = LinkID(number: 1)
    exchange.received(announcement("b"), on: link, from: b)
    exchange.call(request(5))
    for frame in [announcement("b"), announcement("c"), Frame(kind: .reply, correlation: 5), Frame(kind: .goodbye)] {
      exchange.received(frame, on: link, from: c)
    }
    #expect(exchange.statistics.refusedFrames == 4)
    #expect(outcomes(&exchange).isEmpty && exchange.peers.keys.sorted() == ["b"])
    exchange.received(announcement("b"), on: LinkID(number: 2), from: c)
    #expect(exchange.statistics.refusedFrames == 5 && exchange.peers["b"]?.links == [link])
    exchange.admit(try KnownPeers(parsing: "\(b)\n\(c)"))
    #expect(exchange.peers.keys.sorted() == ["b"])
    // The same name with another key is another process.
    exchange.admit(try KnownPeers(parsing: "worker b \(keys[1])"))
    #expect(exchange.peers.isEmpty)
    #expect(outcomes(&exchange) == [.failure(BusError(.unreachable, "b was lost before it answered"))])
  }

  @Test func `an answer from another link or to another call is none`() {
    var exchange = exchange()
    exchange.received(announcement("b"), on: LinkID(number: 1))
    exchange.received(announcement("c"), on: LinkID(number: 2))
    exchange.call(request(5))
    _ = exchange.takeActions()
    exchange.received(Frame(kind: .reply, correlation: 5), on: LinkID(number: 2))
    exchange.received(Frame(kind: .reply, correlation: 6), on: LinkID(number: 1))
    #expect(outcomes(&exchange).isEmpty)
    exchange.received(Frame(kind: .reply, correlation: 5, arguments: [1]), on: LinkID(number: 1))
    exchange.received(Frame(kind: .reply, correlation: 5, arguments: [2]), on: LinkID(number: 1))
    #expect(outcomes(&exchange) == [.success(Payload(arguments: [1]))])
  }

  @Test func `a process that slept does not take its own silence for its peers'`() {
    var exchange = exchange()
    exchange.received(announcement("b"), on: LinkID(number: 1))
    exchange.tick(now: 60_000)
    #expect(exchange.peers.keys.sorted() == ["b"])
    for now in stride(from: 60_500, through: 62_000, by: 500) as StrideThrough<Int64> { exchange.tick(now: now) }
    #expect(exchange.peers.keys.sorted() == ["b"])
    exchange.tick(now: 62_500)
    #expect(exchange.peers.isEmpty)
  }

  @Test func `a link to a silent peer is renewed by the process that keeps it`() {
    func renewals(isKept: Bool) -> [LinkID] {
      var exchange = exchange()
      if isKept { exchange.linkUp(LinkID(number: 1)) }
      exchange.received(announcement("b"), on: LinkID(number: 1))
      var renewed: [LinkID] = []
      for now in stride(from: 500, through: 6000, by: 500) as StrideThrough<Int64> {
        exchange.tick(now: now)
        if now <= 2000 { #expect(exchange.peers.keys.sorted() == ["b"]) }
        for case .renew(let link) in exchange.takeActions() { renewed.append(link) }
      }
      #expect(exchange.peers.isEmpty)
      return renewed
    }
    #expect(renewals(isKept: true) == [LinkID(number: 1)])
    #expect(renewals(isKept: false).isEmpty)
  }

  @Test func `a peer that was silent is told that its requests have ended, before it is forgotten`() {
    var exchange = exchange()
    exchange.received(announcement("b"), on: LinkID(number: 1))
    exchange.received(Frame(kind: .request, correlation: 9, budget: 60_000, name: "test.echo/1"), on: LinkID(number: 1))
    _ = exchange.takeActions()
    for now in stride(from: 500, through: 2500, by: 500) as StrideThrough<Int64> { exchange.tick(now: now) }
    let failures = exchange.takeActions().compactMap { action -> String? in
      guard case .send(let frame, let link) = action, frame.kind == .failure else { return nil }
      return "\(link.number) \(frame.correlation) \(frame.name)"
    }
    #expect(failures == ["1 9 unreachable"])
    #expect(exchange.peers.isEmpty && exchange.currentStatistics.handlersRunning == 1, "its handler is cancelled")
  }

  @Test func `a request twice on one link is executed once`() {
    var exchange = exchange()
    exchange.received(announcement("b"), on: LinkID(number: 1))
    let frame = Frame(kind: .request, correlation: 9, budget: 1000, name: "test.echo/1")
    exchange.received(frame, on: LinkID(number: 1))
    exchange.received(frame, on: LinkID(number: 1))
    #expect(exchange.takeActions().count { if case .start = $0 { true } else { false } } == 1)
    #expect(exchange.currentStatistics.malformedFrames == 1)
  }

  @Test func `a chain of thousands that expired in its mailbox is skipped without running`() {
    var exchange = exchange()
    exchange.received(announcement("b"), on: LinkID(number: 1))
    for number in 0..<8000 as Range<UInt64> {
      exchange.received(
        Frame(kind: .request, correlation: number, budget: number == 0 ? 60_000 : 10, name: "test.echo/1", key: "k"),
        on: LinkID(number: 1))
    }
    exchange.now = 5000
    exchange.finished(IncomingID(link: LinkID(number: 1), correlation: 0), .success(Payload()))
    #expect(exchange.takeActions().count { if case .start = $0 { true } else { false } } == 1)
    #expect(exchange.incoming.isEmpty)
    #expect(exchange.incomingLanes[.usual].mailboxes.isEmpty)
    #expect(exchange.incomingLanes[.usual].heldByteCount == 0)
  }

  @Test func `a message from a process of another role than its senders' is refused, counted and not executed`() throws
  {
    var exchange = MessageExchange(
      peer: Self.peer("a"), served: [PublishClusterMap.name: ServedMessage(senders: PublishClusterMap.senders)],
      configuration: BusConfiguration(), now: 0)
    for (number, role) in [Role.worker, .gateway, .notifier, .share].enumerated() {
      let link = LinkID(number: UInt64(number + 1))
      exchange.linkUp(link)
      let sender = Peer(
        name: role.rawValue, role: role, incarnation: 1, endpoint: "memory://\(role.rawValue)", isReady: true)
      exchange.received(
        Frame(kind: .announce, arguments: Announcement(peer: sender, isDraining: nil).encoded()), on: link)
      _ = exchange.takeActions()
      exchange.received(Frame(kind: .request, correlation: 1, budget: 1000, name: PublishClusterMap.name), on: link)
      let started = exchange.takeActions().count { if case .start = $0 { true } else { false } }
      #expect(started == (role == .share ? 1 : 0), "\(role)")
    }
    #expect(exchange.statistics.refusedFrames == 3)
    #expect(exchange.statistics.served == 1)
  }

  @Test func `when everything has ended nothing is left behind`() async throws {
    let network = InMemoryNetwork(time: .stepped)
    let state = HandlerState(name: "b")
    let a = InMemoryBus(name: "a", role: .gateway, network: network, handlers: BusHandlers())
    let b = InMemoryBus(name: "b", role: .worker, network: network, handlers: state.handlers(), isReady: true)
    a.connect(to: b.endpoint)
    let held = Task { try await a.call(Hold(id: "x", key: "k"), to: .peer("b"), within: .seconds(3)) }
    await eventually { !state.entries.isEmpty }
    network.advance(by: .milliseconds(2990))
    #expect(await a.statistics().callsUnderWay == 1)
    network.advance(by: .milliseconds(30))
    await #expect(throws: BusError(.timedOut, "b did not answer test.hold/1 in time")) { try await held.value }
    await eventually { state.entries == ["start x", "cancelled x"] }
    await eventually { await b.statistics().handlersRunning == 0 }
    for bus in [a, b] {
      let statistics = await bus.statistics()
      #expect(
        [statistics.callsUnderWay, statistics.callsInBacklog, statistics.handlersRunning, statistics.requestsWaiting]
          == [0, 0, 0, 0])
    }
  }

  @Test func `a silent cut is noticed by silence, and mended again`() async {
    let network = InMemoryNetwork(time: .stepped)
    let a = InMemoryBus(name: "a", role: .gateway, network: network, handlers: BusHandlers())
    let b = InMemoryBus(name: "b", role: .worker, network: network, handlers: HandlerState(name: "b").handlers())
    a.connect(to: b.endpoint)
    #expect(a.peers.map(\.name) == ["b"])
    network.cut("a", "b", isSilent: true)
    network.advance(by: .milliseconds(1500))
    #expect(a.peers.map(\.name) == ["b"])
    network.advance(by: .milliseconds(1500))
    #expect(a.peers.isEmpty)
    #expect(b.peers.isEmpty)
    network.mend("a", "b")
    #expect(a.peers.map(\.name) == ["b"])
    network.cut("a", "b")
    #expect(a.peers.isEmpty)
    network.mend("b", "a")
    #expect(b.peers.map(\.name) == ["a"])
  }
}
