// Streams of the console, which end with the role that they began by, and give their places back.

import Authentication
import FixedClocks
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

@Suite struct LiveStreamTests {
  private typealias Pieces = AsyncStream<[UInt8]>.AsyncIterator

  private func world(worker: GatewayWorld.Worker? = nil) async throws -> GatewayWorld {
    try await consoleWorld(timing: FixedTime().skippingPauses, worker: worker)
  }

  private func open(
    _ path: String, _ token: String, in world: GatewayWorld, headers: [(String, String)] = []
  ) async throws -> Pieces {
    let response = try await world.console(.get, path, token, headers: headers)
    #expect(response.status == 200, "\(response.text)")
    guard case .stream(let stream) = response.body else {
      throw RecordError(.internalError, "the answer is no stream")
    }
    return stream.makeAsyncIterator()
  }

  /// Changes a member's role, as an operator would.
  private func change(_ token: String, _ containers: [String]?, in world: GatewayWorld) {
    world.record.withLock {
      $0.staff[token] = StaffMember(name: String(token.dropFirst(4)), containers: containers)
    }
    world.state.authenticator.forgetAll()
  }

  @Test func `the live figures end for somebody who is an operator no more`() async throws {
    let world = try await world()
    world.record.withLock { $0.operatorAnswer = "{}" }
    var pieces = try await open("live", "con_operator", in: world)
    for _ in 0..<3 { #expect(await pieces.next(isolation: nil) != nil) }
    change("con_operator", [GatewayWorld.container], in: world)
    #expect(await pieces.next(isolation: nil) == nil)
  }

  @Test func `live pings are asked for in the role that the person has then`() async throws {
    let world = try await world()
    world.record.withLock { $0.operatorAnswer = #"{"pings":[],"after":"1"}"# }
    var pieces = try await open("pings/live", "con_operator", in: world)
    for _ in 0..<2 { #expect(await pieces.next(isolation: nil) != nil) }
    change("con_operator", ["iCloud.org.example.other"], in: world)
    #expect(await pieces.next(isolation: nil) != nil)
    let asked = world.record.withLock { $0.operatorRequests.map(\.request.member?.containers) }
    #expect(asked.first == .some(nil) && asked.last == ["iCloud.org.example.other"])
    world.record.withLock { $0.operatorRefusal = 403 }
    #expect(await pieces.next(isolation: nil) == nil, "the share service refuses them")
  }

  @Test func `a user's events end for somebody who is no developer of the container any more`() async throws {
    let page = Array(#"{"events":[],"lastEvent":"0","moreComing":false}"#.utf8)
    let world = try await world { _, _, _ in Answer(DatabaseRequest.Reply(status: 200), body: page) }
    let path = "as/_alice/mirror/1/\(GatewayWorld.container)/development/private/stores/S/events"
    var pieces = try await open(path, "con_developer", in: world, headers: [("accept", "text/event-stream")])
    for _ in 0..<2 { #expect(await pieces.next(isolation: nil) != nil) }
    change("con_developer", ["iCloud.org.example.other"], in: world)
    let asked = world.requests.count
    #expect(await pieces.next(isolation: nil) == nil)
    #expect(world.requests.count == asked)
  }

  @Test func `a poll is not answered for somebody who is no developer of the container any more`() async throws {
    let world = try await consoleWorld { _, _, _ in
      Answer(DatabaseRequest.Reply(status: 200, mayWait: true), body: Array("{}".utf8))
    }
    let path = "/console/api/as/_alice/mirror/1/\(GatewayWorld.container)/development/private/stores/S/status"
    async let answer = world.respond(.get, path, query: [("wait", "60")], headers: [consoleCookie("con_developer")])
    while await world.state.waiters.count < 1 { await Task.yield() }
    change("con_developer", ["iCloud.org.example.other"], in: world)
    await world.state.waiters.close()
    #expect(await answer.status == 403)
  }

  @Test func `developers leave places to operators, however many streams they open`() async throws {
    let world = try await world()
    world.record.withLock { $0.operatorAnswer = #"{"pings":[],"after":"1"}"# }
    func open(_ path: String, _ token: String) async throws -> HTTPResponse {
      try await world.console(.get, path, token)
    }
    var held: [HTTPResponse] = []
    for _ in 0..<LiveFeed.developerStreamLimit { held.append(try await open("pings/live", "con_developer")) }
    #expect(held.allSatisfy { $0.status == 200 })
    #expect(try await open("pings/live", "con_other").status == 429)
    for path in ["live", "pings/live"] { held.append(try await open(path, "con_operator")) }
    #expect(held.allSatisfy { $0.status == 200 })
    held.removeFirst()
    #expect(try await open("pings/live", "con_developer").status == 200, "a stream that ends gives its place back")
  }

  @Test func `a stream whose body nobody reads gives its place back`() async throws {
    let world = try await world()
    for _ in 0..<(2 * LiveFeed.streamLimit) {
      // The body of an answer to HEAD is dropped.
      #expect(try await world.console(.get, "live", "con_operator").status == 200)
    }
    var held: [HTTPResponse] = []
    for _ in 0..<LiveFeed.streamLimit { held.append(try await world.console(.get, "live", "con_operator")) }
    #expect(held.allSatisfy { $0.status == 200 })
    #expect(try await world.console(.get, "live", "con_operator").status == 429)
    held.removeLast()
    #expect(try await world.console(.get, "live", "con_operator").status == 200)
  }
}
