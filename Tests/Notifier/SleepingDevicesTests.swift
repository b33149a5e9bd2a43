// Sleeping devices behind a real notifier: what wakes whom, and what ends a registration.

import HTTPServer
import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Notifier

@Suite struct SleepingDevicesTests {
  private let vendor = ForgedVendor()

  /// A notifier that may call this machine, without a pause between pushes.
  private func world() async throws -> (NotifierWorld, url: String, server: HTTPServer) {
    let server = try HTTPServer(handler: vendor)
    let world = try await NotifierWorld(["--push-private-addresses"]) { limits in
      limits.pushes.interval = .milliseconds(1)
      limits.pushes.firstPause = .milliseconds(1)
      limits.pushes.longestPause = .milliseconds(20)
    }
    return (world, "http://127.0.0.1:\(server.port)", server)
  }

  private func known(_ world: NotifierWorld, _ count: Int) async throws {
    try await world.tell(PushRegistrationsChanged())
    #expect(try await world.eventually { try await world.metric("aquifer_push_registrations") == count })
  }

  /// The next push's path and content.
  private func next(_ world: NotifierWorld) async throws -> (path: String, met: String) {
    var found: [ForgedVendor.Request] = []
    #expect(
      try await world.eventually {
        found += vendor.take()
        return !found.isEmpty
      })
    let first = try #require(found.first)
    #expect(found.count == 1)
    return (first.path, try summary(first.body))
  }

  @Test func `a change wakes the devices of its users, and not the device that made it`() async throws {
    let (world, url, server) = try await world()
    defer { server.stop() }
    try world.pushes.add("ann", url + "/phone", device: "phone")
    try world.pushes.add("bob", url + "/bob")
    try await known(world, 2)
    try await world.push(owner: "ann", zone: "Trips", sequence: 4, origin: "phone", audience: ["ann", "bob"])
    #expect(try await next(world) == ("/bob", "2 Trips ann t4"))
    try await world.push(owner: "ann", zone: "Trips", sequence: 5, origin: "laptop")
    #expect(try await next(world) == ("/phone", "1 Trips ann t5"))
    try await world.push(owner: "eve", zone: "Trips", sequence: 6)
    try await world.push(owner: "ann", zone: "Other", sequence: 1)
    #expect(try await next(world) == ("/phone", "1 Other ann t1"))
    let delivered = #"aquifer_pushes_total{service="servers",outcome="delivered"}"#
    #expect(try await world.eventually { try await world.metric(delivered) == 3 })
    await world.stop()
  }

  @Test func `where subscriptions are, a device that has not asked for every zone is woken by them alone`() async throws
  {
    let (world, url, server) = try await world()
    defer { server.stop() }
    try world.pushes.add("ann", url + "/some", device: "some", hearsEveryZone: false)
    try world.pushes.add("ann", url + "/every", device: "every")
    try await known(world, 2)
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: "ann"),
      zoneName: "Trips", sequence: 4, syncToken: "t4", originStore: nil, audience: ["ann"], hasSubscriptions: true)
    try await world.push([change])
    #expect(try await next(world) == ("/every", "1 Trips ann t4"))
    try await world.tell(
      PushNotifications(notifications: [
        try NotifierWorld.notification("1"), try NotifierWorld.notification("2", user: "bob"),
      ]))
    var heard: [String: Int] = [:]
    #expect(
      try await world.eventually {
        for request in vendor.take() {
          let nid = try JSONValue(parsing: request.body)["ck"]?["nid"]?.string
          heard["\(request.path) \(nid ?? "")", default: 0] += 1
        }
        return heard.count == 2
      })
    #expect(heard == ["/some 1": 1, "/every 1": 1])
    await world.stop()
  }

  @Test func `a registration whose credentials ended wakes nobody, and is ended in the directory`() async throws {
    let (world, url, server) = try await world()
    defer { server.stop() }
    let ann = try world.pushes.add("ann", url + "/ann")
    try world.pushes.add("bob", url + "/bob")
    try await known(world, 2)
    world.directory.revoke("token-ann")
    try await world.announceCredentials()
    try await world.push(owner: "ann", zone: "A", sequence: 1, audience: ["ann", "bob"])
    #expect(try await next(world).path == "/bob")
    #expect(try await world.eventually { world.pushes.ended == [.init(id: ann.id, revision: ann.revision)] })
    #expect(try await world.eventually { try await world.metric("aquifer_push_registrations") == 1 })
    await world.stop()
  }

  @Test func `a device that the vendor no longer knows is ended, and a vendor that fails is tried again`() async throws
  {
    let (world, url, server) = try await world()
    defer { server.stop() }
    let ann = try world.pushes.add("ann", url + "/ann")
    try await known(world, 1)
    vendor.answer(503)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    #expect(try await next(world).met == "1 A ann t1")
    try await world.push(owner: "ann", zone: "A", sequence: 2)
    vendor.answer(410)
    #expect(try await world.eventually { world.pushes.ended == [.init(id: ann.id, revision: ann.revision)] })
    #expect(try await world.eventually { try await world.metric("aquifer_push_registrations") == 0 })
    await world.stop()
  }

  @Test func `a user's address that fails delays no other user's pushes to its host, even if it asks for an hour`()
    async throws
  {
    let (world, url, server) = try await world()
    defer { server.stop() }
    for user in ["ann", "bob"] { try world.pushes.add(user, "\(url)/\(user)") }
    try await known(world, 2)
    vendor.answer(503, headers: [("Retry-After", "3600")], at: "/ann")
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    #expect(try await next(world).path == "/ann")
    let later = #"aquifer_pushes_total{service="servers",outcome="later"}"#
    #expect(try await world.eventually { try await world.metric(later) == 1 })
    for zone in ["B", "C", "D"] {
      try await world.push(owner: "bob", zone: zone, sequence: 1)
      #expect(try await next(world) == ("/bob", "1 \(zone) bob t1"))
    }
    await world.stop()
  }

  @Test func `the share service hears what became of a device's pushes`() async throws {
    let (world, url, server) = try await world()
    defer { server.stop() }
    let ann = try world.pushes.add("ann", url + "/ann")
    try await known(world, 1)
    vendor.answer(400)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    _ = try await next(world)
    vendor.answer(200)
    try await world.push(owner: "ann", zone: "B", sequence: 2)
    _ = try await next(world)
    let question = FetchPushRecords(registrations: [ann.id, 99])
    #expect(
      try await world.eventually {
        let row = try JSONValue(parsing: try await world.ask(question))["pushes"]?.elements.first
        return row?["registration"]?.int64 == ann.id && row?["delivered"]?.int64 == 1 && row?["failed"]?.int64 == 1
          && row?["lastFailure"]?.string == "status 400" && row?["lastPush"] != nil
      })
    world.pushes.removeRegistrations()
    try await known(world, 0)
    #expect(try JSONValue(parsing: try await world.ask(question))["pushes"]?.count == 0)
    await world.stop()
  }

  @Test func `of several notifiers one wakes a device`() async throws {
    let (world, url, server) = try await world()
    defer { server.stop() }
    for number in 0..<40 { try world.pushes.add("ann", "\(url)/\(number)", device: "d\(number)") }
    try await known(world, 40)
    let other = world.join("notifier-other", .notifier, BusHandlers())
    await other.waitForPeers { !$0.isEmpty }
    let name = world.running.bus.own.name
    var (mine, others) = (PushRoster(name: name), PushRoster(name: "notifier-other"))
    for roster in [0, 1] {
      let page = world.pushes.page(after: 0)
      if roster == 0 { _ = (mine.follow(["notifier-other"]), mine.apply(page)) }
      if roster == 1 { _ = (others.follow([name]), others.apply(page)) }
    }
    let own = Set((1...40).filter { [mine] in mine.isOwn(Int64($0)) })
    let theirs = Set((1...40).filter { [others] in others.isOwn(Int64($0)) })
    #expect(own.isDisjoint(with: theirs) && own.union(theirs).count == 40)
    #expect((10...30).contains(own.count), "\(own.count) of 40")
    // The notifier hears of the other one behind the test's back.
    var paths: Set<String> = []
    #expect(
      try await world.eventually {
        paths = []
        let zone = "Z\(UInt32.random(in: 0 ... .max))"
        try await world.push(owner: "ann", zone: zone, sequence: 1)
        _ = try await world.eventually {
          paths.formUnion(vendor.take().map(\.path))
          return paths.count >= own.count
        }
        return paths.count == own.count
      })
    #expect(paths == Set(own.map { "/\($0 - 1)" }))
    other.close()
    await world.stop()
  }

  @Test func `only a change of the notifiers ranks registrations, each of them once`() throws {
    let book = PushBook()
    for number in 0..<40 { try book.add("ann", "https://push.example.org/\(number)", device: "d\(number)") }
    let ranked = Mutex<[Int64: Int]>([:])
    var roster = PushRoster(name: "a") { name, id in
      ranked.withLock { $0[id, default: 0] += 1 }
      return PushRoster.rank(name, id)
    }
    _ = roster.apply(book.page(after: 0))
    let first = roster.follow(["c", "b"])
    #expect(first.begun.isEmpty && (10...35).contains(first.ended.count))
    let counts = ranked.withLock(\.self)
    #expect(counts.count == 40 && counts.values.allSatisfy { $0 <= 3 }, "\(counts)")
    #expect(roster.follow(["b", "c"]) == PushRoster.Change())
    #expect(ranked.withLock { $0 == counts })
    let alone = roster.follow([])
    #expect(alone.begun == first.ended && alone.ended.isEmpty)
    #expect(ranked.withLock { $0 == counts })
  }

  @Test func `without a service of its kind a device is not woken`() async throws {
    let (world, url, server) = try await world()
    defer { server.stop() }
    try world.pushes.add("ann", url + "/ann")
    try await known(world, 1)
    world.pushes.removeServices()
    try await world.announceCredentials()
    try world.pushes.add("bob", url + "/bob")
    try await known(world, 2)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    #expect(try await world.metric("aquifer_pushes_waiting") == 0 && vendor.take().isEmpty)
    await world.stop()
  }

  @Test func `registrations of a directory from an earlier backup replace all others`() async throws {
    let (world, url, server) = try await world()
    defer { server.stop() }
    for user in ["ann", "bob", "eve"] { try world.pushes.add(user, url + "/\(user)") }
    try await known(world, 3)
    world.pushes.removeRegistrations()
    try world.pushes.add("ann", url + "/again")
    try await known(world, 1)
    try await world.push(owner: "ann", zone: "A", sequence: 1, audience: ["ann", "bob"])
    #expect(try await next(world).path == "/again")
    await world.stop()
  }

  @Test func `a notifier does not call machines of its own network unless the operator allows it`() async throws {
    let server = try HTTPServer(handler: vendor)
    defer { server.stop() }
    let world = try await NotifierWorld { limits in
      (limits.pushes.firstPause, limits.pushes.longestPause) = (.milliseconds(1), .milliseconds(1))
    }
    try world.pushes.add("ann", "http://127.0.0.1:\(server.port)/ann")
    try await known(world, 1)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    #expect(try await world.eventually { try await world.metric("aquifer_pushes_dropped_total") == 1 })
    #expect(vendor.take().isEmpty)
    await world.stop()
  }
}

extension PushRoster {
  /// Takes over the share that this notifier has among others.
  fileprivate mutating func follow(_ others: [String]) -> Change {
    guard var share = newShare(with: others) else { return Change() }
    for id in unranked(in: share) { share.rank(id) }
    return adopt(share)
  }
}
