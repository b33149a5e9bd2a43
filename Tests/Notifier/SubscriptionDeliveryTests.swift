// Subscriptions' notifications to couriers and streams: queues between polls, originators, repetitions, several
// notifiers.

import HTTPClient
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Notifier

extension NotifierWorld {
  static func notification(
    _ identifier: String, user: String = "ann", zone: String? = nil, sequence: Int64 = 1, origin: String? = nil,
    subscription: String = "s",
    container: String = "iCloud.a"
  ) throws -> SubscriptionNotification {
    SubscriptionNotification(
      container: try #require(ContainerID(rawValue: container)), environment: .development, userRecordName: user,
      subscriptionID: subscription, scope: .private,
      zone: zone.map { Zone.ID(zoneName: $0, ownerName: user) }, sequence: sequence, originDevice: origin,
      notificationID: identifier,
      json: Array(#"{"ck":{"nid":"\#(identifier)"}}"#.utf8))
  }

  func token(_ user: String, clientID: String) throws -> String {
    let token = CourierToken(
      container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, userRecordName: user,
      clientID: clientID,
      grant: "token-" + user, expiry: .max)
    return token.text(signedWith: Self.key)
  }

  /// Acts like a gateway for `tokens/create` and `tokens/register`.
  @discardableResult func open(
    _ user: String, clientID: String = "client", container: String = "iCloud.a", registering: String? = nil,
    grant: String? = nil
  ) async throws
    -> Bool
  {
    try await tell(
      OpenCourier(
        courier: try token(user, clientID: clientID), container: try #require(ContainerID(rawValue: container)),
        environment: .development,
        clientID: registering ?? clientID, grant: grant)
    ).isOpen
  }

  /// The `nid` of a poll's notification; empty without one.
  func poll(_ user: String, clientID: String = "client") async throws -> String {
    let answer = try await client.send("GET", try courierURL(user, clientID: clientID), timeout: .seconds(90))
    #expect(answer.status == 200)
    return answer.body.isEmpty ? "" : try JSONValue(parsing: answer.body)["ck"]?["nid"]?.string ?? "?"
  }
}

extension Events {
  /// The `nid` of the next notification; heartbeats are skipped.
  fileprivate func nid() async throws -> String? {
    while let event = try await next() {
      guard event.hasPrefix("data: ") else { continue }
      return try JSONValue(parsing: Array(event.dropFirst(6).utf8))["ck"]?["nid"]?.string
    }
    return nil
  }
}

struct SubscriptionDeliveryTests {
  @Test func `notifications before the first poll, and between two, are kept and delivered one by one`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    #expect(try await world.open("ann"))
    try await world.tell(
      PushNotifications(notifications: [
        try NotifierWorld.notification("1"), try NotifierWorld.notification("2", user: "bob"),
      ]))
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("3")]))
    #expect(try await world.poll("ann") == "1")
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("4")]))
    for expected in ["3", "4", ""] { #expect(try await world.poll("ann") == expected) }
    // Bob's courier did not exist at the time of the notification.
    #expect(try await world.poll("bob") == "")
    #expect(try await world.metric(#"aquifer_notifications_total{outcome="unheard"}"#) == 1)
    #expect(try await world.metric(#"aquifer_notifications_total{outcome="told"}"#) == 3)
    await world.stop()
  }

  @Test func `those of a zone merge by subscription and zone, those of records stand for themselves`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    try await world.tell(
      PushNotifications(notifications: [
        try NotifierWorld.notification("1", zone: "A", sequence: 1),
        try NotifierWorld.notification("2", zone: "B", sequence: 2),
        try NotifierWorld.notification("3", zone: "A", sequence: 3),
        try NotifierWorld.notification("4", zone: "A", sequence: 4, subscription: "t"),
        try NotifierWorld.notification("5"), try NotifierWorld.notification("6"),
      ]))
    for expected in ["3", "2", "4", "5", "6", ""] { #expect(try await world.poll("ann") == expected) }
    await world.stop()
  }

  @Test func `a push that is repeated tells nobody again`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    let stream = try await world.listen("ann")
    let push = PushNotifications(notifications: [
      try NotifierWorld.notification("1"), try NotifierWorld.notification("2", zone: "A"),
    ])
    try await world.tell(push)
    #expect(try await world.poll("ann") == "1")
    try await world.tell(push)
    for expected in ["2", ""] { #expect(try await world.poll("ann") == expected) }
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("3")]))
    for expected in ["1", "2", "3"] { #expect(try await stream.nid() == expected) }
    #expect(try await world.metric(#"aquifer_notifications_total{outcome="repeated"}"#) == 2)
    await world.stop()
  }

  @Test func `the device that made the change is told on no way of its own`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    // C1 and C2 have couriers of their own. The courier C3 serves two clients, C3 and C1.
    try await world.open("ann", clientID: "C1")
    try await world.open("ann", clientID: "C2")
    try await world.open("ann", clientID: "C3", registering: "C3")
    try await world.open("ann", clientID: "C3", registering: "C1")
    let own = try await world.listen("ann", devices: ["C1"])
    let other = try await world.listen("ann", devices: ["C9"])
    try await world.tell(
      PushNotifications(notifications: [
        try NotifierWorld.notification("1", origin: "C1"), try NotifierWorld.notification("2"),
      ]))
    for expected in ["2", ""] { #expect(try await world.poll("ann", clientID: "C1") == expected) }
    for expected in ["2", ""] { #expect(try await world.poll("ann", clientID: "C3") == expected) }
    for expected in ["1", "2", ""] { #expect(try await world.poll("ann", clientID: "C2") == expected) }
    #expect(try await own.nid() == "2")
    #expect(try await other.nid() == "1")
    await world.stop()
  }

  @Test func `a courier hears of another container as long as the credentials it was registered with there hold`()
    async throws
  {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    try await world.open("ann", container: "iCloud.b", grant: "token-ann")
    try await world.open("ann", container: "iCloud.c", grant: "a session that has ended")
    for (number, container) in ["iCloud.b", "iCloud.c", "iCloud.a"].enumerated() {
      try await world.tell(
        PushNotifications(notifications: [try NotifierWorld.notification("\(number)", container: container)]))
    }
    for expected in ["0", "2", ""] { #expect(try await world.poll("ann") == expected) }
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("3", container: "iCloud.c")]))
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("4", container: "iCloud.b")]))
    for expected in ["4", ""] { #expect(try await world.poll("ann") == expected) }
    await world.stop()
  }

  @Test func `a courier that is registered in another container hears of that one, too`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("1", container: "iCloud.b")]))
    try await world.open("ann", container: "iCloud.b")
    try await world.tell(
      PushNotifications(notifications: [
        try NotifierWorld.notification("2", container: "iCloud.b"), try NotifierWorld.notification("3"),
        try NotifierWorld.notification("4", user: "bob", container: "iCloud.b"),
      ]))
    for expected in ["2", "3", ""] { #expect(try await world.poll("ann") == expected) }
    await world.stop()
  }

  @Test func `where somebody subscribed, couriers get no ping for every zone, and streams still do`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    try await world.open("bob")
    let stream = try await world.listen("ann")
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    for (hasSubscriptions, sequence) in [(true, Int64(1)), (false, 2)] {
      try await world.push([
        ZoneChange(
          database: DatabaseID(container: container, environment: .development, owner: "ann"), zoneName: "Z",
          sequence: sequence, syncToken: "t\(sequence)",
          originStore: nil, audience: ["ann", "bob"], hasSubscriptions: hasSubscriptions)
      ])
      #expect(try await stream.ping() == "1 Z ann t\(sequence)")
    }
    let own = try await world.client.send("GET", try world.courierURL("ann"), timeout: .seconds(90)).body
    #expect(try summary(own) == "1 Z ann t2")
    // Bob gets a ping for the shared zone, because bob's subscriptions are not the owner's.
    let shared = try await world.client.send("GET", try world.courierURL("bob"), timeout: .seconds(90)).body
    #expect(try summary(shared) == "2 Z ann t2")
    await world.stop()
  }

  @Test
  func
    `pings that waited before a subscription give way to what it says, those of other databases don't`()
    async throws
  {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    try await world.push(owner: "ann", zone: "A")
    try await world.push(owner: "bob", zone: "Shared", audience: ["bob", "ann"])
    try await world.push(owner: DatabaseID.publicOwner, zone: "_defaultZone", audience: [])
    try await world.push(owner: "ann", zone: "B")
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("1")]))
    var told: [String] = []
    for _ in 0..<3 {
      let body = try await world.client.send("GET", try world.courierURL("ann"), timeout: .seconds(90)).body
      let met = try JSONValue(parsing: body)["ck"]?["met"]
      told.append(met?["zid"]?.string ?? "1")
    }
    #expect(told == ["Shared", "_defaultZone", "1"])
    #expect(try await world.poll("ann") == "")
    await world.stop()
  }

  @Test func `a queue is bounded, the oldest is forgotten and counted`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    try await world.tell(
      PushNotifications(notifications: try (0..<1003).map { try NotifierWorld.notification("\($0)") }))
    #expect(try await world.poll("ann") == "3")
    #expect(try await world.metric("aquifer_pings_dropped_total") == 3)
    await world.stop()
  }

  @Test func `a courier that no gateway made is not opened, and a user has so many couriers`() async throws {
    let world = try await NotifierWorld { $0.couriersPerUser = 2 }
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    await #expect(throws: BusError(.refused, "no courier has this token")) {
      _ = try await world.tell(
        OpenCourier(courier: "forged", container: container, environment: .development, clientID: "c"))
    }
    #expect(try await world.open("ann", clientID: "a"))
    #expect(try await world.open("ann", clientID: "b"))
    #expect(try await world.open("ann", clientID: "a"))
    #expect(try await !world.open("ann", clientID: "c"))
    #expect(try await world.open("bob", clientID: "c"))
    await world.stop()
  }

  @Test func `a courier that nobody polls is forgotten after the idle time, one just opened is not`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"]) { $0.courierIdle = .milliseconds(300) }
    try await world.open("ann")
    try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("1")]))
    #expect(try await world.eventually { try await world.metric(#"aquifer_held_connections{kind="courier"}"#) == 0 })
    // The next poll makes the courier again. Its waiting pings are lost, which loses no data.
    #expect(try await world.poll("ann") == "")
    await world.stop()
  }

  // MARK: Several notifiers

  @Test func `another notifier's delivery is not repeated, whichever message comes first`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    try await world.open("ann")
    let courier = try world.token("ann", clientID: "client")
    func key(_ notification: SubscriptionNotification) -> String { Ping(notification).key }
    func delivered(_ notification: SubscriptionNotification) async throws {
      try await world.tell(
        NotificationsDelivered(deliveries: [
          .init(courier: courier, key: key(notification), sequence: notification.sequence)
        ]))
    }
    let (first, second, third) = (
      try NotifierWorld.notification("1"), try NotifierWorld.notification("2"), try NotifierWorld.notification("3")
    )
    let (early, late) = (
      try NotifierWorld.notification("4", zone: "A", sequence: 5),
      try NotifierWorld.notification("5", zone: "A", sequence: 6)
    )
    try await delivered(first)
    try await world.tell(PushNotifications(notifications: [first, second, third, early]))
    try await delivered(second)
    try await delivered(early)
    try await world.tell(PushNotifications(notifications: [late]))
    for expected in ["3", "5", ""] { #expect(try await world.poll("ann") == expected) }
    // A report about an unknown courier has no effect.
    try await world.tell(NotificationsDelivered(deliveries: [.init(courier: "unknown", key: "k", sequence: 1)]))
    await world.stop()
  }

  @Test func `a notifier tells the others what its couriers got`() async throws {
    let world = try await NotifierWorld(["--courier-hold=0.2"])
    let reports = ReceivedReports()
    var handlers = BusHandlers()
    handlers.on(NotificationsDelivered.self) { message, _, _ in
      reports.add(message.deliveries)
      return Answer(Acknowledgement())
    }
    let other = world.join("notifier-other", .notifier, handlers)
    await other.waitForPeers { !$0.isEmpty }
    await world.running.bus.waitForPeers { $0.contains { $0.name == "notifier-other" } }
    try await world.open("ann")
    // Reports begin once the new peer is noticed, so the notification is repeated until then.
    var count = 0
    let isTold = try await world.eventually {
      count += 1
      try await world.tell(PushNotifications(notifications: [try NotifierWorld.notification("\(count)", sequence: 7)]))
      #expect(try await world.poll("ann") == "\(count)")
      return !reports.all.isEmpty
    }
    #expect(isTold)
    let report = try #require(reports.all.first)
    #expect(report.courier == (try world.token("ann", clientID: "client")))
    #expect(report.sequence == 7)
    await world.stop()
  }
}

private final class ReceivedReports: Sendable {
  private let reports = Mutex<[NotificationsDelivered.Delivery]>([])
  var all: [NotificationsDelivered.Delivery] { reports.withLock { $0 } }
  func add(_ more: [NotificationsDelivered.Delivery]) { reports.withLock { $0 += more } }
}

struct RecentValuesTests {
  @Test func `so many are remembered, and the oldest is forgotten`() {
    var recent = RecentValues<Int>(limit: 3)
    for number in 0..<5 { recent.set(number, for: "\(number)") }
    recent.set(40, for: "4")
    #expect((0..<5).map { recent["\($0)"] } == [nil, nil, 2, 3, 40])
  }
}
