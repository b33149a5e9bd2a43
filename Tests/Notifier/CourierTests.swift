// The web courier over real HTTP: polls, merging between them, clients that hang up.

import Glibc
import HTTPClient
import JSON
import Records
import ServiceBus
import ServiceKit
import Testing
import WebServices
@testable import Notifier

struct CourierTests {
  private func poll(_ world: NotifierWorld, _ url: String) -> Task<[UInt8], any Error> {
    Task {
      let answer = try await world.client.send("GET", url, timeout: .seconds(90))
      #expect(answer.status == 200)
      #expect(answer["access-control-allow-origin"] == "*")
      return answer.body
    }
  }

  private func couriers(_ world: NotifierWorld, _ count: Int) async throws {
    #expect(
      try await world.eventually { try await world.metric("aquifer_held_connections{kind=\"courier\"}") == count })
  }

  @Test func `a poll is answered by one notification`() async throws {
    let world = try await NotifierWorld()
    let ann = poll(world, try world.courierURL("ann"))
    let bob = poll(world, try world.courierURL("bob"))
    try await couriers(world, 2)
    try await world.push(owner: "ann", zone: "Trips", sequence: 4, audience: ["ann", "bob"])
    #expect(try summary(try await ann.value) == "1 Trips ann t4")
    #expect(try summary(try await bob.value) == "2 Trips ann t4")
    #expect(try await world.metric("aquifer_pings_sent_total{kind=\"courier\"}") == 2)
    await world.stop()
  }

  @Test func `pings between two polls are kept, merged, and delivered one by one`() async throws {
    let world = try await NotifierWorld()
    let url = try world.courierURL("ann")
    let first = poll(world, url)
    try await couriers(world, 1)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    #expect(try summary(try await first.value) == "1 A ann t1")
    for sequence in 2...4 { try await world.push(owner: "ann", zone: "A", sequence: Int64(sequence)) }
    try await world.push(owner: "ann", zone: "B", sequence: 1)
    try await world.push(owner: "bob", zone: "C", sequence: 1)
    #expect(try summary(try await poll(world, url).value) == "1 A ann t4")
    #expect(try summary(try await poll(world, url).value) == "1 B ann t1")
    let last = poll(world, url)
    try await world.push(owner: "ann", zone: "D", sequence: 1)
    #expect(try summary(try await last.value) == "1 D ann t1")
    await world.stop()
  }

  @Test func `a client is not told of its own changes`() async throws {
    let world = try await NotifierWorld()
    let own = poll(world, try world.courierURL("ann", clientID: "C1"))
    let other = poll(world, try world.courierURL("ann", clientID: "C2"))
    try await couriers(world, 2)
    try await world.push(owner: "ann", zone: "A", origin: "C1")
    #expect(try summary(try await other.value) == "1 A ann t1")
    try await world.push(owner: "ann", zone: "B")
    #expect(try summary(try await own.value) == "1 B ann t1")
    await world.stop()
  }

  @Test func `a poll nobody has news for is answered empty`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    #expect(try await poll(world, try world.courierURL("ann")).value == [])
    await world.stop()
  }

  @Test func `a second poll takes over from the first`() async throws {
    let world = try await NotifierWorld()
    let url = try world.courierURL("ann")
    let first = poll(world, url)
    try await couriers(world, 1)
    let second = poll(world, url)
    // The poll that reached the server first is answered when the other one arrives; their order depends on the
    // network.
    let emptied = try await withThrowingTaskGroup(of: [UInt8].self) { group in
      for task in [first, second] { group.addTask { try await task.value } }
      let emptied = try await group.next()
      try await world.push(owner: "ann")
      let told = try await group.next()
      #expect(try summary(told ?? []) == "1 Z ann t1")
      return emptied
    }
    #expect(emptied == [])
    await world.stop()
  }

  @Test func `another installation's token is no courier`() async throws {
    let world = try await NotifierWorld()
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    let token = CourierToken(
      container: container, environment: .development, userRecordName: "ann", clientID: "c", grant: "token-ann",
      expiry: .max)
    let forged = token.text(signedWith: [UInt8](repeating: 1, count: 32))
    #expect(try await world.client.send("GET", "\(world.url)/courier/1/\(forged)").status == 404)
    #expect(try await world.metric("aquifer_held_connections{kind=\"courier\"}") == 0)
    await world.stop()
  }

  @Test func `a disabled user's courier is gone`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.1"])
    let url = try world.courierURL("ann")
    #expect(try await world.client.send("GET", url).status == 200)
    world.directory.revoke("token-ann")
    try await world.announceCredentials()
    let answer = try await world.client.send("GET", url)
    #expect(answer.status == 404)
    #expect(answer["access-control-allow-origin"] == "*")
    await world.stop()
  }

  @Test func `a courier that is polled again and again ends with its time, too`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.1"])
    var statuses: [Int] = []
    // On a busy machine the first poll may take the whole time; the next courier then has longer.
    for span in [1500, 6000, 24_000] as [Int64] where statuses.count < 2 {
      let expiry = SystemClock().now + span
      let url = try world.courierURL("ann", expiry: expiry)
      statuses = []
      while statuses.last != 404 {
        let sent = SystemClock().now
        statuses.append(try await world.client.send("GET", url).status)
        if statuses.last == 200 { #expect(sent < expiry) } else { #expect(SystemClock().now >= expiry) }
      }
    }
    #expect(statuses.count > 1)
    await world.stop()
  }

  @Test func `a courier ends with its time, and with its credentials even under a poll that is held`() async throws {
    let world = try await NotifierWorld()
    #expect(try await world.client.send("GET", try world.courierURL("ann", expiry: 1)).status == 404)
    let url = try world.courierURL("ann")
    let held = Task { try await world.client.send("GET", url, timeout: .seconds(90)) }
    try await couriers(world, 1)
    world.directory.revoke("token-ann")
    try await world.announceCredentials()
    // The push ends the poll, but its content is not delivered.
    try await world.push(owner: "ann", zone: "Secret")
    let answer = try await held.value
    #expect(answer.status == 404)
    #expect(!String(decoding: answer.body, as: UTF8.self).contains("Secret"))
    await world.stop()
  }

  @Test func `a courier that is being forgotten is made anew by a poll that comes at that moment`() async throws {
    let start = ContinuousClock.now
    let courier = Courier(metrics: NotifierMetrics(Metrics()), now: start)
    #expect(!courier.retire(ifIdleSince: start))
    #expect(courier.retire(ifIdleSince: start + .seconds(1)))
    // The notifier makes another courier for this poll; at this one it would wait in vain.
    guard case .retired = await courier.poll(now: start + .seconds(2), until: start + .seconds(60)) else {
      Issue.record("a poll went to a courier that was forgotten")
      return
    }
    #expect(!courier.touch(now: start + .seconds(2)))
    let other = Courier(metrics: NotifierMetrics(Metrics()), now: start)
    #expect(other.touch(now: start + .seconds(2)))
    #expect(!other.retire(ifIdleSince: start + .seconds(1)), "somebody has to do with it")
  }

  @Test func `polls are answered in their time while the directory takes its own over the streams' users`() async throws
  {
    let world = try await NotifierWorld(["--courier-hold=0.3"]) { $0.directoryCall = .seconds(60) }
    let stream = try await world.listen("ann")
    let url = try world.courierURL("bob")
    let (obstacle, continuation) = AsyncStream.makeStream(of: Never.self)
    world.directory.hold(until: obstacle)
    let asked = world.directory.askedCount
    try await world.announceCredentials()
    #expect(try await world.eventually { world.directory.askedCount > asked })
    #expect(try await world.client.send("GET", url, timeout: .seconds(20)).status == 200)
    continuation.finish()
    try await world.push(owner: "ann")
    #expect(try await stream.ping() == "1 Z ann t1")
    await world.stop()
  }

  @Test func `a user has so many streams and no more`() async throws {
    let world = try await NotifierWorld(["--user-devices=2"])
    var streams = [try await world.listen("ann"), try await world.listen("ann")]
    #expect(try await world.client.send("GET", world.pingsURL("ann")).status == 429)
    _ = try await world.listen("bob")
    streams.removeLast()
    #expect(try await world.eventually { try await world.metric(#"aquifer_held_connections{kind="events"}"#) == 1 })
    streams.append(try await world.listen("ann"))
    await world.stop()
  }

  @Test func `a user has so many couriers and no more, whatever names his clients give themselves`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.1", "--user-devices=2"])
    for name in ["a", "b", "a"] {
      #expect(try await world.client.send("GET", world.courierURL("ann", clientID: name)).status == 200)
    }
    let answer = try await world.client.send("GET", world.courierURL("ann", clientID: "c"))
    #expect(answer.status == 429)
    #expect(answer["retry-after"] == "60")
    #expect(try await world.client.send("GET", world.courierURL("bob", clientID: "c")).status == 200)
    await world.stop()
  }

  @Test
  func
    `a notification whose client hung up before the answer waits for the next poll, and a later one supersedes it`()
    async throws
  {
    let start = ContinuousClock.now
    let courier = Courier(metrics: NotifierMetrics(Metrics()), now: start)
    func poll() async -> Ping? {
      guard case .notification(let ping) = await courier.poll(now: start, until: start) else { return nil }
      return ping
    }
    let database = DatabaseID(
      container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: "ann")
    func ping(_ sequence: Int64) -> Ping {
      Ping(
        ZoneChange(
          database: database, zoneName: "Z", sequence: sequence, syncToken: "t", originStore: nil, audience: ["ann"]),
        as: .private, notificationID: "n")
    }
    courier.put(ping(1))
    let lost = try #require(await poll())
    // From here on polls are answered at once.
    courier.release()
    courier.takeBack(lost)
    #expect(await poll()?.sequence == 1)
    courier.put(ping(1))
    courier.put(ping(2))
    courier.takeBack(lost)
    #expect(await poll()?.sequence == 2)
    courier.takeBack(lost)
    #expect(await poll() == nil, "it had a later one")
  }

  @Test func `a hang-up takes the poll back, and the next one hears what came meanwhile`() async throws {
    let world = try await NotifierWorld()
    let url = try world.courierURL("ann")
    let lost = poll(world, url)
    try await couriers(world, 1)
    lost.cancel()
    _ = await lost.result
    let next = poll(world, url)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    try await world.push(owner: "ann", zone: "B", sequence: 1)
    let first = try summary(try await next.value)
    // A's ping may have gone to the breaking connection; a later one never does.
    #expect(first == "1 A ann t1" || first == "1 B ann t1")
    await world.stop()
  }
}
