// Saves that name many large records: the check before a save keeps the shard's writer, and reads little.

import History
import Mirroring
import Records
import ServiceBus
import Testing

@testable import ObjectPlane
@testable import RecordStore
@testable import ZoneCommit

/// Rights to all records but some.
private struct Rights: RecordAccess {
  var forbidden: Set<String> = []

  func mayRead(_ record: Record) -> Bool { true }
  func mayCreate(_ record: Record) -> Bool { true }
  func mayWrite(_ record: Record) -> Bool { !forbidden.contains(record.recordName) }
  func mayRead(_ state: PastState, by reader: PastReader) -> Bool { true }
}

struct SaveReadingTests {
  private static let byteCount = 60_000

  /// A store whose zone has tags of 60 kB, with the names `T0`, `T1`, … and a deleted one named `T`.
  private static func with(
    _ count: Int, _ body: (ObjectPlaneWorld, _ mirrorKey: Int64) async throws -> Void
  ) async throws {
    try await ObjectPlaneWorld.with(.sqlite) { world in
      try await world.setUp("A")
      let made = #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"x"}}"#
      try await world.save("A", made, query: ["wait": "export"])
      try await world.save("A", #"{"changeType":"delete","entity":"Tag","objectID":"T"}"#, query: ["wait": "export"])
      let id = world.request("GET", "stores/A").database
      let key = try await world.store.enqueue { transaction in
        let database = try #require(try transaction.database(id)).key
        let zone = try #require(try transaction.zone(named: ReservedName.privateMirrorZone, in: database)).key
        let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
        for number in 0..<count {
          let record = Record(
            recordName: "T\(number)", recordType: "CD_Tag",
            fields: [
              ReservedName.entityName: .string("Tag"), "CD_name": .string(String(repeating: "x", count: byteCount)),
            ], created: stamp, modified: stamp)
          try transaction.put(
            StoredRecord(
              record: record, isDeleted: false, sequence: try transaction.nextSequence(in: database), origin: 0,
              sequenceOfOthers: 0), in: zone, references: [], isNew: true)
        }
        return try #require(try transaction.mirror("A", in: database)).key
      }.value
      try await body(world, key)
    }
  }

  private static func updates(_ names: [String], id: String = "TX") -> HistoryTransaction {
    HistoryTransaction(
      transactionID: id, timestamp: 0,
      changes: names.map {
        HistoryChange(
          changeType: .update, entity: "Tag", objectID: $0,
          attributes: [NamedValue(name: "name", value: .string("y"))])
      })
  }

  /// Runs a check in a body of the writer.
  /// - Returns: the number of records that it read.
  private static func readCount(
    in world: ObjectPlaneWorld, _ mirrorKey: Int64,
    _ check: @escaping @Sendable (StoredMirror, any ShardTransaction) throws -> Void
  ) async throws -> Int {
    try await world.store.enqueue { transaction in
      try check(try #require(try transaction.mirror(key: mirrorKey)), transaction)
      return try #require(transaction as? SQLiteTransaction).seen.count
    }.value
  }

  @Test func `a save of many updates is checked without a look into their records, and a missing one is refused`()
    async throws
  {
    try await Self.with(100) { world, key in
      let run = try await world.exportRun(key)
      let names = (0..<100).map { "T\($0)" } + ["T"]
      let count = try await Self.readCount(in: world, key) { mirror, transaction in
        try SaveCheck([Self.updates(names)], run: run, permissions: nil)(of: mirror, in: transaction)
      }
      #expect(count == 0)
      let refusal = await #expect(throws: RecordError.self) {
        _ = try await Self.readCount(in: world, key) { mirror, transaction in
          try SaveCheck([Self.updates(names + ["nobody"])], run: run, permissions: nil)(of: mirror, in: transaction)
        }
      }
      #expect(refusal?.reason == "transactions[0]: changes[101]: Tag nobody: there is no such object")
    }
  }

  /// The batch that comes next, after the store's position or one in its place.
  /// - Returns: the batch, and the number of records that its choice read.
  private static func batch(
    in world: ObjectPlaneWorld, _ mirrorKey: Int64, after position: (number: Int64, stepCount: Int)? = nil
  ) async throws -> (batch: ExportBatch, readCount: Int) {
    let run = try await world.exportRun(mirrorKey)
    return try await world.store.enqueue { transaction in
      var mirror = try #require(try transaction.mirror(key: mirrorKey))
      if let position { (mirror.exportedTransactionNumber, mirror.exportedStepCount) = position }
      let batch = try run.nextBatch(of: mirror, in: transaction)
      return (batch, try #require(transaction as? SQLiteTransaction).seen.count)
    }.value
  }

  /// The records of a batch, which have a few bytes more than their text.
  private static let batchCounts = StoredWeight.byteLimit / (byteCount + 1000)...StoredWeight.byteLimit / byteCount

  @Test func `a save that changes many large records is exported in slices, which are chosen without them`()
    async throws
  {
    try await Self.with(400) { world, key in
      let names = (0..<400).map { "T\($0)" }
      _ = try await world.appendWithoutExport([Self.updates(names)], to: "A")
      let first = try await Self.batch(in: world, key)
      let stepCount = try #require(first.batch.slice?.steps.count)
      #expect(Self.batchCounts.contains(stepCount) && first.readCount == 0, "\(stepCount), \(first.readCount)")
      let position = try #require(first.batch.position)
      #expect(position.stepCount == stepCount)
      let second = try await Self.batch(in: world, key, after: position).batch
      #expect(second.slice?.steps.count == 400 - stepCount)
      let end = try #require(second.position)
      #expect(end.number == position.number + 1 && end.stepCount == 0)
      // Both slices arrive.
      var run = try await world.exportRun(key)
      let outcome = try await run.commit(to: world.store)
      #expect(outcome.moreComing)
      run.advance(after: outcome)
      #expect(try await !run.commit(to: world.store).moreComing)
      let tags = try await world.liveRecords().filter { $0.recordType == "CD_Tag" }
      #expect(tags.count == 400 && tags.allSatisfy { $0.fields.string("CD_name") == "y" })
    }
  }

  @Test func `saves that change large records share a batch up to sixteen megabytes of these`() async throws {
    try await Self.with(300) { world, key in
      let saves = (0..<300).map { Self.updates(["T\($0)"], id: "TX\($0)") }
      // Saves of the same records cost nothing more, and new objects have no records yet.
      let inserts = (0..<50).map { number in
        HistoryTransaction(
          transactionID: "I\(number)", timestamp: 0,
          changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "new \(number)")])
      }
      let again = (0..<20).map { Self.updates(["T\($0)"], id: "A\($0)") }
      _ = try await world.appendWithoutExport(Array(saves.prefix(20)) + inserts + again + saves.dropFirst(20), to: "A")
      let (batch, readCount) = try await Self.batch(in: world, key)
      let count = batch.transactions.count
      #expect(batch.slice == nil && readCount == 0)
      #expect(Self.batchCounts.contains(count - 70), "\(count)")
      let position = try #require(batch.position)
      let next = try await Self.batch(in: world, key, after: position).batch
      #expect(next.transactions.first?.transactionID == "TX\(count - 70)")
      #expect(next.transactions.count == 370 - count && position.stepCount == 0)
    }
  }

