import History
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

@testable import RecordPlane
@testable import WorkerHost

/// A shard's data of users: its counts, and its removal with a deleted user.
struct UserRemovalTests {
  private static func report(_ subject: String, _ query: [String: String], in world: RecordPlaneWorld) async throws
    -> JSONValue
  {
    let reports = WorkerReports(stores: [world.store], openingCount: 0, pendingPingCount: 0)
    return try JSONValue(parsing: try await reports.answer(WorkerReport(subject: subject, query: query)))
  }

  /// Alice's zone, shared with Bob and Carol.
  private static func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.modify([RecordPlaneWorld.note("a"), RecordPlaneWorld.note("b")])
    _ = try await world.shareZone(with: [("bob", "READ_WRITE"), ("carol", "READ_WRITE")])
    return world
  }

  @Test func `databases are counted with bytes and live records, and fields by the records that have them`()
    async throws
  {
    let world = try await Self.world()
    _ = try await world.operate("create", "c", fields: #"{"count":{"value":7}}"#)
    _ = try await world.operate("forceDelete", "b", type: nil)
    let usage = try await Self.report("usage", ["owner": "_alice"], in: world)
    let row = try #require(usage["usage"]?.elements.first)
    // The share is a record, too.
    #expect(
      row["records"]?.int64 == 3 && (row["bytes"]?.int64 ?? 0) > 0 && usage["shards"]?.elements.map(\.int64) == [0])
    #expect(try await Self.report("usage", ["container": "iCloud.other"], in: world)["usage"]?.count == 0)
    #expect(try await Self.report("usage", ["owner": "_alice", "generation": "1"], in: world)["usage"]?.count == 0)
    let fields = try await Self.report(
      "fields", ["fields": "Note\ttitle\nNote\tcount\nNote\tnone\nOther\ttitle"], in: world)
    #expect(fields["fields"]?.elements.map { $0["records"]?.int64 } == [1, 1, 0, 0] && fields["shards"]?.count == 1)
  }

  @Test func `a report that may look at no more says that it did not come to the end`() async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    for start in stride(from: 0, to: 400, by: 200) {
      _ = try await world.modify((start..<start + 200).map { RecordPlaneWorld.note("n\($0)") })
    }
    let reports = WorkerReports(stores: [world.store], openingCount: 0, pendingPingCount: 0)
    func fields(_ budget: ReportBudget) async throws -> JSONValue {
      var output = JSONWriter()
      output.beginObject()
      await reports.writeFieldCounts(["fields": "Note\ttitle"], budget, to: &output)
      output.endObject()
      return try JSONValue(parsing: output.bytes)
    }
    func usage(_ budget: ReportBudget) async throws -> JSONValue {
      var output = JSONWriter()
      output.beginObject()
      await reports.writeUsage([:], budget, to: &output)
      output.endObject()
      return try JSONValue(parsing: output.bytes)
    }
    var budget = ReportBudget(time: .seconds(60))
    budget.recordCount = 401
    #expect(try await fields(budget)["fields"]?.elements.first?["records"]?.int64 == 400)
    budget.recordCount = 200
    let cut = try await fields(budget)
    #expect(cut["fields"]?.elements.first?["records"]?.int64 == 200 && cut["shards"]?.count == 0)
    #expect(try await usage(ReportBudget(time: .zero))["usage"]?.count == 0)
  }

  @Test func `an owner who is deleted takes zones, journal and subscriptions along, and participants are told`()
    async throws
  {
    let world = try await Self.world()
    let subscription =
      #"""
      {"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"zone",\#
      "zoneID":{"zoneName":"Trips"}}}]}
      """#
    #expect(try await world.post("subscriptions/modify", subscription).status == 200)
    _ = world.changes.take()
    let removal = UserRemoval(context: world.plane.context.commits, user: "_alice")
    let done = try await removal.run(on: world.store)
    #expect(done.zoneCount == 1 && done.subscriptionCount == 1)
    #expect(world.changes.take().contains { $0.zoneName == "Trips" })
    #expect(try await Self.report("usage", [:], in: world)["usage"]?.count == 0)
    let news = try await world.store.read { try $0.shareNews(after: 0, limit: 100) }
    let ended = ["_bob", "_carol"].map { StoredShareNews.Subject.access(userRecordName: $0, isActive: false) }
    #expect(Set(ended).isSubset(of: news.map(\.subject)))
    #expect(news.count { if case .access(_, isActive: false) = $0.subject { true } else { false } } == 2)
    // Again it is nothing.
    #expect(
      try await removal.run(on: world.store)
        == ForgetUser.Reply(zoneCount: 0, shareCount: 0, storeCount: 0, subscriptionCount: 0))
  }

  @Test func `a participant who is deleted leaves, and what they wrote and who else takes part stays`() async throws {
    let world = try await Self.world()
    _ = try await world.modify([RecordPlaneWorld.note("bobs")], by: "_bob")
    _ = world.changes.take()
    let done = try await UserRemoval(context: world.plane.context.commits, user: "_bob").run(on: world.store)
    #expect(done.shareCount == 1 && done.zoneCount == 0)
    #expect(!world.changes.take().isEmpty)
    let people = try await world.currentShare().people
    #expect(people.contains { $0.hasPrefix("_carol") } && !people.contains { $0.hasPrefix("_bob") })
    #expect(try await world.lookUp(["bobs"]).records.first?.code == nil)
    #expect(
      try await world.shared(
        "records/query", #"{"query":{"recordType":"Note"},\#(RecordPlaneWorld.zoneID())}"#, by: "_bob"
      ).status != 200)
    #expect(
      try await UserRemoval(context: world.plane.context.commits, user: "_bob").run(on: world.store).shareCount == 0)
  }

  @Test func `the stores of a user go wherever they are, without what waits for its export`() async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      try await world.export("A", Edit.insertTag("T1"))
      let context = RecordPlaneWorld(world.store).plane.context.commits
      let done = try await UserRemoval(context: context, user: "_alice").run(on: world.store)
      #expect(done.storeCount == 1 && done.zoneCount == 1)
      #expect(try await world.store.read { try $0.mirrors(afterKey: 0, limit: 10).isEmpty })
    }
  }

  /// Alice's store with so many exported transactions, transactions that are not exported, and held-back changes.
  private static func fill(_ world: ObjectPlaneWorld, _ count: Int) async throws {
    let device = try await Device("A", world)
    func inserts(_ kind: String) -> [HistoryTransaction] {
      (1...count).map { number in
        HistoryTransaction(
          transactionID: "\(kind) \(number)", timestamp: 0,
          changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "\(kind)-\(number)")])
      }
    }
    let held = (1...count).map { number in
      HistoryChange(
        changeType: .update, entity: "Tag", objectID: "unknown \(number)",
        attributes: [NamedValue(name: "name", value: .string("x"))])
    }
    try await world.appendWithoutExport(inserts("exported"), to: "A")
    try await world.appendWithoutExport([HistoryTransaction(transactionID: "t", timestamp: 0, changes: held)], to: "A")
    try await device.pull()
    #expect(try await world.get("A/status").json["quarantined"]?.int64 == Int64(count))
    try await world.appendWithoutExport(inserts("waiting"), to: "A")
  }

  private static func stores(_ world: ObjectPlaneWorld) async throws -> [StoredMirror] {
    try await world.store.read { try $0.mirrors(afterKey: 0, limit: 10) }
  }

  private static func removal(_ world: ObjectPlaneWorld) -> UserRemoval {
    UserRemoval(context: RecordPlaneWorld(world.store).plane.context.commits, user: "_alice")
  }

  @Test(arguments: StoreKind.allCases) func `a store with a long history is removed in slices`(_ kind: StoreKind)
    async throws
  {
    var few = 0
    for count in [2, 600] {
      try await ObjectPlaneWorld.with(kind) { world in
        try await Self.fill(world, count)
        let lines = Lines()
        let shard = LineShard(base: world.store, lines: lines, party: "_alice")
        #expect(try await Self.removal(world).run(on: shard).storeCount == 1)
        #expect(try await Self.stores(world).isEmpty)
        if few == 0 { few = lines.all.count }
        if count > 2 { #expect(lines.all.count >= few + 8, "\(lines.all.count) \(few)") }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a long journal is removed in slices`(_ kind: StoreKind) async throws {
    var few = 0
    for count in [2, 350] {
      try await ObjectPlaneWorld.with(kind) { world in
        try await world.setUp("A")
        let database = try #require(try await Self.stores(world).first).databaseKey
        try await world.store.enqueue { transaction in
          for number in 1...count {
            let conflict = StoredConflict(
              databaseKey: database, zoneName: "Z", recordName: "\(number)", entity: "Tag", kind: 1, state: 1,
              userRecordName: "_alice", deviceID: "", at: 1)
            _ = try transaction.appendConflict(conflict, content: [1], assets: [])
          }
        }.value
        let lines = Lines()
        _ = try await Self.removal(world).run(on: LineShard(base: world.store, lines: lines, party: "_alice"))
        let use = try await world.store.read { try $0.conflictUse(in: database, of: "_alice") }
        #expect(use == ConflictUse())
        if few == 0 { few = lines.all.count }
        if count > 2 { #expect(lines.all.count == few + 3, "\(lines.all.count) \(few)") }
      }
    }
  }

  @Test func `a removal that was cut off goes on where it was, and leaves stores of others alone`() async throws {
    /// Commits before the one that fails.
    let left = Mutex<Int?>(nil)
    try await ObjectPlaneWorld.with(
      .memory,
      commitFailure: { _ in
        left.withLock { left in
          guard let count = left else { return nil }
          left = count > 0 ? count - 1 : nil
          return count > 0 ? nil : .io("cut off")
        }
      }
    ) { world in
      try await Self.fill(world, 600)
      let whole = try #require(try await Self.stores(world).first)
      let other = try await world.store.enqueue { transaction in
        try transaction.makeMirror(
          "B", in: whole.databaseKey, userRecordName: "_bob", scope: .private, modelHash: whole.modelHash,
          configuration: nil, deviceName: nil, createdAt: 0)
      }.value
      left.withLock { $0 = 8 }
      await #expect(throws: StoreError.self) { try await Self.removal(world).run(on: world.store) }
      let cut = try #require(try await Self.stores(world).first)
      #expect(cut.quarantinedCount == 0 && cut.purgedTransactionNumber == 1000)
      #expect(try await Self.removal(world).run(on: world.store).storeCount == 1)
      #expect(try await Self.stores(world).map(\.key) == [other.key])
    }
  }
}
