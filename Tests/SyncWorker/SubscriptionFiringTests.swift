// The notifications that saves and deletions cause, and their receivers.

import InMemoryRecordStore
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
@testable import WorkerHost

struct SubscriptionFiringTests {
  private static let done = #"[{"fieldName":"done","comparator":"EQUALS","fieldValue":{"value":1,"type":"INT64"}}]"#

  private func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    return world
  }

  /// Saves a note with `done` in zone Trips.
  @discardableResult private func save(
    _ world: RecordPlaneWorld, _ name: String, done: Int, more: String = "", zone: String = "Trips"
  ) async throws -> PlaneReply {
    try await world.operate("forceUpdate", name, fields: #"{"done":{"value":\#(done)}\#(more)}"#, zone: zone)
  }

  @Test
  func
    `a record fires when it is new and matches, when it matches after a change, and when it did before its deletion`()
    async throws
  {
    let world = try await world()
    try await world.subscribeToNotes("done", filters: Self.done, more: #","zoneWide":true"#)
    _ = try await world.post("subscriptions/list", "")
    try await save(world, "a", done: 0)
    #expect(try world.told() == [])
    try await save(world, "a", done: 1)
    // It begins to match: a change.
    #expect(try world.told() == ["_alice done: qry a update"])
    try await save(world, "a", done: 1)
    #expect(try world.told() == ["_alice done: qry a update"])
    try await save(world, "a", done: 0)
    // It ceases to match: nothing to be told of.
    #expect(try world.told() == [])
    _ = try await world.operate("forceDelete", "a")
    #expect(try world.told() == [])
    try await save(world, "b", done: 1)
    #expect(try world.told() == ["_alice done: qry b create"])
    _ = try await world.operate("forceDelete", "b")
    #expect(try world.told() == ["_alice done: qry b delete"])
    // Where a tombstone was, a record is new again; a deletion of nothing is none.
    try await save(world, "b", done: 1)
    #expect(try world.told() == ["_alice done: qry b create"])
    _ = try await world.operate("forceDelete", "nothing")
    _ = try await world.operate("forceUpdate", "c", type: "Task", fields: #"{"done":{"value":1}}"#)
    #expect(try world.told() == [])
  }

  @Test func `a subscription fires on what it names, in the zone it names`() async throws {
    let world = try await world()
    try await world.makeZone("Other")
    try await world.subscribeToNotes("created", on: #""create""#, more: #","zoneID":"Trips""#)
    try await world.subscribeToNotes("deleted", on: #""delete""#, more: #","zoneWide":true"#)
    try await world.subscribeToNotes("home", on: #""create""#)
    for zone in ["Trips", "Other", "_defaultZone"] {
      try await save(world, "a", done: 1, zone: zone)
      try await save(world, "a", done: 2, zone: zone)
      _ = try await world.operate("forceDelete", "a", zone: zone)
    }
    #expect(
      try world.told() == [
        "_alice created: qry a create", "_alice deleted: qry a delete", "_alice deleted: qry a delete",
        "_alice home: qry a create", "_alice deleted: qry a delete",
      ])
  }

  @Test func `zone and database subscriptions tell once of a batch, and of zones that come and go`() async throws {
    let world = try await world()
    try await world.subscribe("zone", #""subscriptionType":"zone","zoneID":"Trips""#)
    try await world.subscribe("all", #""subscriptionType":"database""#)
    let creations = (0..<5).map {
      #"{"operationType":"create","record":{"recordType":"Note","recordName":"n\#($0)"}}"#
    }
    _ = try await world.post(
      "records/modify",
      #"{"operations":[\#(creations.joined(separator: ","))],"zoneID":{"zoneName":"Trips"}}"#)
    #expect(try world.told() == ["_alice zone: fet Trips", "_alice all: met Trips"])
    try await save(world, "a", done: 1, zone: "_defaultZone")
    #expect(try world.told() == ["_alice all: met _defaultZone"])
    _ = try await world.post(
      "zones/modify",
      #"""
      {"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"New"}}},{"operationType":"delete",\#
      "zone":{"zoneID":{"zoneName":"Trips"}}}]}
      """#
    )
    #expect(try world.told() == ["_alice all: met New", "_alice zone: fet Trips", "_alice all: met Trips"])
  }

  @Test func `a zone's deletion ends what was bound to it, and tells of no record by itself`() async throws {
    let world = try await world()
    try await save(world, "a", done: 1)
    try await world.subscribe("zone", #""subscriptionType":"zone","zoneID":"Trips""#)
    try await world.subscribeToNotes("there", more: #","zoneID":"Trips""#)
    try await world.subscribeToNotes("everywhere", more: #","zoneWide":true"#)
    _ = try await world.post(
      "zones/modify", #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Trips"}}}]}"#)
    #expect(try world.told() == ["_alice zone: fet Trips"])
    #expect(
      try await world.post("subscriptions/list", "").json["subscriptions"]?.elements.map {
        $0["subscriptionID"]?.string
      } == ["everywhere"])
    try await world.makeZone()
    _ = try world.told()
    try await save(world, "a", done: 1)
    #expect(try world.told() == ["_alice everywhere: qry a create"])
  }

  @Test func `a save that fails, changes nothing or is repeated tells nothing`() async throws {
    let world = try await world()
    try await world.subscribe("all", #""subscriptionType":"database""#)
    try await world.subscribeToNotes("notes", more: #","zoneWide":true"#)
    _ = try await world.operate("create", "a", requestID: "client:1")
    #expect(try world.told().count == 2)
    _ = try await world.operate("create", "a", requestID: "client:1")
    _ = try await world.operate("create", "a")
    _ = try await world.operate("update", "a", tag: "zz")
    _ = try await world.post(
      "records/modify",
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"b"}},\#
      {"operationType":"create","record":{"recordType":"Note","recordName":"a"}}],"zoneID":{"zoneName":"Trips"},\#
      "atomic":true}
      """#
    )
    #expect(try world.told() == [])
  }

  @Test func `records that references take along fire like those that were named`() async throws {
    let world = try await world()
    _ = try await world.operate("create", "parent")
    _ = try await world.operate(
      "create", "child", fields: #"{"up":{"value":{"recordName":"parent","action":"DELETE_SELF"},"type":"REFERENCE"}}"#)
    try await world.subscribeToNotes("deleted", on: #""delete""#, more: #","zoneWide":true"#)
    _ = try await world.operate("forceDelete", "parent")
    #expect(try world.told().sorted() == ["_alice deleted: qry child delete", "_alice deleted: qry parent delete"])
  }

  @Test func `the request's client is the originator`() async throws {
    let world = try await world()
    try await world.subscribe("all", #""subscriptionType":"database""#)
    try await world.subscribeToNotes("notes", more: #","zoneWide":true"#)
    _ = world.changes.take()
    let body =
      #"""
      {"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a"}}],\#
      "zoneID":{"zoneName":"Trips"}}
      """#
    _ = try await world.post("records/modify", body, query: ["clientId": "C1"])
    #expect(world.changes.takeNotifications().map(\.originDevice) == ["C1", "C1"])
    let change = try #require(world.changes.take().first)
    #expect(change.originStore == "C1")
    #expect(change.hasSubscriptions == true)
    // An impossible client identifier counts as none.
    _ = try await world.post(
      "records/modify", body.replacing(#""a""#, with: #""b""#), query: ["clientId": String(repeating: "x", count: 256)])
    #expect(world.changes.takeNotifications().map(\.originDevice) == [nil, nil])
  }

  @Test func `another user's device of the same name is another device`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    for user in ["_alice", "_bob"] {
      try await world.subscribeToNotes("notes", on: #""create""#, user: user, scope: .public)
    }
    let body = #"{"operations":[{"operationType":"create","record":{"recordType":"Note","recordName":"a"}}]}"#
    let reply = try await world.post("records/modify", body, user: "_bob", scope: .public, query: ["clientId": "C1"])
    try #require(reply.records.first?.code == nil, "\(reply.text)")
    #expect(
      world.changes.takeNotifications().map { "\($0.userRecordName) \($0.originDevice ?? "-")" } == [
        "_alice -", "_bob C1",
      ])
    #expect(world.changes.take().last?.originUser == "_bob")
  }

  @Test func `couriers of a database that nobody ever subscribed to are left to its zone's pings`() async throws {
    let world = try await world()
    try await save(world, "a", done: 1)
    #expect(world.changes.take().map(\.hasSubscriptions) == [nil])
    try await world.subscribe("all", #""subscriptionType":"database""#)
    _ = try await world.post(
      "subscriptions/modify", #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"all"}}]}"#)
    try await save(world, "a", done: 2)
    // The flag stays after the last subscription is removed, so that the user is not told of every change.
    #expect(world.changes.take().map(\.hasSubscriptions) == [true])
    #expect(try world.told() == [])
  }

  @Test func `in the public database everybody is told of what he may read, and of nothing else`() async throws {
    let grants = [
      "Open": [
        Schema.Grant(permissions: [.read], role: "_world"), Schema.Grant(permissions: [.create], role: "_icloud"),
      ],
      "Own": [
        Schema.Grant(permissions: [.read, .write], role: "_creator"),
        Schema.Grant(permissions: [.create], role: "_icloud"),
      ],
    ]
    let world = try await RecordPlaneWorld.inMemory(
      schema: Schema(
        recordTypes: grants.sorted { $0.key < $1.key }.map {
          Schema.RecordType(name: $0.key, fields: [], grants: $0.value)
        }))
    for user in ["_alice", "_bob"] {
      for type in ["Open", "Own"] {
        try await world.subscribe(
          type, #""subscriptionType":"query","query":{"recordType":"\#(type)"},"firesOn":["create"]"#, user: user,
          scope: .public)
      }
    }
    for type in ["Open", "Own"] {
      let reply = try await world.operate(
        "create", "by bob \(type)", type: type, zone: "_defaultZone", user: "_bob", scope: .public)
      try #require(reply.records.first?.code == nil, "\(reply.text)")
    }
    #expect(
      try world.told() == [
        "_alice Open: qry by bob Open create", "_bob Open: qry by bob Open create", "_bob Own: qry by bob Own create",
      ])
  }

  @Test func `a user with a custom role hears of the records that it lets them read`() async throws {
    let secret = Schema.RecordType(
      name: "Secret", fields: [],
      grants: [
        Schema.Grant(permissions: [.read], role: "auditors"), Schema.Grant(permissions: [.create], role: "_icloud"),
      ])
    let world = try await RecordPlaneWorld.inMemory(schema: Schema(recordTypes: [secret], roles: ["auditors"]))
    world.schemas.userRoles.withLock { $0 = ["_alice": ["auditors"], "_carol": ["others"]] }
    for user in ["_alice", "_carol", "_dave"] {
      try await world.subscribe(
        "s", #""subscriptionType":"query","query":{"recordType":"Secret"},"firesOn":["create"]"#, user: user,
        scope: .public)
    }
    let reply = try await world.operate(
      "create", "x", type: "Secret", zone: "_defaultZone", user: "_bob", scope: .public)
    try #require(reply.records.first?.code == nil, "\(reply.text)")
    #expect(try world.told() == ["_alice s: qry x create"])
  }

  @Test func `a query that was made before its field is read as the field turns out to be`() async throws {
    let world = try await world()
    let filter = #"[{"fieldName":"price","comparator":"GREATER_THAN","fieldValue":{"value":5}}]"#
    try await world.subscribeToNotes("dear", filters: filter, more: #","zoneWide":true"#)
    _ = try await world.operate("create", "a", fields: #"{"price":{"value":5.5,"type":"DOUBLE"}}"#)
    _ = try await world.operate("create", "b", fields: #"{"price":{"value":4.5,"type":"DOUBLE"}}"#)
    #expect(try world.told() == ["_alice dear: qry a create"])
    // And one that no longer can be is silent, without harm to the others.
    let list = #"[{"fieldName":"tags","comparator":"LESS_THAN","fieldValue":{"value":5}}]"#
    try await world.subscribeToNotes("odd", filters: list, more: #","zoneWide":true"#)
    _ = try await world.operate(
      "create", "c", fields: #"{"price":{"value":9.0,"type":"DOUBLE"},"tags":{"value":["x"],"type":"STRING_LIST"}}"#)
    #expect(try world.told() == ["_alice dear: qry c create"])
  }

  @Test func `a batch of the largest notifications fits into a message`() async throws {
    let world = try await world()
    // Each of these is one byte that JSON spells with six.
    let long = String(repeating: "\u{1}", count: 4000)
    let names = (0..<32).map { #""f\#($0)""# }.joined(separator: ",")
    let sent = String(repeating: #"\u0001"#, count: 4000)
    let info =
      #"""
      "alertBody":"\#(String(repeating: "x", count: 7000))","alertLocalizationArgs":[\#(names)],\#
      "additionalFields":[\#(names)]
      """#
    try await world.subscribeToNotes("large", more: #","zoneWide":true,"notificationInfo":{\#(info)}"#)
    let fields = (0..<32).map { #""f\#($0)":{"value":"\#($0 == 3 ? sent : "y")"}"# }.joined(separator: ",")
    let reply = try await world.operate("create", String(repeating: "n", count: 255), fields: "{\(fields)}")
    try #require(reply.records.first?.value("f3")?.string == long)
    let notification = try #require(world.changes.takeNotifications().first)
    #expect(notification.json.count > 30_000)
    #expect(
      (notification.json.count + 2000) * ConflatedChangePublisher.notificationBatchCount
        < BusConfiguration().partByteLimit)
  }

  // MARK: Once

  @Test(arguments: StoreKind.allCases) func `one that fires once does so once, however many save at a time`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { stores in
      let world = RecordPlaneWorld(stores.store)
      try await world.makeZone()
      try await world.subscribeToNotes("once", more: #","zoneWide":true,"firesOnce":true"#)
      try await world.subscribe("zone once", #""subscriptionType":"zone","zoneID":"Trips","firesOnce":true"#)
      try await world.subscribeToNotes("always", more: #","zoneWide":true"#)
      let requests = (0..<40).map { number in
        let creations = (0..<3).map {
          #"{"operationType":"create","record":{"recordType":"Note","recordName":"n\#(number)-\#($0)"}}"#
        }
        return (
          world.request("records/modify"),
          #"{"operations":[\#(creations.joined(separator: ","))],"zoneID":{"zoneName":"Trips"}}"#
        )
      }
      let plane = world.plane
      await withTaskGroup(of: Void.self) { group in
        for (request, body) in requests {
          group.addTask {
            do {
              _ = try await plane.respond(to: request, body: Array(body.utf8), in: stores.store, startNext: {})
            } catch {
              Issue.record(error)
            }
          }
        }
      }
      let told = try world.told()
      #expect(told.count { $0.contains(" once: qry") } == 1)
      #expect(told.count { $0.contains(" zone once: fet") } == 1)
      #expect(told.count { $0.contains(" always: qry") } == 120)
      #expect(
        try await world.post("subscriptions/list", "").json["subscriptions"]?.elements.map {
          $0["subscriptionID"]?.string
        } == ["always"])
    }
  }

  @Test func `a commit that fails leaves one that fires once for the next`() async throws {
    let failing = FailingCommits()
    let store = try await InMemoryRecordStore(shardCount: 1, commitFailure: { _ in failing.next() }).open(shard: 0)
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    try await world.subscribeToNotes("once", more: #","zoneWide":true,"firesOnce":true"#)
    failing.failOnce()
    #expect(try await world.operate("create", "a").status == 503)
    #expect(try world.told() == [])
    #expect(try await world.operate("create", "a").status == 200)
    #expect(try world.told() == ["_alice once: qry a create"])
    _ = try await world.operate("create", "b")
    #expect(try world.told() == [])
  }
}
