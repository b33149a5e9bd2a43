// One suite for both buses: the guarantees for callers, whatever the transport.

import ServiceBus
import Synchronization
import Testing

@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct ConformanceTests {
  @Test(arguments: Transport.allCases)
  func `a call is answered with its reply and its body, in both directions of a link`(transport: Transport) async throws
  {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let answer = try await a.call(Echo(text: "grüß dich"), body: [0, 255, 10, 13, 0], to: "b")
    #expect(answer.reply == Echo.Reply(text: "grüß dich", servedBy: "b"))
    #expect(answer.body == [0, 255, 10, 13, 0])
    #expect(try await b.call(Echo(text: ""), to: "a").reply == Echo.Reply(text: "", servedBy: "a"))
  }

  @Test(arguments: Transport.allCases)
  func `peers are whoever announced himself, with readiness as it changes`(transport: Transport) async throws {
    let fabric = Fabric(transport)
    let a = try fabric.station("a", .gateway)
    let b = try fabric.station("b", .worker, isReady: false)
    defer { close(a, b) }
    #expect(a.bus.peers.isEmpty)
    a.bus.connect(to: b.endpoint)
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    #expect(a.bus.peers.map(\.name) == ["b"])
    #expect(a.bus.peers.first?.isReady == false)
    #expect(a.bus.peers.first?.endpoint == b.endpoint)
    #expect(
      await code { try await a.bus.call(Echo(text: ""), to: .role(.worker), within: .seconds(5)) } == .unreachable)
    b.bus.setReady(true)
    await a.bus.waitForPeers { $0.first?.isReady == true }
    #expect(try await a.bus.call(Echo(text: "x"), to: .role(.worker), within: .seconds(100)).servedBy == "b")
    a.bus.disconnect(from: b.endpoint)
    await a.loses("b")
    await b.loses("a")
    #expect(await a.failure(Echo(text: ""), to: "b")?.code == .unreachable)
  }

  @Test(arguments: Transport.allCases)
  func `a call that is not answered in time fails, and its handler is cancelled`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    #expect(await a.failure(Hold(id: "late"), to: "b", within: .milliseconds(60))?.code == .timedOut)
    try await a.journal(of: "b", contains: "cancelled late")
    #expect(await a.failure(Echo(text: ""), to: "b", within: .zero)?.code == .timedOut)
    #expect(await a.failure(Echo(text: ""), to: "b", within: .seconds(-5))?.code == .timedOut)
  }

  @Test(arguments: Transport.allCases)
  func `cancelling a caller's task cancels the handler`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let task = Task { await a.failure(Hold(id: "held"), to: "b") }
    try await a.journal(of: "b", contains: "start held")
    task.cancel()
    #expect(await task.value?.code == .cancelled)
    try await a.journal(of: "b", contains: "cancelled held")
  }

  @Test(arguments: Transport.allCases)
  func `two thousand cancellations that race with their calls leave none hanging`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<2000 {
        group.addTask {
          let task = Task { try await a.call(Echo(text: "\(number)"), to: "b") }
          if number % 3 != 0 { await Task.yield() }
          task.cancel()
          switch await task.result {
          case .success(let answer): #expect(answer.reply.text == "\(number)")
          case .failure(let error):
            #expect((error as? BusError)?.code == .cancelled || (error as? BusError)?.code == .overloaded)
          }
        }
      }
    }
    #expect(try await a.call(Echo(text: "after"), to: "b").reply.text == "after")
  }

  @Test(arguments: Transport.allCases)
  func `a handler's bus error arrives as it is, also with a code of a later version`(transport: Transport) async throws
  {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    #expect(await a.failure(Fail(way: .busError), to: "b") == BusError(.notMine, "shard 7 is held by worker-2"))
    #expect(
      await a.failure(Fail(way: .newCode), to: "b")
        == BusError(BusError.Code(rawValue: "fromTheFuture"), "a code of a later version"))
  }

  @Test(arguments: Transport.allCases)
  func `any other error is an internal error whose description stays here`(transport: Transport) async throws {
    let reports = Mutex<[String]>([])
    let (a, b) = try await Fabric(transport).pair { report in reports.withLock { $0.append(report) } }
    defer { close(a, b) }
    #expect(await a.failure(Fail(way: .otherError), to: "b") == BusError(.internalError, "the handler failed"))
    #expect(reports.withLock { $0.count { $0.contains("test.fail/1") && $0.contains("the inner reason") } } == 1)
  }

  @Test(arguments: Transport.allCases)
  func `a message that nobody serves there is refused by name`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    #expect(await a.failure(NobodyServesThis(), to: "b") == BusError(.unknownMessage, "b does not serve test.nobody/1"))
  }

  @Test(arguments: Transport.allCases)
  func `added fields are skipped and missing optional ones are nil`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let reply = try await a.call(EvolvedEcho(text: "x"), to: "b").reply
    #expect(reply.text == "x")
    #expect(reply.note == nil)
  }

  @Test(arguments: Transport.allCases)
  func `arguments that do not decode are a bad message`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    #expect(
      await a.failure(BrokenEcho(text: 1), to: "b")
        == BusError(.badMessage, "the arguments of test.echo/1 do not decode"))
  }

  @Test(arguments: Transport.allCases)
  func `bodies are byte-exact up to the limit, and longer ones are refused with both numbers`(transport: Transport)
    async throws
  {
    var configuration = BusConfiguration()
    configuration.partByteLimit = 2 << 20
    let (a, b) = try await Fabric(transport).pair(configuration)
    defer { close(a, b) }
    for count in [1, 4095, 65_537, 2 << 20] {
      let body = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
      #expect(try await a.call(Echo(text: ""), body: body, to: "b").body == body)
    }
    let tooLong = await a.failure(Echo(text: ""), body: Array(repeating: 0, count: 2 << 20 + 1), to: "b")
    #expect(tooLong == BusError(.tooLarge, "a body of \(2 << 20 + 1) bytes; test.echo/1 may carry \(2 << 20)"))
    #expect(await a.failure(Fail(way: .hugeReply), to: "b")?.code == .tooLarge)
    #expect(await a.failure(Echo(text: String(repeating: "x", count: 2 << 20 + 1)), to: "b")?.code == .tooLarge)
    #expect(await a.failure(Append(key: String(repeating: "k", count: 5000), number: 0), to: "b")?.code == .tooLarge)
  }

  @Test(arguments: Transport.allCases)
  func `a process can call itself, by name and by role`(transport: Transport) async throws {
    let a = try Fabric(transport).station("a", .share)
    defer { close(a) }
    #expect(try await a.call(Echo(text: "me"), body: [7], to: "a").body == [7])
    #expect(try await a.bus.call(Echo(text: "me"), to: .role(.share), within: .seconds(100)).servedBy == "a")
    let task = Task { await a.failure(Hold(id: "own"), to: "a") }
    try await a.journal(of: "a", contains: "start own")
    task.cancel()
    #expect(await task.value?.code == .cancelled)
    try await a.journal(of: "a", contains: "cancelled own")
    #expect(a.bus.peers.isEmpty)
  }

  @Test(arguments: Transport.allCases)
  func `a closed bus refuses calls at once and ends its streams`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(b) }
    let changes = a.bus.peerChanges()
    let call = Task { await a.failure(Hold(id: "open"), to: "b") }
    try await b.journal(of: "b", contains: "start open")
    a.bus.close()
    a.bus.close()
    #expect(await call.value?.code == .unreachable)
    #expect(await a.failure(Echo(text: ""), to: "b")?.code == .unreachable)
    for await _ in changes {}
    for await _ in a.bus.peerChanges() {}
    #expect(a.bus.peers.isEmpty)
    await a.bus.drain(within: .seconds(1))
    try await b.journal(of: "b", contains: "cancelled open")
  }
}

/// The code of a call's failure.
func code(_ call: () async throws -> Any) async -> BusError.Code? {
  do {
    _ = try await call()
    return nil
  } catch {
    return (error as? BusError)?.code
  }
}

func close(_ stations: Station...) {
  for station in stations { station.bus.close() }
}