  @Test func `a save is judged up to sixteen megabytes of the records that it names`() async throws {
    try await Self.with(400) { world, key in
      let run = try await world.exportRun(key)
      @Sendable func check(_ names: [String], _ rights: Rights) async throws -> Int {
        try await Self.readCount(in: world, key) { mirror, transaction in
          try PermissionCheck.check([(0, Self.updates(names))], of: mirror, run, rights, in: transaction)
        }
      }
      let names = (0..<400).map { "T\($0)" }
      // What goes beyond is accepted, and the export judges it.
      let count = try await check(names, Rights(forbidden: ["T399"]))
      // The last one passes the limit.
      #expect(Self.batchCounts.contains(count - 1), "\(count)")
      for (named, forbidden) in [(names, "T10"), (names, "T240"), (Array(names.prefix(120)), "T119"), (["T0"], "T0")] {
        let refusal = await #expect(throws: RecordError.self) {
          _ = try await check(named, Rights(forbidden: [forbidden]))
        }
        #expect(refusal?.code == .accessDenied && refusal?.reason.contains(" Tag \(forbidden)") == true)
      }
    }
  }

  @Test(arguments: [nil, ReservedName.mirroringAuthorPrefix + "import"])
  func `the check of a save's rights goes through each of its changes once, however many they are`(author: String?)
    async throws
  {
    try await Self.with(0) { world, key in
      let run = try await world.exportRun(key)
      let saved = HistoryTransaction(
        transactionID: "TX", timestamp: 0, author: author,
        changes: (0..<3000).map { HistoryChange(changeType: .delete, entity: "Tag", objectID: "n\($0)") })
      let count = try await world.store.enqueue { transaction in
        let mirror = try #require(try transaction.mirror(key: key))
        let locator = try ObjectLocator(of: mirror, in: transaction)
        let source = locator.source(in: locator.defaultZone)
        return try PermissionCheck.applied([saved, saved], of: mirror, run, from: source).orderedChangeCount
      }.value
      // Of the mirroring's own changes, deletions alone matter, and they need no order.
      #expect(count == (author == nil ? 6000 : 0))
    }
  }
}
