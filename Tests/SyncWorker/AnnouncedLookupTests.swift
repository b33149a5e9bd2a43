// Everyday calls announce what their bodies look up, so that PostgreSQL fetches it for all bodies of a group at once.

import Assets
import Crypto
import InMemoryRecordStore
import JSON
import PostgreSQL
import PrivateCluster
import Records
import ServiceBus
import Synchronization
import Testing

@testable import RecordStore

struct AnnouncedLookupTests {
  @Test func `saving, changing and deleting records looks up nothing that was not announced`() async throws {
    let store = try await openedOnPostgreSQL(AssetFolder(directory: "/nonexistent"), keys: KeyRing())
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    // The first record teaches the writer symbols, and gets keys for a thousand.
    try await writeThrice("first", in: world)
    let count = try await lookups(store) {
      for number in 0..<5 { try await writeThrice("\(number)", in: world) }
    }
    #expect(count == 0)
    await store.close()
  }

  private func writeThrice(_ name: String, in world: RecordPlaneWorld) async throws {
    let made = try await world.operate("create", name, fields: #"{"title":{"value":"one"}}"#)
    let tag = try #require(made.records.first?["recordChangeTag"]?.string)
    let changed = try await world.operate("update", name, tag: tag, fields: #"{"title":{"value":"two"}}"#)
    #expect(changed.records.first?["recordChangeTag"]?.string ?? tag != tag)
    let deleted = try await world.operate("forceDelete", name, type: nil)
    #expect(deleted.records.first?["deleted"]?.bool == true)
  }

  @Test func `saving and exporting objects looks up nothing that was not announced`() async throws {
    try await ObjectPlaneWorld.with(.postgreSQL) { world in
      try await world.setUp("phone")
      try await world.save("phone", Self.insertion("first"))
      try await world.store.enqueue { _ in }.value
      let count = try await lookups(world.store) {
        for number in 0..<5 {
          let reply = try await world.save("phone", Self.insertion("\(number)"))
          #expect(reply.status == 200)
        }
        try await world.store.enqueue { _ in }.value
      }
      #expect(count == 0)
      #expect(try await world.liveRecords().count == 6)
    }
  }

  @Test func `making and deleting zones looks up nothing that was not announced`() async throws {
    let store = try await openedOnPostgreSQL(AssetFolder(directory: "/nonexistent"), keys: KeyRing())
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    let count = try await lookups(store) {
      for number in 0..<3 {
        for kind in ["create", "delete"] {
          let operations = (0..<3).map {
            #"{"operationType":"\#(kind)","zone":{"zoneID":{"zoneName":"Z\#(number)x\#($0)"}}}"#
          }
          let reply = try await world.post(
            "zones/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#)
          #expect(reply.zones.count == 3 && reply.zones.allSatisfy { $0.code == nil }, "\(reply.json)")
        }
      }
    }
    #expect(count == 0)
    await store.close()
  }

  @Test func `participants who come and who write look up nothing that was not announced`() async throws {
    let (store, world, share) = try await withShare()
    let guid = share["shortGUID"]?.string
    let count = try await lookups(store) {
      for user in ["_carol", "_dave"] {
        let accepted = try await world.accept(guid, by: user)
        #expect(accepted["participantStatus"]?.string == "ACCEPTED", "\(accepted.text)")
      }
    }
    #expect(count == 0)
    func write(_ name: String) async throws {
      let made = try await world.modify([RecordPlaneWorld.note(name)], by: "_bob").records[0]
      #expect(made.code == nil, "\(made.text)")
      let tag = made["recordChangeTag"]?.string
      let changed = try await world.modify(
        [RecordPlaneWorld.note(name, "update", tag: tag, title: "other")], by: "_bob"
      ).records[0]
      #expect(changed.code == nil, "\(changed.text)")
      let deletion = RecordPlaneWorld.operation("forceDelete", #""recordName":"\#(name)""#)
      #expect(try await world.modify([deletion], by: "_bob").records[0]["deleted"]?.bool == true)
    }
    // The first record teaches the writer symbols, and gets keys for a thousand.
    try await write("first")
    #expect(try await lookups(store) { for number in 0..<3 { try await write("\(number)") } } == 0)
    await store.close()
  }

  @Test(arguments: [["bob"], ["bob", "carol", "dave"]])
  func `a change of the permissions of those who have accepted looks up nothing that was not announced`(
    _ accepted: [String]
  ) async throws {
    let (store, world, share) = try await withShare()
    for user in accepted.dropFirst() {
      #expect(try await world.accept(share.shortGUID, by: "_\(user)").code == nil)
    }
    for (number, permission) in ["READ_ONLY", "READ_WRITE", "READ_ONLY"].enumerated() {
      let tag = try await world.currentShare()["recordChangeTag"]?.string
      let list = ["bob", "carol", "dave"].map {
        accepted.contains($0) ? RecordPlaneWorld.participant($0, permission) : RecordPlaneWorld.participant($0)
      }
      let people = #""participants":[\#(list.joined(separator: ","))]"#
      let count = try await lookups(store) {
        let changed = try await world.modify([RecordPlaneWorld.share("update", tag: tag, people)]).records[0]
        #expect(changed.code == nil, "\(changed.text)")
        for user in accepted {
          #expect(changed.people.contains("_\(user) USER ACCEPTED \(permission)"), "\(changed.people)")
        }
      }
      #expect(number == 0 || count == 0)
    }
    await store.close()
  }

  @Test func `a save of a share announces the accesses of its caller, and not of all people that it names`()
    async throws
  {
    let store = ListeningStore(try await InMemoryRecordStore(shardCount: 1, makeIncarnation: { 1 }).open(shard: 0))
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    func accesses() -> [ExpectedLookup] { store.take().filter { if case .members = $0 { true } else { false } } }
    let share = try await world.shareZone(
      "Trips",
      RecordPlaneWorld.participants(
        RecordPlaneWorld.participant("bob"), RecordPlaneWorld.participant("carol"),
        RecordPlaneWorld.participant("dave")))
    #expect(accesses() == [])
    let bobs = ExpectedLookup.members("_bob", zone: "Trips", database: Self.database)
    #expect(try await world.accept(share.shortGUID, by: "_bob").code == nil)
    #expect(accesses() == [bobs])
    // Bob leaves.
    let leave = RecordPlaneWorld.operation("forceDelete", #""recordName":"cloudkit.zoneshare""#)
    #expect(try await world.modify([leave], by: "_bob").records[0].code == nil)
    #expect(accesses() == [bobs])
  }

  @Test func `the acceptance of a hierarchy announces the root by its short GUID, and not by its name as well`()
    async throws
  {
    let store = ListeningStore(try await InMemoryRecordStore(shardCount: 1, makeIncarnation: { 1 }).open(shard: 0))
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    let root = try #require(try await world.modify([RecordPlaneWorld.note("r")]).records.first)
    let made = try await world.modify([
      RecordPlaneWorld.share(
        name: "S-r", #""forRecord":{"recordName":"r","recordChangeTag":"\#(root.tag ?? "")"}"#,
        RecordPlaneWorld.participants(RecordPlaneWorld.participant("bob")))
    ]).records[0]
    let guid = try #require(made.shortGUID, "\(made.text)")
    _ = store.take()
    #expect(try await world.accept(guid, by: "_bob")["participantStatus"]?.string == "ACCEPTED")
    #expect(
      Set(store.take()) == [
        .shortGUID(guid), .shareOfRoot("r", zone: "Trips", database: Self.database),
        .record("S-r", zone: "Trips", database: Self.database), .share("S-r", zone: "Trips", database: Self.database),
        .members("_bob", zone: "Trips", database: Self.database),
      ])
  }

  private static let database = DatabaseID(
    container: RecordPlaneWorld.container, environment: .development, owner: "_alice")

  /// A zone that is shared with Bob, Carol and Dave, of whom Bob has accepted.
  private func withShare() async throws -> (any ShardStore, RecordPlaneWorld, JSONValue) {
    let store = try await openedOnPostgreSQL(AssetFolder(directory: "/nonexistent"), keys: KeyRing())
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    let list = ["bob", "carol", "dave"].map { RecordPlaneWorld.participant($0) }
    let share = try await world.shareZone("Trips", #""participants":[\#(list.joined(separator: ","))]"#)
    let accepted = try await world.accept(share["shortGUID"]?.string, by: "_bob")
    #expect(accepted.code == nil, "\(accepted.text)")
    return (store, world, share)
  }

  @Test func `a page of a zone's feed waits twice for the server, and holds what it holds without announcements`()
    async throws
  {
    let (store, world) = try await withOneSession()
    for number in 0..<11 { try await make((0..<50).map { String(number * 50 + $0) }, in: world) }
    var (token, names, counts): (String?, [String], [Int]) = (nil, [], [])
    var isMore = true
    while isMore {
      let before = try await store.readerWaitCount()
      let page = try await world.changes(since: token)
      counts.append(try await store.readerWaitCount() - before - 1)
      names += try #require(page["records"]).names
      token = page["syncToken"]?.string
      isMore = try #require(page["moreComing"]?.bool as Bool?)
    }
    #expect(names == (0..<550).map(String.init))
    // The first page meets the zone and its symbols. The last one has 150 records.
    #expect(counts.count == 3 && counts.dropFirst() == [2, 2])
    await store.close()
  }

  @Test func `nothing is read ahead for a stranger: a zone that is not theirs costs what no zone costs`() async throws {
    let (store, world) = try await withOneSession()
    try await make(["first"], in: world)
    // The session knows the zone.
    #expect(try await world.changes(since: nil)["records"]?.count == 1)
    var counts: [Int] = []
    for zone in ["Trips", "Other"] {
      let before = try await store.readerWaitCount()
      let reply = try await world.send(
        world.request("changes/zone", user: "_bob", owner: "_alice", scope: .shared),
        #"{"zones":[{"zoneID":{"zoneName":"\#(zone)","ownerRecordName":"_alice"}}]}"#)
      counts.append(try await store.readerWaitCount() - before - 1)
      #expect(reply.zones.first?["serverErrorCode"]?.string == "ZONE_NOT_FOUND", "\(reply.json)")
    }
    // Database and zone are looked up one after the other.
    #expect(counts[0] == counts[1] && counts[0] >= 2, "\(counts)")
    await store.close()
  }

  @Test func `a short GUID that a request repeats is looked up once`() async throws {
    let (store, world) = try await withOneSession()
    let body =
      #"""
      {"operations":[{"operationType":"create","record":{"recordName":"r","recordType":"Note",\#
      "createShortGUID":true}}],"zoneID":{"zoneName":"Trips"}}
      """#
    let guid = try #require(try await world.post("records/modify", body).records.first?.shortGUID)
    var counts: [Int] = []
    for guids in [[guid], [guid], Array(repeating: guid, count: 5)] {
      let before = try await store.readerWaitCount()
      let found = try await world.resolve(.resolve, guids, by: "_alice", fetchesRoot: true)
      counts.append(try await store.readerWaitCount() - before - 1)
      #expect(found.map { $0["rootRecord"]?.name } == guids.map { _ in "r" })
    }
    // The first one meets the zone and its symbols.
    #expect(counts[1] > 0 && counts[1] == counts[2], "\(counts)")
    await store.close()
  }

  /// A zone in a store whose reads have one session.
  private func withOneSession() async throws -> (any ShardStore, RecordPlaneWorld) {
    var options = StoreOptions()
    options.readerThreadCount = 1
    let store = try await openedOnPostgreSQL(
      AssetFolder(directory: "/nonexistent"), keys: KeyRing(), options: options)
    let world = RecordPlaneWorld(store)
    try await world.makeZone()
    return (store, world)
  }

  private func make(_ names: [String], in world: RecordPlaneWorld) async throws {
    let operations = names.map {
      #"{"operationType":"create","record":{"recordName":"\#($0)","recordType":"Note"}}"#
    }
    let body = #"{"operations":[\#(operations.joined(separator: ","))],"zoneID":{"zoneName":"Trips"}}"#
    #expect(try await world.post("records/modify", body).status == 200)
  }

  private static func insertion(_ name: String) -> String {
    #"""
    {"changeType":"insert","entity":"Tag","objectID":"\#(name)","attributes":{"name":"\#(name)"}}
    """#
  }

  /// The look-ups of bodies while `body` ran that cost a round trip of their own.
  private func lookups(_ store: any ShardStore, during body: () async throws -> Void) async throws -> Double {
    func count() -> Double { store.statistics.first { $0.name == "unexpected_lookups_total" }?.value ?? .nan }
    let before = count()
    try await body()
    return count() - before
  }
}

extension ShardStore {
  /// How often the idle session for reads has waited for its server. The count itself waits once more.
  fileprivate func readerWaitCount() async throws -> Int {
    try await read { snapshot in
      guard case .postgreSQL(let session) = (snapshot as? SQLiteSnapshot)?.session.connection else { return 0 }
      return session.waitCount
    }
  }
}

/// Keeps what bodies announce, for stores that do not ask.
private final class ListeningStore: ShardStore {
  private let base: any ShardStore
  private let announced = Mutex<[ExpectedLookup]>([])

  init(_ base: any ShardStore) { self.base = base }

  /// The announced look-ups since the last call.
  func take() -> [ExpectedLookup] {
    announced.withLock { announced in
      defer { announced = [] }
      return announced
    }
  }

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var statistics: [StoreStatistic] { base.statistics }

  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> {
    announced.withLock { $0 += lookups() }
    return base.enqueue(expecting: lookups, body)
  }

  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    try await base.read(body)
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    try await base.removeUnknownContent(after: part)
  }
  func close() async { await base.close() }
}

private let number = Atomic(0)

/// A new shard in PostgreSQL.
func openedOnPostgreSQL(_ assets: any AssetStore, keys: KeyRing, options: StoreOptions = StoreOptions()) async throws
  -> any ShardStore
{
  var configuration = PostgreSQLConfiguration(
    address: try PrivateCluster.shared.get().address, assets: assets, keys: keys, options: options)
  configuration.schemaPrefix = "plane_\(number.add(1, ordering: .relaxed).newValue)_"
  configuration.allowsAsynchronous = true
  // Machines that run tests are busy.
  configuration.bodyLimit = .seconds(60)
  return try await PostgreSQLRecordStore(configuration, shardCount: 1).open(shard: 0)
}
