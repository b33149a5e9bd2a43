// Handlers that make calls: a nested call never waits behind the calls that wait for it.

import InMemoryServiceBus
import Testing

@testable import ServiceBus
@testable import ServiceBusPeer

/// Echoes on the nested lane.
private struct NestedEcho: Message {
  static let name = "test.nested-echo/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  static let lane = Lane.nested
  typealias Reply = Acknowledgement
  var key: String?
  var orderingKey: String? { key }
}

/// Its handler calls `NestedEcho` at a peer before it answers.
private struct Relay: Message {
  static let name = "test.relay/1"
  static let senders = Set(Role.allCases)
  static let isRepeatable = true
  typealias Reply = Acknowledgement
  let peer: String
  var key: String?
  var orderingKey: String? { key }
}

@Suite(.timeLimit(.minutes(1))) struct LaneTests {
  private final class Node: Sendable {
    let bus: InMemoryBus

    init(_ name: String, _ network: InMemoryNetwork, _ configuration: BusConfiguration) {
      let slot = Guarded<InMemoryBus?>(nil)
      var handlers = BusHandlers()
      handlers.on(NestedEcho.self) { _, _, _ in
        await Task.yield()
        return Answer(Acknowledgement())
      }
      handlers.on(Relay.self) { message, _, _ in
        guard let bus = slot.value else { throw BusError(.unreachable, "no bus") }
        return try await bus.call(NestedEcho(key: message.key), body: [], to: .peer(message.peer), within: .seconds(50))
      }
      bus = InMemoryBus(
        name: name, role: .worker, network: network, handlers: handlers, isReady: true, configuration: configuration)
      slot.change { [bus] in $0 = bus }
    }

    func relay(through peer: String, to last: String, key: String?) async -> BusError.Code? {
      do throws(BusError) {
        _ = try await bus.call(Relay(peer: last, key: key), to: .peer(peer), within: .seconds(50))
        return nil
      } catch {
        return error.code
      }
    }
  }

  @Test(arguments: [nil, "one key"])
  func `processes that flood each other with calls that call back make progress`(key: String?) async {
    let network = InMemoryNetwork()
    var configuration = BusConfiguration()
    configuration.runningCount = 4
    configuration.windowCount = 4
    let (a, b) = (Node("a", network, configuration), Node("b", network, configuration))
    a.bus.connect(to: b.bus.endpoint)
    await a.bus.waitForPeers { !$0.isEmpty }
    await b.bus.waitForPeers { !$0.isEmpty }
    let codes = await withTaskGroup(of: BusError.Code?.self) { group in
      for _ in 0..<200 {
        group.addTask { await a.relay(through: "b", to: "a", key: key) }
        group.addTask { await b.relay(through: "a", to: "b", key: key) }
        // A process calls itself by way of itself.
        group.addTask { await a.relay(through: "a", to: "a", key: key) }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(codes.count == 600 && codes.allSatisfy { $0 == nil })
    let statistics = await a.bus.statistics()
    #expect(statistics.handlersRunning == 0 && statistics.nestedHandlersRunning == 0 && statistics.requestsWaiting == 0)
    #expect(
      statistics.served == 800, "200 relays of b, 200 of its own, and the calls that each of 400 relays made here")
    a.bus.close()
    b.bus.close()
  }

  @Test func `a lane that is full refuses its own calls only`() {
    var configuration = BusConfiguration()
    configuration.runningCount = 1
    configuration.waitingCount = 1
    let peer = { (name: String) in
      Peer(name: name, role: .worker, incarnation: 1, endpoint: "memory://" + name, isReady: true)
    }
    var exchange = MessageExchange(
      peer: peer("a"),
      served: [
        Relay.name: ServedMessage(senders: [.worker]),
        NestedEcho.name: ServedMessage(lane: .nested, senders: [.worker]),
      ],
      configuration: configuration, now: 0)
    let link = LinkID(number: 1)
    exchange.received(
      Frame(kind: .announce, arguments: Announcement(peer: peer("b"), isDraining: nil).encoded()), on: link)
    for number in 1...3 as ClosedRange<UInt64> {
      exchange.received(Frame(kind: .request, correlation: number, budget: 1000, name: Relay.name), on: link)
    }
    #expect(exchange.currentStatistics.refusedRequests == 1)
    for number in 4...6 as ClosedRange<UInt64> {
      exchange.received(Frame(kind: .request, correlation: number, budget: 1000, name: NestedEcho.name), on: link)
    }
    let statistics = exchange.currentStatistics
    #expect(statistics.refusedRequests == 2)
    #expect((statistics.handlersRunning, statistics.requestsWaiting) == (2, 2))
    #expect((statistics.nestedHandlersRunning, statistics.nestedRequestsWaiting) == (1, 1))
  }
}
