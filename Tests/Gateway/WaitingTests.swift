import Authentication
import FixedClocks
import HTTPServer
import InMemoryServiceBus
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

private func database(_ owner: String) throws -> DatabaseID {
  DatabaseID(
    container: try #require(ContainerID(rawValue: GatewayWorld.container)), environment: .development, owner: owner)
}

private func change(_ owner: String, audience: [String]? = nil) throws -> ZoneChange {
  ZoneChange(
    database: try database(owner), zoneName: "Z", sequence: 1, syncToken: "t", originStore: nil,
    audience: audience ?? [owner])
}

struct LongPollTests {
  /// A worker that has something to report after `quiet` answers.
  private func world(quiet: Int) async throws -> GatewayWorld {
    let count = Mutex(0)
    return try await GatewayWorld { _, _, _ in
      let number = count.withLock {
        $0 += 1; return $0
      }
      return Answer(DatabaseRequest.Reply(status: 200, mayWait: number <= quiet), body: Array("\(number)".utf8))
    }
  }

  private let path = "\(GatewayWorld.stores)/S/changes"

  private func waiting(_ world: GatewayWorld, count: Int) async {
    while await world.state.waiters.count < count { await Task.yield() }
  }

  @Test func `a poll with news is answered at once`() async throws {
    let world = try await world(quiet: 0)
    #expect(await world.alice(.get, path, query: [("wait", "60")]).text == "1")
  }

  @Test func `a change between the first answer and the registration is not missed`() async throws {
    let world = try await world(quiet: 1)
    #expect(await world.alice(.get, path, query: [("wait", "60")]).text == "2")
  }

  @Test func `a poll without news waits for a change of its database`() async throws {
    let world = try await world(quiet: 2)
    async let response = world.alice(.get, path, query: [("wait", "60")])
    await waiting(world, count: 1)
    await world.state.waiters.notice(try change("_bob"))
    await world.state.waiters.notice(try change("_alice"))
    #expect(await response.text == "3")
    #expect(await world.state.waiters.count == 0)
  }

  @Test func `a poll whose credentials are revoked while it waits is not told what changed`() async throws {
    let world = try await world(quiet: 2)
    async let response = world.alice(.get, path, query: [("wait", "60")])
    await waiting(world, count: 1)
    while world.requests.count < 2 { await Task.yield() }
    world.record.withLock { _ = $0.revoked.insert("alice") }
    world.state.authenticator.forgetAll()
    await world.state.waiters.notice(try change("_alice"))
    #expect(await response.status == 401)
    #expect(try await response.code == "AUTHENTICATION_FAILED")
  }

  @Test func `a change that is no news to the store goes on waiting`() async throws {
    let world = try await world(quiet: 3)
    async let response = world.alice(.get, path, query: [("wait", "60")])
    for asked in 2...3 {
      while world.requests.count < asked { await Task.yield() }
      await world.state.waiters.notice(try change("_alice"))
    }
    #expect(await response.text == "4")
  }

  @Test func `when the time is up the last answer is given`() async throws {
    let world = try await world(quiet: .max)
    #expect(await world.alice(.get, path, query: [("wait", "4")]).text == "3")
    #expect(await world.state.waiters.count == 0)
  }

  @Test func `without wait, or with zero, nobody waits`() async throws {
    let world = try await world(quiet: .max)
    #expect(await world.alice(.get, path).text == "1")
    #expect(await world.alice(.get, path, query: [("wait", "0")]).text == "2")
  }

  @Test func `a client that hangs up waits no longer`() async throws {
    let world = try await world(quiet: .max)
    let task = Task { await world.alice(.get, path, query: [("wait", "60")]) }
    await waiting(world, count: 1)
    task.cancel()
    _ = await task.value
    #expect(await world.state.waiters.count == 0)
  }

  @Test func `more polls than may wait are answered at once`() async throws {
    let world = try await world(quiet: .max)
    let held = (0..<2).map { _ in Task { await world.alice(.get, path, query: [("wait", "60")]) } }
    await waiting(world, count: 2)
    #expect(await world.alice(.get, path, query: [("wait", "60")]).status == 200)
    await world.state.waiters.close()
    for task in held { #expect(await task.value.status == 200) }
    #expect(await world.state.waiters.count == 0)
  }

  @Test func `polls that one change wakes ask their worker a few at a time, and all are answered`() async throws {
    let hasNews = Mutex(false)
    let underWay = Mutex((count: 0, most: 0))
    var places = PlaceBook.Limits()
    places.heldPerUser = nil
    let world = try await GatewayWorld(
      // Turns of this many polls can take longer than a request may on a busy machine.
      places: places, timing: FixedTime().standing,
      worker: { _, _, _ in
        underWay.withLock { state in
          state.count += 1
          state.most = max(state.most, state.count)
        }
        for _ in 0..<50 { await Task.yield() }
        underWay.withLock { $0.count -= 1 }
        return Answer(
          DatabaseRequest.Reply(status: 200, mayWait: !hasNews.withLock(\.self)), body: Array("{}".utf8))
      }, waiterLimit: 300)
    await withTaskGroup(of: Int.self) { group in
      for _ in 0..<300 { group.addTask { await world.alice(.get, path, query: [("wait", "60")]).status } }
      await waiting(world, count: 300)
      hasNews.withLock { $0 = true }
      if let change = try? change("_alice") { await world.state.waiters.notice(change) }
      for await status in group { #expect(status == 200) }
    }
    #expect(underWay.withLock(\.most) <= PollGate.lanesOfParty)
  }

  @Test func `a poll whose worker is away for a while goes on waiting`() async throws {
    let count = Mutex(0)
    let world = try await GatewayWorld(timing: FixedTime().skippingPauses) { _, _, _ in
      let number = count.withLock { count in
        count += 1
        return count
      }
      // More often than one forwarding tries.
      if (2...9).contains(number) { throw BusError(.overloaded, "too many calls") }
      return Answer(DatabaseRequest.Reply(status: 200, mayWait: number == 1), body: Array("\(number)".utf8))
    }
    let answer = await world.alice(.get, path, query: [("wait", "60")])
    #expect(answer.status == 200 && Int(answer.text) ?? 0 >= 10)
  }

  @Test func `a party's polls leave a worker's lanes to others, and whoever waits comes in turn`() async {
    let gate = PollGate()
    for _ in 0..<PollGate.lanesOfParty { await gate.enter("w", "a") }
    let next = Task { await gate.enter("w", "a") }
    while gate.waitingCount == 0 { await Task.yield() }
    await gate.enter("w", "b")
    await gate.enter("other", "a")
    gate.leave("w", "b")
    #expect(gate.waitingCount == 1)
    gate.leave("w", "a")
    await next.value
    #expect(gate.waitingCount == 0)
  }

  @Test func `stopping releases all and takes no more`() async throws {
    let world = try await world(quiet: .max)
    let held = Task { await world.alice(.get, path, query: [("wait", "60")]) }
    await waiting(world, count: 1)
    await world.state.waiters.close()
    _ = await held.value
    #expect(await world.state.waiters.register(for: .database(try database("_alice"))) == nil)
  }
}

struct ChangeWaiterTests {
  private let waiters = ChangeWaiters(limit: 10, timing: .system)

  @Test func `a change before the wait is remembered once`() async throws {
    let registration = try #require(await waiters.register(for: .database(try database("_a"))))
    await waiters.notice(try change("_a"))
    await waiters.notice(try change("_a"))
    #expect(await waiters.wait(registration, within: .seconds(60)) == .changed)
    #expect(await waiters.wait(registration, within: .milliseconds(1)) == .timeUp)
  }

  @Test func `a timer of one wait does not end the next`() async throws {
    let registration = try #require(await waiters.register(for: .database(try database("_a"))))
    for _ in 0..<200 {
      await waiters.notice(try change("_a"))
      #expect(await waiters.wait(registration, within: .seconds(60)) == .changed)
    }
  }

  @Test func `a participant's shared database changes with the owner's zone`() async throws {
    let participant = try #require(await waiters.register(for: .database(try database("_b"))))
    let stranger = try #require(await waiters.register(for: .database(try database("_c"))))
    await waiters.notice(try change("_a", audience: ["_a", "_b"]))
    #expect(await waiters.wait(participant, within: .seconds(60)) == .changed)
    #expect(await waiters.wait(stranger, within: .milliseconds(1)) == .timeUp)
  }
}

struct AuthenticatorTests {
  private let path = "\(GatewayWorld.records)/zones/list"

  @Test func `an answer is asked for once and kept`() async throws {
    let world = try await GatewayWorld()
    for _ in 0..<5 { #expect(await world.alice(.get, path).status == 200) }
    #expect(world.record.withLock(\.authentications) == 1)
  }

  @Test func `a change of the directory makes it ask again`() async throws {
    let world = try await GatewayWorld()
    #expect(await world.alice(.get, path).status == 200)
    world.record.withLock { _ = $0.revoked.insert("alice") }
    #expect(await world.alice(.get, path).status == 200)
    world.state.authenticator.forgetAll()
    #expect(await world.alice(.get, path).status == 401)
  }

  @Test func `a refusal is not kept`() async throws {
    let world = try await GatewayWorld()
    world.record.withLock { _ = $0.revoked.insert("alice") }
    #expect(await world.alice(.get, path).status == 401)
    world.record.withLock { _ = $0.revoked.remove("alice") }
    #expect(await world.alice(.get, path).status == 200)
  }

  @Test func `known users go on while the share service is away, strangers are told to come again`() async throws {
    let world = try await GatewayWorld(timing: FixedTime().skippingPauses)
    #expect(await world.alice(.get, path).status == 200)
    world.network.kill("share")
    #expect(await world.alice(.get, path).status == 200)
    let stranger = await world.respond(.get, path, headers: [("authorization", "Bearer bob")])
    #expect(stranger.status == 503)
    #expect(stranger.header("Retry-After") == "1")
  }
}
