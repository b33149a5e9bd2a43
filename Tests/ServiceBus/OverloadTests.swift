// Every queue of the bus is bounded and refuses at once when it is full.

import ServiceBus
import Testing

@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct OverloadTests {
  @Test(arguments: Transport.allCases)
  func `with a window of 8 and a backlog of 100, 92 of 200 calls are refused at once`(transport: Transport) async throws
  {
    let fabric = Fabric(transport)
    var configuration = BusConfiguration()
    configuration.windowCount = 8
    configuration.backlogCount = 100
    let a = try fabric.station("a", .gateway, configuration: configuration)
    let b = try fabric.station("b")
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    let codes = await withTaskGroup(of: BusError.Code?.self) { group in
      for number in 0..<200 { group.addTask { await a.failure(Hold(id: "\(number)"), to: "b")?.code } }
      var codes: [BusError.Code?] = []
      for _ in 0..<92 { codes.append(await group.next() ?? nil) }
      #expect(codes == Array(repeating: .overloaded, count: 92))
      let statistics = await a.bus.statistics()
      #expect(statistics.callsUnderWay == 8)
      #expect(statistics.callsInBacklog == 100)
      #expect(statistics.failures[.overloaded] == 92)
      for number in 0..<200 { b.state.release("\(number)") }
      for await code in group { codes.append(code) }
      return codes
    }
    #expect(codes.count { $0 == nil } == 108)
    #expect(b.state.entries.count { $0.hasPrefix("start") } == 108)
  }

  @Test(arguments: Transport.allCases)
  func `parties take turns for a window, and nobody fills a backlog for all`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    var configuration = BusConfiguration()
    configuration.windowCount = 1
    configuration.backlogCount = 100
    configuration.partyBacklogCount = 20
    let a = try fabric.station("a", .gateway, configuration: configuration)
    let b = try fabric.station("b")
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    await withTaskGroup(of: BusError.Code?.self) { group in
      group.addTask { await a.failure(Hold(id: "first", crowd: "flood"), to: "b")?.code }
      while await a.bus.statistics().callsUnderWay < 1 { await Task.yield() }
      for number in 0..<30 {
        group.addTask { await a.failure(Hold(id: "flood \(number)", crowd: "flood"), to: "b")?.code }
      }
      // The calls of the flood that find no place.
      for _ in 0..<10 { #expect(await group.next() == .overloaded) }
      #expect(await a.bus.statistics().callsInBacklog == 20)
      group.addTask { await a.failure(Hold(id: "quiet", crowd: "quiet"), to: "b")?.code }
      while await a.bus.statistics().callsInBacklog < 21 { await Task.yield() }
      for number in 0..<30 { b.state.release("flood \(number)") }
      b.state.release("quiet")
      b.state.release("first")
      for await code in group { #expect(code == nil) }
    }
    let begun = b.state.entries.filter { $0.hasPrefix("start") }
    #expect(begun.count == 22)
    #expect(begun.firstIndex(of: "start quiet") == 2, "one of the flood's was before it in turn")
  }

  @Test(arguments: Transport.allCases)
  func `a process runs so many handlers, lets so many wait, and refuses the rest`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    var configuration = BusConfiguration()
    configuration.runningCount = 2
    configuration.waitingCount = 3
    let a = try fabric.station("a", .gateway)
    let b = try fabric.station("b", configuration: configuration)
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    await withTaskGroup(of: BusError.Code?.self) { group in
      for number in 0..<12 { group.addTask { await a.failure(Hold(id: "\(number)"), to: "b")?.code } }
      for _ in 0..<7 { #expect(await group.next() == .overloaded) }
      #expect(b.state.entries.count { $0.hasPrefix("start") } <= 2)
      let statistics = await b.bus.statistics()
      #expect(statistics.handlersRunning == 2)
      #expect(statistics.requestsWaiting == 3)
      #expect(statistics.refusedRequests == 7)
      for number in 0..<12 { b.state.release("\(number)") }
      for await code in group { #expect(code == nil) }
    }
    #expect(b.state.entries.count { $0.hasPrefix("end") } == 5)
  }

  @Test(arguments: Transport.allCases)
  func `bytes that wait are bounded as well`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    var configuration = BusConfiguration()
    configuration.heldByteCount = 10_000
    let a = try fabric.station("a", .gateway)
    let b = try fabric.station("b", configuration: configuration)
    defer { close(a, b) }
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    let held = Task { await a.failure(Hold(id: "big"), body: Array(repeating: 0, count: 9000), to: "b") }
    try await b.journal(of: "b", contains: "start big")
    #expect(await a.failure(Echo(text: ""), body: Array(repeating: 0, count: 2000), to: "b")?.code == .overloaded)
    b.state.release("big")
    #expect(await held.value == nil)
    #expect(await a.failure(Echo(text: ""), body: Array(repeating: 0, count: 2000), to: "b") == nil)
  }

  @Test(arguments: Transport.allCases)
  func `calls to a role go to the ready process with the fewest under way`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    let a = try fabric.station("a", .gateway)
    let workers = [try fabric.station("b"), try fabric.station("c"), try fabric.station("d", isReady: false)]
    defer { close(a, workers[0], workers[1], workers[2]) }
    for worker in workers { a.bus.connect(to: worker.endpoint) }
    await a.meets("b", "c", "d")
    let tasks = (0..<10).map { number in
      Task { () -> BusError.Code? in
        do throws(BusError) {
          _ = try await a.bus.call(Hold(id: "\(number)"), to: .role(.worker), within: .seconds(100))
          return nil
        } catch {
          return error.code
        }
      }
    }
    await eventually { workers[0].state.entries.count == 5 && workers[1].state.entries.count == 5 }
    #expect(workers[2].state.entries.isEmpty)
    for worker in workers { for number in 0..<10 { worker.state.release("\(number)") } }
    for task in tasks { #expect(await task.value == nil) }
  }
}
