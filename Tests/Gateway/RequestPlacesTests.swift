import Gates
import HTTPServer
import Queues
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

@Suite struct PlaceBookTests {
  private func requester(_ name: String, in container: String = "iCloud.a") throws -> Hashed<Requester> {
    Hashed(Requester(container: try #require(ContainerID(rawValue: container)), name: name))
  }

  @Test func `a user has so many places and no more, and others have theirs`() throws {
    var book = PlaceBook(limits: .init(perUser: 3, heldPerUser: 2, perContainer: nil))
    let (alice, bob) = (try requester("_alice"), try requester("_bob"))
    for _ in 0..<3 { #expect(book.begin(alice, isHeld: false) == nil) }
    #expect(book.begin(alice, isHeld: false) == .user)
    #expect(book.begin(bob, isHeld: false) == nil)
    #expect(try book.begin(requester("_alice", in: "iCloud.b"), isHeld: false) == nil)
    for _ in 0..<2 { #expect(book.begin(alice, isHeld: true) == nil) }
    #expect(book.begin(alice, isHeld: true) == .held)
    book.end(alice, isHeld: false)
    #expect(book.begin(alice, isHeld: false) == nil)
    #expect(book.underWayCount == 5 && book.heldCount == 2)
  }

  @Test func `the last quarter of a container's places is for users with few under way, and those are bounded, too`()
    throws
  {
    var book = PlaceBook(limits: .init(perUser: nil, perContainer: 16))
    for number in 0..<12 { #expect(try book.begin(requester("crowd \(number % 2)"), isHeld: false) == nil) }
    #expect(try book.begin(requester("crowd 0"), isHeld: false) == .container)
    for number in 0..<4 { #expect(try book.begin(requester("quiet \(number)"), isHeld: false) == nil) }
    #expect(try book.begin(requester("quiet 9"), isHeld: false) == .container)
    #expect(try book.begin(requester("quiet 9", in: "iCloud.b"), isHeld: false) == nil)
    #expect(try book.begin(requester("quiet 9"), isHeld: true) == nil, "what is held takes no place")
  }

  @Test func `nothing is left of requests that are over`() throws {
    var book = PlaceBook(limits: .init())
    for isHeld in [false, true] {
      for number in 0..<200 { _ = try book.begin(requester("\(number % 10)"), isHeld: isHeld) }
      for number in 0..<200 { try book.end(requester("\(number % 10)"), isHeld: isHeld) }
    }
    #expect(book.requesterCount == 0 && book.underWayCount == 0 && book.heldCount == 0)
    try book.end(requester("nobody"), isHeld: false)
    #expect(book.underWayCount == 0)
  }

  @Test func `without limits everybody has a place`() throws {
    var book = PlaceBook(limits: .init(perUser: nil, heldPerUser: nil, perContainer: nil))
    let alice = try requester("_alice")
    for _ in 0..<300 { for isHeld in [false, true] { #expect(book.begin(alice, isHeld: isHeld) == nil) } }
  }
}

@Suite(.timeLimit(.minutes(2))) struct RequestPlacesTests {
  private static let save = #"{"operations":[{"operationType":"create","record":{"recordType":"Note"}}]}"#

  @Test
  func
    `a user's flood is told to come later, whatever credentials it comes by, and another user is answered meanwhile`()
    async throws
  {
    // At the worker it holds Alice's requests, and no others.
    let door = Gate()
    var limits = PlaceBook.Limits()
    limits.perUser = 20
    let world = try await GatewayWorld(places: limits) { _, request, _ in
      if request.caller.userRecordName == "_alice" { await door.wait() }
      return Answer(DatabaseRequest.Reply(status: 200), body: Array("{}".utf8))
    }
    await withTaskGroup(of: HTTPResponse.self) { group in
      for number in 0..<120 {
        group.addTask {
          switch number % 3 {
          case 0: await world.alice(.post, "\(GatewayWorld.records)/records/modify", body: Self.save)
          case 1:
            await world.respond(
              .post, "\(GatewayWorld.records)/records/query", headers: [("authorization", "Bearer alice")], body: "{}")
          default:
            await world.respond(
              .get, "\(GatewayWorld.stores)/S/status", headers: [("authorization", "Bearer ses_alice")])
          }
        }
      }
      var refused = 0
      while refused < 100, let answer = await group.next() {
        refused += 1
        guard answer.status == 429, answer.header("Retry-After") == "1", (try? answer.code) == "THROTTLED" else {
          Issue.record("\(answer.status) \(answer.text)")
          break
        }
      }
      let bob = await world.respond(
        .post, "\(GatewayWorld.records)/records/modify", headers: [("authorization", "Bearer bob")], body: Self.save)
      #expect(bob.status == 200)
      #expect(world.gateway.places.counts == (20, 0))
      door.open()
      for await answered in group { #expect(answered.status == 200) }
    }
    #expect(world.gateway.places.counts == (0, 0))
    #expect(world.requests.count == 21, "what is refused reaches no worker")
    let text = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(text.contains(#"aquifer_http_requests_throttled_total{by="user-requests"} 100"#))
  }

  @Test func `a network of IPv6 is one sender: whatever address it chooses, its limits are the same`() async throws {
    let door = Gate()
    var limits = PlaceBook.Limits()
    limits.perUser = 1
    let world = try await GatewayWorld(places: limits) { _, _, _ in
      await door.wait()
      return Answer(DatabaseRequest.Reply(status: 200), body: Array("{}".utf8))
    }
    @Sendable func query(from address: String) async -> HTTPResponse {
      await world.respond(
        .post, GatewayWorld.records.replacing("private", with: "public") + "/records/query",
        query: [("ckAPIToken", GatewayWorld.apiToken)], body: "{}", address: address)
    }
    let refused = Counter()
    await withTaskGroup(of: Int.self) { group in
      for address in ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"] {
        group.addTask {
          let status = await query(from: address).status
          if status == 429 { refused.increment() }
          return status
        }
      }
      while world.requests.count + Int(refused.count) < 3 { await Task.yield() }
      door.open()
      var statuses: [Int] = []
      for await status in group { statuses.append(status) }
      #expect(statuses.sorted() == [200, 200, 429])
    }
  }

  @Test func `guesses from one network of IPv6 count as one sender's`() async throws {
    let start = ContinuousClock.now
    let world = try await GatewayWorld(
      rate: .init(perSecond: 1, burst: 2), timing: Timing(now: { start }, sleep: { _ in }))
    func guess(_ number: Int, from address: String) async -> Int {
      await world.respond(
        .post, "\(GatewayWorld.records)/records/query", headers: [("authorization", "Bearer guess\(number)")],
        body: "{}", address: address
      ).status
    }
    #expect(await guess(1, from: "2001:db8::1") == 401)
    #expect(await guess(2, from: "2001:db8::2") == 401)
    #expect(await guess(3, from: "2001:db8::3") == 429)
    #expect(await guess(4, from: "2001:db8:0:1::1") == 401)
    #expect(await guess(5, from: "192.0.2.1") == 401)
  }

  @Test func `a container's flood leaves other containers and operators alone, and is counted as one`() async throws {
    // At the worker it holds Alice's requests, and no others.
    let door = Gate()
    var limits = PlaceBook.Limits()
    limits.perContainer = 8
    let world = try await GatewayWorld(places: limits) { _, request, _ in
      if request.caller.userRecordName == "_alice" { await door.wait() }
      return Answer(DatabaseRequest.Reply(status: 200), body: Array("{}".utf8))
    }
    await withTaskGroup(of: HTTPResponse.self) { group in
      for _ in 0..<10 {
        group.addTask { await world.alice(.post, "\(GatewayWorld.records)/records/query", body: "{}") }
      }
      for _ in 0..<4 { #expect(await group.next()?.status == 429) }
      // The last quarter of the places goes to users with few requests.
      #expect(
        await world.respond(
          .post, "\(GatewayWorld.records)/records/query", headers: [("authorization", "Bearer bob")], body: "{}"
        ).status == 200)
      #expect(
        await world.respond(.get, "/admin/1/status", headers: [("authorization", "Bearer operator")]).status == 201)
      door.open()
      for await answered in group { #expect(answered.status == 200) }
    }
    let text = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(text.contains(#"aquifer_http_requests_throttled_total{by="container-requests"} 4"#))
  }

  @Test func `polls and streams that wait have places of their own, which they give back`() async throws {
    var limits = PlaceBook.Limits()
    (limits.perUser, limits.heldPerUser) = (1, 2)
    let world = try await GatewayWorld(places: limits) { _, request, _ in
      Answer(DatabaseRequest.Reply(status: 200, mayWait: true), body: Array(#"{"events":[],"lastEvent":"0"}"#.utf8))
    }
    let path = "\(GatewayWorld.stores)/S/changes"
    let poll = Task { await world.alice(.get, path, query: [("wait", "60")]) }
    while await world.state.waiters.count < 1 { await Task.yield() }
    try await listening(to: world) {
      let refused = await world.alice(.get, path, query: [("wait", "60")])
      let code = try refused.code
      #expect(refused.status == 429 && code == "THROTTLED" && refused.header("Retry-After") == "1")
      #expect(world.gateway.places.counts == (0, 2))
      #expect(await world.alice(.get, path).status == 200, "who does not wait needs none of their places")
      poll.cancel()
      _ = await poll.value
      #expect(world.gateway.places.counts == (0, 1))
    }
    while world.gateway.places.counts != (0, 0) { await Task.yield() }
    let text = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(text.contains(#"aquifer_http_requests_throttled_total{by="user-waits"} 1"#))
  }

  @Test(arguments: [
    ("history", "1"), ("audit", "1"), ("conflicts", "1"), ("objects/O/explain", "1"), ("changes", "00"),
    ("events", "-0"), ("status", "+0"),
  ])
  func `a wait for which nobody is held takes a place among the requests at work`(call: String, wait: String)
    async throws
  {
    let door = Gate()
    let world = try await GatewayWorld { _, _, _ in
      await door.wait()
      return Answer(DatabaseRequest.Reply(status: 200, mayWait: true), body: Array("{}".utf8))
    }
    async let answer = world.alice(.get, "\(GatewayWorld.stores)/S/\(call)", query: [("wait", wait)])
    while world.requests.isEmpty { await Task.yield() }
    #expect(world.gateway.places.counts == (1, 0))
    door.open()
    #expect(await answer.status == 200)
    #expect(world.requests.count == 1)
    let text = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(!text.contains("aquifer_http_held_request_duration_seconds_count{"))
  }

  /// Holds a stream of a store's events while the body runs, and releases it afterwards.
  private func listening(to world: GatewayWorld, _ body: () async throws -> Void) async throws {
    let stream = await world.alice(.get, "\(GatewayWorld.stores)/S/events", headers: [("accept", "text/event-stream")])
    #expect(stream.status == 200)
    try await body()
    withExtendedLifetime(stream) {}
  }
}
