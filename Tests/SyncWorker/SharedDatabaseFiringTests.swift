import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import RecordPlane
@testable import ZoneCommit

private typealias World = RecordPlaneWorld

/// A participant's subscription to the shared database tells of every zone that is shared with the participant.
struct SharedDatabaseFiringTests {
  private static func firing(_ world: RecordPlaneWorld) -> SharedDatabaseFiring {
    SharedDatabaseFiring(
      schemas: world.plane.context.schemas, indexes: world.plane.context.commits.subscriptions, changes: world.changes,
      random: SeededRandom(seed: 3), log: .silent)
  }

  @Test
  func
    `a subscriber of the shared database hears of changes in zones shared with them, and not of their own`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    for (identifier, more) in [("all", ""), ("once", #","firesOnce":true"#)] {
      let made = try await world.subscribe(
        identifier, #""subscriptionType":"database"\#(more)"#, user: "_bob", scope: .shared)
      try #require(made.json["subscriptions"]?.elements.first?.code == nil, "\(made.text)")
    }
    try await world.subscribe("own", #""subscriptionType":"database""#, user: "_bob")
    _ = world.changes.take()
    _ = try await world.modify([World.note("a")])
    #expect(try world.told() == [], "the owner's shard knows nothing of it")
    let change = try #require(world.changes.take().last)
    #expect(change.isShared && change.audience == ["_alice", "_bob", "_carol"])
    let firing = Self.firing(world)
    for user in ["_bob", "_carol"] { try await firing.fire(change, of: user, in: world.store) }
    let told = world.changes.takeNotifications()
    #expect(
      try told.map { try $0.line }.sorted() == [
        "_bob all: met Trips", "_bob once: met Trips",
        "_carol com.apple.coredata.cloudkit.shared.subscription: met Trips",
      ])
    #expect(change.tellsHomes == true && change.hasSubscriptions == nil && change.subscribers == nil)
    for one in told {
      let subject = try JSONValue(parsing: one.json)["ck"]?["met"]
      #expect(subject?["zoid"]?.string == "_alice" && subject?["dbs"]?.int64 == 2)
      #expect(one.scope == .shared && one.sequence == change.sequence && one.originDevice == nil)
    }
    // One that fires once is gone; the device that made a change is left out.
    let own = ZoneChange(
      database: change.database, zoneName: "Trips", sequence: change.sequence + 1, syncToken: "t", originStore: "phone",
      originUser: "_bob",
      audience: change.audience)
    try await firing.fire(own, of: "_bob", in: world.store)
    let second = world.changes.takeNotifications()
    #expect(second.map(\.subscriptionID) == ["all"] && second.map(\.originDevice) == ["phone"])
  }

  @Test
  func
    `a subscription in a shared database takes its user's place among those told of every change, nobody else's`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    let zone = #""subscription":{"subscriptionID":"zone","subscriptionType":"zone",\#(World.zoneID())}"#
    let made = try await world.shared(
      "subscriptions/modify", #"{"operations":[{"operationType":"create",\#(zone)}]}"#, by: "_bob")
    try #require(made.json["subscriptions"]?.elements.first?.code == nil, "\(made.text)")
    _ = world.changes.take()
    _ = world.changes.takeNotifications()
    _ = try await world.modify([World.note("a")])
    #expect(try world.told() == ["_bob zone: fet Trips"])
    let change = try #require(world.changes.take().last)
    // The owner has no such subscription and hears of the database as before.
    #expect(change.hasSubscriptions == nil && change.subscribers == ["_bob"] && change.tellsHomes == true)
    let firing = Self.firing(world)
    for user in ["_bob", "_carol"] { try await firing.fire(change, of: user, in: world.store) }
    let told = world.changes.takeNotifications()
    #expect(told.map(\.userRecordName) == ["_carol"] && told.map(\.isForCouriersOnly) == [true])
    let ping = try JSONValue(parsing: try #require(told.first).json)
    #expect(ping["ck"]?["met"]?["tok"]?.string == change.syncToken && ping["aps"]?["content-available"]?.int64 == 1)
    try await world.subscribe("own", #""subscriptionType":"database""#)
    _ = world.changes.take()
    _ = try await world.modify([World.note("b")])
    #expect(world.changes.take().last?.hasSubscriptions == true)
  }

  @Test(
    arguments: ["removed", "stopped", "left", "deleted"],
    [#""subscriptionType":"zone""#, #""subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"]"#])
  func `a participant with subscriptions hears of the end of their access as one without them`(
    _ end: String, _ kind: String
  ) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let share = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    for user in ["_bob", "_carol"] {
      let subscription = #""subscription":{"subscriptionID":"s",\#(kind),\#(World.zoneID())}"#
      let made = try await world.shared(
        "subscriptions/modify", #"{"operations":[{"operationType":"create",\#(subscription)}]}"#, by: user)
      try #require(made.json["subscriptions"]?.elements.first?.code == nil, "\(made.text)")
    }
    _ = world.changes.take()
    _ = world.changes.takeNotifications()
    let carol = share.participants[2]["participantId"]?.string ?? ""
    let deletion = World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)
    let ending =
      switch end {
      case "removed":
        try await world.modify([
          World.share("update", tag: share.tag, World.participants(#"{"participantId":"\#(carol)"}"#))
        ])
      case "stopped": try await world.modify([deletion])
      case "left": try await world.modify([deletion], by: "_bob")
      default:
        try await world.post(
          "zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Trips"}}}]}"#)
      }
    #expect(ending.status == 200 && !ending.text.contains("serverErrorCode"), "\(ending.text)")
    #expect(try world.told().filter { $0.hasPrefix("_bob") } == [])
    let change = try #require(world.changes.take().last)
    #expect(change.audience.contains("_bob") && change.tellsHomes == true)
    #expect(change.subscribers == (["removed", "left"].contains(end) ? ["_carol"] : nil))
    try await Self.firing(world).fire(change, of: "_bob", in: world.store)
    let told = world.changes.takeNotifications()
    #expect(told.map(\.userRecordName) == ["_bob"] && told.map(\.isForCouriersOnly) == [true])
  }

  @Test func `a change right behind the end of an access counts its user among no subscribers, unless they return`()
    async throws
  {
    let world = try await RecordPlaneWorld.inMemory()
    // Bob stays a subscriber of the owner's other zone.
    for zone in ["Trips", "Other"] {
      try await world.makeZone(zone)
      _ = try await world.shareZone(with: [("bob", "READ_WRITE")], zone: zone)
      let subscription =
        #""subscription":{"subscriptionID":"\#(zone)","subscriptionType":"zone",\#(World.zoneID(zone))}"#
      let made = try await world.shared(
        "subscriptions/modify", #"{"operations":[{"operationType":"create",\#(subscription)}]}"#, by: "_bob")
      try #require(made.json["subscriptions"]?.elements.first?.code == nil, "\(made.text)")
    }
    func subscribers() async throws -> [String] {
      _ = world.changes.take()
      _ = try await world.operate("forceUpdate", "a")
      let change = try #require(world.changes.take().last)
      #expect(change.audience.contains("_bob"))
      return change.subscribers ?? []
    }
    #expect(try await subscribers() == ["_bob"])
    _ = try await world.modify([World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)], by: "_bob")
    // Both can wait in one place, and be merged.
    for _ in 0..<2 { #expect(try await subscribers() == []) }
    _ = try await world.modify([World.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)])
    _ = try await world.shareZone(with: [("bob", "READ_WRITE")])
    #expect(try await subscribers() == ["_bob"])
  }

  @Test func `a change of a zone that nobody shares concerns no other worker`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.modify([World.note("a")])
    #expect(world.changes.take().allSatisfy { !$0.isShared })
  }
}
