// Changes that cost too much to compare in a shard's writer go to a reader; only the delay shows it.

import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices

@testable import RecordPlane
@testable import ZoneCommit

struct LateFiringTests {
  /// A filter that must look at a whole list. Lists without negative numbers pass it.
  private static let dear =
    #"""
    [{"fieldName":"l","comparator":"NOT_LIST_CONTAINS_ANY",\#
    "fieldValue":{"value":[\#((1...400).map { "-\($0)" }.joined(separator: ","))],"type":"INT64_LIST"}}]
    """#

  private static func list(_ count: Int) -> String {
    #"{"l":{"value":[\#((0..<count).map(String.init).joined(separator: ","))],"type":"INT64_LIST"}}"#
  }

  private func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    return world
  }

  private func late(_ world: RecordPlaneWorld) -> LateFirings { world.plane.context.commits.effects.lateFirings }

  @Test func `a list that is too long for the writer is compared behind the commit, and counted`() async throws {
    let world = try await world()
    try await world.subscribeToNotes("dear", filters: Self.dear, more: #","zoneWide":true"#)
    try await world.subscribeToNotes(
      "none", filters: Self.dear.replacing("-400", with: "7"), more: #","zoneWide":true"#)
    _ = try await world.operate("create", "short", fields: Self.list(500))
    #expect(try world.told() == ["_alice dear: qry short create"])
    _ = try await world.operate("create", "long", fields: Self.list(30_000))
    #expect(try world.told() == [] && late(world).counts.late == 1)
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == ["_alice dear: qry long create"])
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == [] && late(world).counts == (1, 0))
  }

  @Test func `a body's cost for its shard's writer is bounded, whatever is subscribed and saved`() throws {
    let stamp = Stamp(timestamp: 0, userRecordName: "_alice", deviceID: "1")
    let record = Record(
      recordName: "r", recordType: "Note", fields: ["l": .list(element: .int64, (0..<100_000).map { .int64($0) })],
      created: stamp, modified: stamp)
    let rows = (0..<200).map { number in
      let query = #"{"recordType":"Note","filterBy":\#(Self.dear.replacing("-1,", with: "-1\(number),"))}"#
      let text = #"{"subscriptionType":"query","subscriptionID":"\#(number)","query":\#(query),"firesOn":["create"]}"#
      return StoredSubscription(
        key: Int64(number), databaseKey: 1, userRecordName: "_alice", scope: .private, identifier: "\(number)",
        payload: Array(text.utf8))
    }
    let index = SubscriptionIndex(rows, owner: "_alice", schema: SchemaIndex(Schema()), earlier: nil)
    #expect(index.unreadable.isEmpty)
    var budget = CostBudget(limit: SubscriptionFiring.costLimit)
    #expect(throws: CostBudget.Exceeded.self) {
      try index.queries(firedBy: .create, of: record, inZone: "_defaultZone", spending: &budget)
    }
    // A reader pays for the list once, and for each subscription what its own list is long.
    var readers = CostBudget(limit: .max)
    #expect(try index.queries(firedBy: .create, of: record, inZone: "_defaultZone", spending: &readers).count == 200)
    #expect(readers.spent <= 3 * 100_000 + 200 * 3 * 400, "\(readers.spent)")
  }

  @Test func `a later firing waits for earlier comparisons, so that each subscription hears in order`() async throws {
    let world = try await world()
    try await world.subscribeToNotes("dear", filters: Self.dear, more: #","zoneWide":true"#)
    _ = try await world.operate("create", "a", fields: Self.list(30_000))
    _ = try await world.operate("create", "b", fields: Self.list(1))
    _ = try await world.operate("forceDelete", "a")
    _ = try await world.operate("create", "c", fields: Self.list(1))
    #expect(try world.told() == [])
    await late(world).fireAll(in: world.store)
    #expect(
      try world.told() == [
        "_alice dear: qry a create", "_alice dear: qry b create", "_alice dear: qry a delete",
        "_alice dear: qry c create",
      ])
    // Nothing waits any more.
    _ = try await world.operate("create", "d", fields: Self.list(1))
    #expect(try world.told() == ["_alice dear: qry d create"])
  }

  @Test func `another database's notifications wait for nobody else's`() async throws {
    let world = try await world()
    try await world.subscribeToNotes("dear", filters: Self.dear)
    _ = try await world.operate("create", "a", fields: Self.list(30_000), zone: "_defaultZone")
    try await world.subscribeToNotes("bob's", user: "_bob")
    _ = try await world.operate("create", "b", zone: "_defaultZone", user: "_bob")
    #expect(try world.told() == ["_bob bob's: qry b create"])
  }

  @Test func `a subscription that fires once does so once, early or late`() async throws {
    let world = try await world()
    try await world.subscribeToNotes("once", filters: Self.dear, more: #","zoneWide":true,"firesOnce":true"#)
    func present() async throws -> Int? { try await world.post("subscriptions/list", "").json["subscriptions"]?.count }
    for name in ["a", "b"] { _ = try await world.operate("create", name, fields: Self.list(30_000)) }
    #expect(
      try await present() == 1,
      "as long as nothing is told it is there: a worker that is killed now loses a hint and no subscription")
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == ["_alice once: qry a create"])
    #expect(try await present() == 0)
    // One that fires early, behind one that is compared late.
    try await world.subscribeToNotes("again", filters: Self.dear, more: #","zoneWide":true,"firesOnce":true"#)
    _ = try await world.operate("create", "c", fields: Self.list(30_000))
    _ = try await world.operate("create", "d", fields: Self.list(1))
    #expect(try await present() == 0)
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == ["_alice again: qry d create"])
  }

  @Test func `a subscription that was deleted meanwhile, or whose user may not read the record any more, is not told`()
    async throws
  {
    let world = try await world()
    for name in ["stays", "goes"] {
      try await world.subscribeToNotes(name, filters: Self.dear, more: #","zoneWide":true"#)
    }
    _ = try await world.operate("create", "a", fields: Self.list(30_000))
    _ = try await world.post(
      "subscriptions/modify", #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"goes"}}]}"#)
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == ["_alice stays: qry a create"])
  }

  @Test func `a participant is told late of what he sees, and of nothing when he was removed meanwhile`() async throws {
    let world = try await world()
    let share = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    for user in ["_bob", "_carol"] {
      let query =
        #""query":{"recordType":"Note","filterBy":\#(Self.dear)},"firesOn":["create"],\#(RecordPlaneWorld.zoneID())"#
      let reply = try await world.shared(
        "subscriptions/modify",
        #"""
        {"operations":[{"operationType":"create","subscription":{"subscriptionID":"dear","subscriptionType":"query",\#
        \#(query)}}]}
        """#,
        by: user)
      try #require(reply.json["subscriptions"]?.elements.first?.code == nil, "\(reply.text)")
    }
    _ = try world.told()
    _ = try await world.operate("create", "a", fields: Self.list(30_000))
    await late(world).fireAll(in: world.store)
    #expect(try world.told().sorted() == ["_bob dear: qry a create", "_carol dear: qry a create"])
    _ = try await world.operate("create", "b", fields: Self.list(30_000))
    let carol = share.participants[2]["participantId"]?.string ?? ""
    let removal = RecordPlaneWorld.share(
      "update", tag: share.tag, RecordPlaneWorld.participants(#"{"participantId":"\#(carol)"}"#))
    let removed = try await world.modify([removal])
    try #require(removed.records.allSatisfy { $0.code == nil }, "\(removed.text)")
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == ["_carol dear: qry b create"])
  }

  @Test func `a change that the writer refuses is compared by nobody`() async throws {
    let world = try await world()
    try await world.subscribeToNotes("dear", filters: Self.dear, more: #","zoneWide":true"#)
    let long =
      #"{"operationType":"create","record":{"recordType":"Note","recordName":"a","fields":\#(Self.list(30_000))}}"#
    let missing = #"{"operationType":"update","record":{"recordType":"Note","recordName":"b"}}"#
    let reply = try await world.post(
      "records/modify", #"{"operations":[\#(long),\#(missing)],"zoneID":{"zoneName":"Trips"},"atomic":true}"#)
    #expect(reply.status == 400 && late(world).counts.late == 0)
  }

  @Test func `waiting changes are bounded, and those over the bound are counted`() async throws {
    let world = try await world()
    try await world.subscribeToNotes("dear", filters: Self.dear, more: #","zoneWide":true"#)
    // 100 000 numbers count for 800 kB: 33.5 MB have room for 41 such records.
    for number in 0..<44 { _ = try await world.operate("forceUpdate", "a\(number % 2)", fields: Self.list(100_000)) }
    let counts = late(world).counts
    #expect(counts.late == 44 && counts.dropped == 3, "\(counts)")
    await late(world).fireAll(in: world.store)
    #expect(try world.told().count == 41)
    // There is room again.
    _ = try await world.operate("create", "z", fields: Self.list(30_000))
    await late(world).fireAll(in: world.store)
    #expect(try world.told() == ["_alice dear: qry z create"] && late(world).counts == (45, 3))
  }
}
