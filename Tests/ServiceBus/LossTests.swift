// Peers that restart, die, are suspended, leave in order, or use another peer's name.

import ServiceBus
import Testing

@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct LossTests {
  @Test(arguments: Transport.allCases)
  func `a peer that restarts on its endpoint is found again, and what was under way fails`(transport: Transport)
    async throws
  {
    let fabric = Fabric(transport)
    let a = try fabric.station("a", .gateway)
    var b = try fabric.station("b")
    a.bus.connect(to: b.endpoint)
    for _ in 0..<3 {
      await a.meets("b")
      let former = a.bus.peers.first?.incarnation
      let state = b.state
      let open = Task { await a.failure(Hold(id: "open"), to: "b") }
      await eventually { state.entries.contains("start open") }
      b.bus.close()
      #expect(await open.value?.code == .unreachable)
      b = try fabric.station("b", endpoint: b.endpoint)
      await a.bus.waitForPeers { $0.first.map { $0.incarnation != former } ?? false }
      #expect(try await a.call(Echo(text: "again"), to: "b").reply.text == "again")
    }
    close(a, b)
  }

  /// The liveness limit is longer than any deadline here, so only the lost connection can reveal the end.
  @Test(arguments: Transport.allCases, [true, false])
  func `a killed peer fails calls as unreachable without waiting for its silence`(
    transport: Transport, isConnectedTo: Bool
  ) async throws {
    let fabric = Fabric(transport)
    var configuration = BusConfiguration()
    configuration.liveness = .seconds(600)
    let a = try fabric.station("a", .gateway, configuration: configuration)
    defer { close(a) }
    let b = isConnectedTo ? try fabric.neighbour("b") : try fabric.neighbour("b", connectedTo: a.endpoint)
    defer { b.end() }
    if isConnectedTo { a.bus.connect(to: b.endpoint) }
    await a.meets("b")
    let open = Task { await a.failure(Hold(id: "open"), to: "b", within: .seconds(300)) }
    try await a.journal(of: "b", contains: "start open")
    b.kill()
    #expect(await open.value?.code == .unreachable)
    await a.loses("b")
    #expect(await a.failure(Echo(text: ""), to: "b")?.code == .unreachable)
  }

  @Test(arguments: Transport.allCases)
  func `a stopped peer times out, then counts as lost, then is back`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    var configuration = BusConfiguration()
    configuration.heartbeat = .milliseconds(100)
    configuration.liveness = .milliseconds(800)
    let a = try fabric.station("a", .gateway, configuration: configuration)
    defer { close(a) }
    let b = try fabric.neighbour("b")
    defer { b.end() }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    b.stop()
    let code = await a.failure(Echo(text: ""), to: "b", within: .milliseconds(50))?.code
    #expect(code == .timedOut || code == .unreachable)
    await a.loses("b")
    #expect(await a.failure(Echo(text: ""), to: "b", within: .seconds(100))?.code == .unreachable)
    b.goOn()
    await a.meets("b")
    #expect(try await a.call(Echo(text: "back"), to: "b").reply.text == "back")
  }

  @Test(arguments: Transport.allCases)
  func `while peers come and drain, callers that never retry lose nothing`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    let a = try fabric.station("a", .gateway)
    defer { close(a) }
    let first = try fabric.station("b-0")
    a.bus.connect(to: first.endpoint)
    await a.meets("b-0")
    let isOver = Guarded(false)
    let callers = (0..<8).map { _ in
      Task { () -> (count: Int, failures: [BusError]) in
        var result = (count: 0, failures: [BusError]())
        while !isOver.value {
          do throws(BusError) {
            _ = try await a.bus.call(Append(key: "k", number: result.count), to: .role(.worker), within: .seconds(100))
            result.count += 1
          } catch {
            result.failures.append(error)
          }
        }
        return result
      }
    }
    var workers = [first]
    for number in 1...10 {
      let next = try fabric.station("b-\(number)")
      a.bus.connect(to: next.endpoint)
      await a.meets("b-\(number)")
      await workers[number - 1].bus.drain(within: .seconds(100))
      workers[number - 1].bus.close()
      workers.append(next)
    }
    isOver.change { $0 = true }
    var total = 0
    for caller in callers {
      let result = await caller.value
      #expect(result.failures == [])
      total += result.count
    }
    #expect(workers.reduce(0) { $0 + $1.state.entries.count } == total)
    close(workers[10])
  }

  @Test(arguments: Transport.allCases)
  func `a drain finishes what runs, refuses what comes, and leaves`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let open = Task { await a.failure(Hold(id: "open", key: "k"), to: "b") }
    try await a.journal(of: "b", contains: "start open")
    let waiting = Task { await a.failure(Hold(id: "waiting", key: "k"), to: "b") }
    await eventually { await b.bus.statistics().requestsWaiting != 0 }
    let drain = Task { await b.bus.drain(within: .seconds(60)) }
    await a.bus.waitForPeers { $0.first?.isReady == false }
    #expect(await a.failure(Echo(text: ""), to: "b")?.code == .draining)
    #expect(try await b.call(Echo(text: "own"), to: "b").reply.text == "own")
    b.state.release("open")
    #expect(await open.value == nil)
    b.state.release("waiting")
    #expect(await waiting.value == nil)
    await drain.value
    await a.loses("b")
    #expect(await a.failure(Echo(text: ""), to: "b")?.code == .unreachable)
    #expect(await b.failure(Echo(text: ""), to: "a")?.code == .unreachable)
  }

  @Test(arguments: Transport.allCases)
  func `a drain ends at its limit, and what still runs is cancelled`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let open = Task { await a.failure(Hold(id: "open"), to: "b") }
    try await a.journal(of: "b", contains: "start open")
    await b.bus.drain(within: .milliseconds(50))
    #expect(await open.value?.code == .unreachable)
    await eventually { b.state.entries.contains("cancelled open") }
    await b.bus.drain(within: .seconds(60))
  }

  @Test(arguments: Transport.allCases)
  func `of two processes with one name the newer counts, whoever is met first`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    let superseded = Guarded<Set<UInt64>>([])
    var configuration = BusConfiguration()
    configuration.observe = { event in
      if case .superseded(let rival) = event { superseded.change { $0.insert(rival.incarnation) } }
    }
    let a = try fabric.station("a", .gateway)
    let older = try fabric.station(
      "b", endpoint: transport == .memory ? "memory://b-1" : nil, incarnation: 10, configuration: configuration)
    let newer = try fabric.station("b", endpoint: transport == .memory ? "memory://b-2" : nil, incarnation: 20)
    let other = try fabric.station("c", .gateway)
    defer { close(a, older, other) }
    a.bus.connect(to: older.endpoint)
    await a.meets("b")
    let open = Task { await a.failure(Hold(id: "open"), to: "b") }
    await eventually { older.state.entries.contains("start open") }
    a.bus.connect(to: newer.endpoint)
    #expect(await open.value?.code == .unreachable)
    await eventually { older.state.entries.contains("cancelled open") }
    #expect(a.bus.peers.map(\.incarnation) == [20])
    other.bus.connect(to: newer.endpoint)
    await other.meets("b")
    other.bus.connect(to: older.endpoint)
    await eventually { superseded.value == [20] }
    for caller in [a, other] {
      #expect(caller.bus.peers.map(\.incarnation) == [20])
      _ = try await caller.call(Append(key: "k", number: 1), to: "b")
    }
    #expect(newer.state.entries == ["k 1", "k 1"])
    #expect(await older.failure(Echo(text: ""), to: "c")?.code == .unreachable)
    newer.bus.close()
    await a.bus.waitForPeers { $0.map(\.incarnation) == [10] }
    #expect(try await a.call(Echo(text: "older"), to: "b").reply.text == "older")
  }
}
