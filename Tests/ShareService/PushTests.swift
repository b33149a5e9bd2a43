// Push services and registrations of devices in the directory.

import Crypto
import JSON
import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct PushTests {
  private static func world() async throws -> (World, user: String) {
    let world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#)
    return (world, try await world.user("ada").recordName)
  }

  private static func message(_ user: String, _ url: String = "https://a.example/1", client: String = "phone")
    -> RegisterForPush
  {
    message(user, .webhook(url: url, secret: "a secret of sixteen"), client: client)
  }

  private static func message(
    _ user: String, _ address: PushAddress, client: String = "phone",
    environment: Records.Environment = .development
  ) -> RegisterForPush {
    RegisterForPush(
      device: RegisterForPush.Device(
        container: World.container, environment: environment, userRecordName: user, clientID: client, grant: ":t00"),
      address: address, hearsEveryZone: false)
  }

  @Test func `a registration is durable, and notifiers read it by its revision`() async throws {
    let (world, user) = try await Self.world()
    #expect(try await world.service.directory.registerForPush(Self.message(user)).isServed)
    let restarted = try await world.restarted()
    let page = try await restarted.service.directory.pushRegistrations(after: 0)
    let found = try #require(page.registrations.first)
    #expect(page.registrations.count == 1 && page.isLast && !page.isFromStart && page.revision == found.revision)
    #expect(found.device == Self.message(user).device && found.address == Self.message(user).address)
    let later = try await restarted.service.directory.pushRegistrations(after: page.revision)
    #expect(later.registrations.isEmpty && later.ended.isEmpty && later.revision == page.revision)
  }

  @Test func `registering again changes nothing, and a changed client takes the place of the earlier`() async throws {
    let (world, user) = try await Self.world()
    let directory = world.service.directory
    for isChanged in [true, false] {
      #expect(try await directory.registerForPush(Self.message(user)).isChanged == isChanged)
    }
    let first = try await directory.pushRegistrations(after: 0)
    #expect(first.registrations.count == 1)
    #expect(try await directory.registerForPush(Self.message(user, client: "phone again")).isServed)
    let second = try await directory.pushRegistrations(after: first.revision)
    #expect(second.registrations.map(\.device.clientID) == ["phone again"])
    #expect(second.registrations.map(\.id) == first.registrations.map(\.id))
  }

  private static func browser(_ key: UInt8 = 4, _ secret: UInt8 = 5) -> PushAddress {
    .web(
      endpoint: "https://push.example/1", receiverKey: Array(repeating: key, count: 65),
      secret: Array(repeating: secret, count: 16))
  }

  /// A world with services for devices of two users.
  private static func worldOfDevices() async throws -> (World, ada: String, bob: String) {
    let (world, ada) = try await Self.world()
    let kinds: [PushServiceEntry.Kind] = [
      .apns(teamID: "t", keyID: "k", privateKey: "", topic: "o", url: nil),
      .webPush(contact: "mailto:ops@example.org", privateKey: []),
    ]
    for (number, kind) in kinds.enumerated() {
      try await world.service.directory.addPushService(
        PushServiceEntry(name: "devices-\(number)", container: nil, kind: kind))
    }
    return (world, ada, try await world.user("bob").recordName)
  }

  @Test(arguments: [.apns(deviceToken: "00ff", isSandbox: true), PushTests.browser()] as [PushAddress])
  func `a device is woken for the user who registered it last`(_ address: PushAddress) async throws {
    let (world, ada, bob) = try await Self.worldOfDevices()
    let directory = world.service.directory
    #expect(try await directory.registerForPush(Self.message(ada, address)).isChanged)
    var page = try await directory.pushRegistrations(after: 0)
    for user in [bob, ada] {
      let former = page.registrations.map(\.id)
      #expect(try await directory.registerForPush(Self.message(user, address)).isChanged)
      page = try await directory.pushRegistrations(after: page.revision)
      #expect(page.ended == former && former.count == 1)
      #expect(page.registrations.map(\.device.userRecordName) == [user])
    }
    #expect(try await !directory.registerForPush(Self.message(ada, address)).isChanged)
  }

  @Test(
    arguments: [
      (PushTests.browser(), PushTests.browser(6), .development),
      (PushTests.browser(), PushTests.browser(4, 6), .development),
      (PushTests.browser(), PushTests.browser(), .production),
      (.apns(deviceToken: "00ff", isSandbox: true), .apns(deviceToken: "00fe", isSandbox: true), .development),
    ] as [(PushAddress, PushAddress, Records.Environment)])
  func `a device with another token or other keys, or in another environment, is another one`(
    _ one: PushAddress, _ other: PushAddress, in environment: Records.Environment
  ) async throws {
    let (world, ada, bob) = try await Self.worldOfDevices()
    let directory = world.service.directory
    for message in [Self.message(ada, one), Self.message(bob, other, environment: environment)] {
      #expect(try await directory.registerForPush(message).isChanged)
    }
    let page = try await directory.pushRegistrations(after: 0)
    #expect(page.registrations.map(\.device.userRecordName) == [ada, bob] && page.ended.isEmpty)
  }

  @Test func `a server of two users is called for both, and each ends their own registration only`() async throws {
    let (world, ada) = try await Self.world()
    let bob = try await world.user("bob").recordName
    let directory = world.service.directory
    for user in [ada, bob] { #expect(try await directory.registerForPush(Self.message(user)).isServed) }
    let page = try await directory.pushRegistrations(after: 0)
    #expect(page.registrations.map(\.device.userRecordName) == [ada, bob])
    try await directory.unregisterFromPush(
      UnregisterFromPush(
        container: World.container, environment: .development, userRecordName: bob,
        target: Self.message(bob).address.target))
    let end = try await directory.pushRegistrations(after: page.revision)
    #expect(end.ended == [page.registrations[1].id] && end.registrations.isEmpty)
    // Repeating it changes nothing.
    try await directory.unregisterFromPush(
      UnregisterFromPush(
        container: World.container, environment: .development, userRecordName: bob,
        target: Self.message(bob).address.target))
    #expect(try await directory.pushRegistrations(after: end.revision).ended.isEmpty)
    #expect(try await directory.registerForPush(Self.message(bob)).isServed)
    #expect(try await directory.pushRegistrations(after: end.revision).registrations.count == 1)
  }

  @Test func `a notifier's end counts only for the registration that it knows`() async throws {
    let (world, user) = try await Self.world()
    let directory = world.service.directory
    _ = try await directory.registerForPush(Self.message(user))
    let old = try #require(try await directory.pushRegistrations(after: 0).registrations.first)
    _ = try await directory.registerForPush(Self.message(user, client: "renewed"))
    let late = EndPushRegistrations(registrations: [.init(id: old.id, revision: old.revision)])
    try await directory.endPushRegistrations(late)
    let new = try #require(try await directory.pushRegistrations(after: 0).registrations.first)
    #expect(new.device.clientID == "renewed")
    try await directory.endPushRegistrations(
      EndPushRegistrations(registrations: [.init(id: new.id, revision: new.revision)]))
    #expect(try await directory.pushRegistrations(after: new.revision).ended == [new.id])
  }

  @Test func `a user has a bounded number of registrations, and the one renewed least recently makes room`()
    async throws
  {
    let (world, user) = try await Self.world()
    let directory = world.service.directory
    for number in 0...Directory.pushRegistrationsPerUser {
      _ = try await directory.registerForPush(Self.message(user, "https://a.example/\(number)"))
    }
    let page = try await directory.pushRegistrations(after: 0)
    #expect(page.registrations.count == Directory.pushRegistrationsPerUser && page.ended.count == 1)
    #expect(!page.registrations.contains { $0.address == Self.message(user, "https://a.example/0").address })
  }

  @Test func `a directory from an earlier backup is read from its start`() async throws {
    let (world, user) = try await Self.world()
    _ = try await world.service.directory.registerForPush(Self.message(user))
    let page = try await world.service.directory.pushRegistrations(after: 1_000_000)
    #expect(page.isFromStart && page.registrations.count == 1)
  }

  @Test func `registrations end with their user or their container, and notifiers hear of it`() async throws {
    let (world, ada) = try await Self.world()
    let bob = try await world.user("bob").recordName
    let directory = world.service.directory
    for user in [ada, bob] { #expect(try await directory.registerForPush(Self.message(user)).isServed) }
    let page = try await directory.pushRegistrations(after: 0)
    let ids = page.registrations.map(\.id)
    try await world.ok("DELETE", "/admin/1/users/ada")
    let first = try await directory.pushRegistrations(after: page.revision)
    #expect(first.ended == [ids[0]] && first.registrations.isEmpty && !first.isFromStart)
    #expect(try await directory.registerForPush(Self.message(bob, "https://b.example/2")).isServed)
    let second = try await directory.pushRegistrations(after: first.revision)
    #expect(second.registrations.count == 1 && !ids.contains(second.registrations[0].id), "no identifier is used twice")
    try await world.ok("DELETE", "/admin/1/containers/\(World.container.rawValue)")
    let third = try await world.restarted().service.directory.pushRegistrations(after: second.revision)
    #expect(third.ended == [ids[1], second.registrations[0].id] && third.isLast)
  }

  @Test func `notifiers hear of an end for thirty days`() async throws {
    let (world, user) = try await Self.world()
    let directory = world.service.directory
    for number in 1...3 {
      _ = try await directory.registerForPush(Self.message(user, "https://a.example/\(number)"))
    }
    let ids = try await directory.pushRegistrations(after: 0).registrations.map(\.id)
    try await directory.endPushRegistration(named: ids[0])
    world.clock.advance(by: 30 * 86_400_000 - 60_000)
    try await directory.endPushRegistration(named: ids[1])
    #expect(try await directory.pushRegistrations(after: 0).ended == [ids[0], ids[1]])
    world.clock.advance(by: 120_000)
    try await directory.endPushRegistration(named: ids[2])
    #expect(try await directory.pushRegistrations(after: 0).ended == [ids[1], ids[2]])
  }

  @Test(.tags(.sqliteFile))
  func `an API token's end, a user's list, and a device's new user read no registrations of others`() async throws {
    let (world, _) = try await Self.world()
    await world.service.close()
    let connection = try Connection(exclusive: world.folder.path + "/directory.sqlite", mode: .readWrite)
    for (query, index) in [
      (Directory.registrationsOfAPIToken, "pushRegistrationGrant (grantText>? AND grantText<?)"),
      (Directory.registrationsOfUser, "pushRegistration_2 (user=?)"),
      (Directory.othersOfTarget, "pushRegistrationTarget (target=?)"),
    ] {
      let explain = SQL("plan \(query.name)", "EXPLAIN QUERY PLAN " + query.text)
      let plan = try connection.prepare(explain).all { $0.text(3) }
      #expect(plan.contains { $0.contains(index) }, "\(plan)")
      #expect(!plan.contains { $0.hasPrefix("SCAN") }, "\(plan)")
    }
  }

  @Test func `a list of registrations has those of the asked user and container alone`() async throws {
    let (world, ada) = try await Self.world()
    let bob = try await world.user("bob").recordName
    let directory = world.service.directory
    for user in [ada, bob] { #expect(try await directory.registerForPush(Self.message(user)).isServed) }
    for number in 1...2 { _ = try await directory.registerForPush(Self.message(ada, "https://b.example/\(number)")) }
    let other = try #require(ContainerID(rawValue: "iCloud.other"))
    for name in ["ada", ada] {
      let rows = try await directory.pushRegistrations(of: World.container, ofUser: name)
      #expect(rows.map(\.userName) == ["ada", "ada", "ada"])
      #expect(rows.map(\.registration.revision) == rows.map(\.registration.revision).sorted(by: >))
      #expect(try await directory.pushRegistrations(of: other, ofUser: name).isEmpty)
    }
    #expect(try await directory.pushRegistrations(of: nil, ofUser: "nobody").isEmpty)
    #expect(try await directory.pushRegistrations(of: World.container, ofUser: nil).count == 4)
  }

  @Test func `an operator sees registrations without their secrets, and ends them`() async throws {
    let (world, user) = try await Self.world()
    _ = try await world.service.directory.registerForPush(Self.message(user))
    let listed = try await world.ok("GET", "/admin/1/registrations", query: ["user": "ada"])
    #expect(listed["registrations"]?.elements.map { $0["address"]?.string } == ["webhook a.example"])
    #expect(!String(describing: listed).contains("sixteen"))
    try await world.ok("DELETE", "/admin/1/registrations/\(listed["registrations"]?.elements[0]["id"]?.int64 ?? 0)")
    #expect(try await world.ok("GET", "/admin/1/registrations")["registrations"]?.elements.isEmpty == true)
    try await world.refused("DELETE", "/admin/1/registrations/77", status: 404)
    try await world.refused("DELETE", "/admin/1/registrations/x", status: 400)
  }

  @Test func `an operator sees what the notifiers tell of the pushes, and since when`() async throws {
    let (world, user) = try await Self.world()
    _ = try await world.service.directory.registerForPush(Self.message(user))
    let before = try await world.ok("GET", "/admin/1/registrations")
    #expect(before["countedSince"] == nil && before["silent"]?.count == 0)
    let id = try #require(before["registrations"]?.elements.first?["id"]?.int64)
    let reports = try [
      ("notifier-1", #"{"since":5,"pushes":[{"registration":\#(id),"lastPush":20,"delivered":2,"failed":1}]}"#),
      ("notifier-2", #"{"since":9,"pushes":[{"registration":\#(id),"delivered":0,"failed":7,"lastFailure":"x"}]}"#),
      ("notifier-3", nil),
    ].map { name, text in
      ProcessReport(
        peer: Peer(name: name, role: .notifier, incarnation: 1, endpoint: "ipc://x", isReady: true),
        content: try text.map { try JSONValue(parsing: Array($0.utf8)) })
    }
    var operators = world.operators
    operators.pushRecords = { ids in ids == [id] ? PushRecordList(reports) : PushRecordList() }
    let answer = await operators.answer(
      OperatorRequest(method: "GET", path: ["admin", "1", "registrations"], query: [:], member: nil), body: [])
    let listed = try JSONValue(parsing: answer.body)
    let row = try #require(listed["registrations"]?.elements.first)
    #expect(row["lastPush"]?.int64 == 20 && row["delivered"]?.int64 == 2 && row["failed"]?.int64 == 1)
    #expect(row["lastFailure"] == nil, "the notifier that wakes the device now knows best")
    #expect(listed["countedSince"]?.int64 == 9 && listed["silent"]?.elements.map(\.string) == ["notifier-3"])
  }

  @Test func `nothing is registered where no service wakes such a device`() async throws {
    let (world, user) = try await Self.world()
    let other = RegisterForPush(
      device: Self.message(user).device, address: .apns(deviceToken: "00ff", isSandbox: true), hearsEveryZone: true)
    #expect(try await !world.service.directory.registerForPush(other).isServed)
    #expect(try await world.service.directory.pushRegistrations(after: 0).registrations.isEmpty)
    try await world.ok("DELETE", "/admin/1/push-services/servers")
    #expect(try await !world.service.directory.registerForPush(Self.message(user)).isServed)
  }

  @Test func `Web Push has a key that stays, or the one that the operator brings`() async throws {
    let (world, _) = try await Self.world()
    #expect(try await world.service.directory.applicationServerKey(of: World.container) == nil)
    let added = try await world.ok(
      "POST", "/admin/1/push-services", #"{"name":"browsers","kind":"web","contact":"mailto:ops@example.org"}"#)
    let key = try #require(added["applicationServerKey"]?.string)
    #expect(Base64URL.decode(key)?.count == 65)
    let restarted = try await world.restarted()
    let known = try await restarted.service.directory.applicationServerKey(of: World.container)
    #expect(known.map { Base64URL.encode($0) } == key)
    let own = P256PrivateKey.make()
    try await restarted.ok(
      "POST", "/admin/1/push-services",
      """
      {"name":"own","kind":"web","contact":"https://example.org","container":"\(World.container.rawValue)",\
      "privateKey":"\(Base64URL.encode(own.scalar))"}
      """)
    #expect(
      try await restarted.service.directory.applicationServerKey(of: World.container) == own.publicPoint,
      "a container's own service goes before that of all")
  }

  @Test func `a service's secrets are never shown, and its settings are checked`() async throws {
    let (world, _) = try await Self.world()
    _ = world.published.take()
    let bad: [(String, String)] = [
      (#"{"name":"A b","kind":"webhook"}"#, "'name'"), (#"{"name":"a"}"#, "'kind'"),
      (#"{"name":"a","kind":"fax"}"#, "'kind'"), (#"{"name":"a","kind":"web"}"#, "'contact'"),
      (#"{"name":"a","kind":"web","contact":"ops@example.org"}"#, "'contact'"),
      (#"{"name":"a","kind":"web","contact":"mailto:o@example.org","privateKey":"AAAA"}"#, "'privateKey'"),
      (#"{"name":"a","kind":"apns","teamID":"t","keyID":"k","topic":"o"}"#, "'privateKey'"),
      (#"{"name":"a","kind":"apns","teamID":"t","keyID":"k","topic":"o","privateKey":"x"}"#, "'privateKey'"),
      (#"{"name":"a","kind":"webhook","x":1}"#, "'x'"),
    ]
    for (body, word) in bad {
      let refusal = try await world.refused("POST", "/admin/1/push-services", body, status: 400)
      #expect(refusal["reason"]?.string?.contains(word) == true, "\(body): \(refusal["reason"]?.string ?? "")")
    }
    try await world.refused("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#, status: 409)
    try await world.refused(
      "POST", "/admin/1/push-services", #"{"name":"a","kind":"webhook","container":"iCloud.absent"}"#, status: 404)
    try await world.refused("DELETE", "/admin/1/push-services/absent", status: 404)
    try await world.ok("DELETE", "/admin/1/push-services/servers")
    #expect(world.published.take().count == 1, "peers are told of each change")
  }
}
