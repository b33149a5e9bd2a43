// The order in which handlers start: arrival within a key, none across keys.

import ServiceBus
import Testing

@testable import ServiceBusPeer

@Suite(.timeLimit(.minutes(2))) struct OrderTests {
  @Test(arguments: Transport.allCases)
  func `messages with one key run in the order they were sent`(transport: Transport) async throws {
    var configuration = BusConfiguration()
    configuration.backlogCount = 4000
    let (a, b) = try await Fabric(transport).pair(configuration)
    defer { close(a, b) }
    async let first = a.appendAll(0..<3000, key: "one")
    async let second = a.appendAll(0..<500, key: "other")
    for (key, sent) in [("one", await first), ("other", await second)] {
      let entries = b.state.entries.filter { $0.hasPrefix(key) }
      #expect(entries.count == sent.count)
      #expect(zip(entries, sent).allSatisfy { $0 == "\(key) \($1)" }, "\(key) ran in another order")
    }
  }

  @Test(arguments: Transport.allCases)
  func `a message waits for the one before it, and no other key does`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let first = Task { await a.failure(Hold(id: "1", key: "k"), to: "b") }
    try await b.journal(of: "b", contains: "start 1")
    let second = Task { await a.failure(Hold(id: "2", key: "k"), to: "b") }
    await eventually { await b.bus.statistics().requestsWaiting != 0 }
    let third = Task { await a.failure(Hold(id: "3", key: "other"), to: "b") }
    try await b.journal(of: "b", contains: "start 3")
    #expect(!b.state.entries.contains("start 2"))
    b.state.release("1")
    try await b.journal(of: "b", contains: "start 2")
    #expect(b.state.entries == ["start 1", "start 3", "end 1", "start 2"])
    b.state.release("2")
    b.state.release("3")
    for task in [first, second, third] { #expect(await task.value == nil) }
  }

  @Test(arguments: Transport.allCases)
  func `a handler may let the next one start while it goes on`(transport: Transport) async throws {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let first = Task { await a.failure(Hold(id: "1", key: "k", startsNext: true), to: "b") }
    try await b.journal(of: "b", contains: "start 1")
    let second = Task { await a.failure(Hold(id: "2", key: "k"), to: "b") }
    try await b.journal(of: "b", contains: "start 2")
    let third = Task { await a.failure(Hold(id: "3", key: "k"), to: "b") }
    await eventually { await b.bus.statistics().requestsWaiting != 0 }
    b.state.release("1")
    #expect(await first.value == nil)
    #expect(!b.state.entries.contains("start 3"), "the first had given its place up already")
    b.state.release("2")
    b.state.release("3")
    #expect(await second.value == nil)
    #expect(await third.value == nil)
    #expect(b.state.entries == ["start 1", "start 2", "end 1", "end 2", "start 3", "end 3"])
  }

  @Test(arguments: Transport.allCases)
  func `a message that is cancelled while it waits is never executed and holds up nobody`(transport: Transport)
    async throws
  {
    let (a, b) = try await Fabric(transport).pair()
    defer { close(a, b) }
    let first = Task { await a.failure(Hold(id: "1", key: "k"), to: "b") }
    try await b.journal(of: "b", contains: "start 1")
    let second = Task { await a.failure(Hold(id: "2", key: "k"), to: "b") }
    await eventually { await b.bus.statistics().requestsWaiting != 0 }
    second.cancel()
    #expect(await second.value?.code == .cancelled)
    await eventually { await b.bus.statistics().requestsWaiting != 1 }
    b.state.release("3")
    let third = Task { await a.failure(Hold(id: "3", key: "k"), to: "b") }
    b.state.release("1")
    #expect(await first.value == nil)
    #expect(await third.value == nil)
    #expect(b.state.entries == ["start 1", "end 1", "start 3", "end 3"])
  }
}
