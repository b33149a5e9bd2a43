import Records
import SQLite
import Testing

@testable import RecordStore

/// A shard that was divided: it has its own databases only, and loses the rows of the others.
struct DivisionTests {
  /// Of the script's databases `0` and `1` are in it, and `2` is not.
  private static let part = ShardPart(modulus: 4, remainder: 0)
  private static let owners = ["0", "1", "2"].map(Sample.database)

  private static func fill(_ shard: any ShardStore, seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    for step in 1...150 {
      let script = Script(using: &generator, at: Int64(step))
      // Dropped because many scripts fail on purpose.
      _ = try? await shard.write { try script.run(in: $0) }
    }
    for (number, owner) in owners.enumerated() {
      _ = try await shard.write { transaction in
        let database = try transaction.makeDatabase(owner).key
        let place = Place(
          database: database, zone: try transaction.makeZone(named: "notes", in: database).key)
        var note = Sample.note("shared")
        note.shortGUID = "guid \(number)"
        try transaction.save(note, in: place)
      }
    }
  }

  private static func narrow(_ shard: any ShardStore) async throws {
    let store = try #require(shard as? SQLiteShardStore)
    try await store.enqueue(of: "", runsAlone: true) { try $0.narrow(to: #require(part), by: 4711, for: 1) }.value
    await #expect(throws: StoreError.fenced(shard: 0, epoch: shard.epoch + 1)) { try await shard.write { _ in } }
    await shard.close()
  }

  /// Tells a divided shard that the new shard may be opened, so that it removes the rows of that one.
  private static func endSplit(_ shard: any ShardStore) async throws {
    let store = try #require(shard as? SQLiteShardStore)
    try await store.enqueue(of: "", runsAlone: true) { try $0.forgetSplit() }.value
    #expect(shard.pendingSplit == nil)
  }

  private static func keys(_ owners: [DatabaseID], in shard: any ShardStore) async throws -> [Int64] {
    try await shard.read { snapshot in try owners.compactMap { try snapshot.database($0)?.key } }
  }

  @Test(arguments: StoreKind.queued, [1, 2, 3] as [UInt64])
  func `a divided shard keeps all rows of its databases, shows no others at once, and has none in the end`(
    kind: StoreKind, seed: UInt64
  ) async throws {
    var options = SQLiteRecordStore.Options()
    options.keepsPastStates = true
    let world = try World(kind, shardCount: 1, options: options)
    var shard = try await world.store.open(shard: 0)
    #expect(shard.part == nil)
    try await Self.fill(shard, seed: seed)
    try await shard.settle()
    let (kept, other) = (
      try await Self.keys(Array(Self.owners.prefix(2)), in: shard), try await Self.keys([Self.owners[2]], in: shard)
    )
    try #require(kept.count == 2 && other.count == 1)
    let before = try await shard.read { try OwnRows.tallies(of: kept, in: #require($0 as? SQLiteSnapshot)) }
    try await Self.narrow(shard)

    shard = try await world.store.open(shard: 0, knownEpoch: 1)
    #expect(shard.part == Self.part)
    try await Self.expectNone(of: other[0], in: shard)
    await #expect(throws: StoreError.closed(shard: 0)) { try await shard.read { try $0.database(Self.owners[2]) } }
    await #expect(throws: StoreError.closed(shard: 0)) { try await shard.write { try $0.makeDatabase(Self.owners[2]) } }
    try await Self.endSplit(shard)
    try await shard.settle()
    try await Self.expectNone(of: other[0], in: shard)
    try await shard.read { snapshot in
      let snapshot = try #require(snapshot as? SQLiteSnapshot)
      #expect(try OwnRows.tallies(of: kept, in: snapshot) == before)
      #expect(try OwnRows.strangers(to: kept, in: snapshot) == [])
    }
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()

    shard = try await world.store.open(shard: 0, knownEpoch: 1)
    #expect(shard.part == Self.part && (shard as? SQLiteShardStore)?.core.extent.hasOthers == false)
    await shard.close()
  }

  /// Expects no row of a database in what is found without it.
  private static func expectNone(of other: Int64, in shard: any ShardStore) async throws {
    // Small pages, so that some have rows of the other database alone.
    try await shard.read { snapshot in
      #expect(try !snapshot.databases(afterKey: 0, limit: 99).map(\.key).contains(other))
      #expect(try !snapshot.databases(afterKey: other - 1, limit: 1).map(\.key).contains(other))
      for limit in [1, 2, 99] {
        var last: Int64 = 0
        while let mirror = try snapshot.mirrors(afterKey: last, limit: limit).last {
          #expect(mirror.databaseKey != other)
          last = mirror.key
        }
      }
      for key in try snapshot.mirrorsAwaitingExport(afterKey: 0, limit: 99)
        + snapshot.mirrorsWithQuarantine(afterKey: 0, limit: 99)
      {
        #expect(try snapshot.mirror(key: key)?.databaseKey != other)
      }
      let owner = owners[2]
      #expect(try !snapshot.shareNews(after: 0, limit: 999).map(\.database).contains(owner))
      #expect(try !snapshot.members(after: nil, limit: 999).map(\.databaseKey).contains(other))
      let zones = try snapshot.zonesWithPendingRedirects(in: nil, afterKey: 0, limit: 99)
      #expect(!zones.map(\.databaseKey).contains(other))
      #expect(try snapshot.record(withShortGUID: "guid 0") != nil)
      #expect(try snapshot.record(withShortGUID: "guid 2") == nil)
    }
  }

  @Test(arguments: StoreKind.queued)
  func `a divided shard keeps the rows of the other half until the new shard may be opened`(kind: StoreKind)
    async throws
  {
    let world = try World(kind, shardCount: 1)
    var shard = try await world.store.open(shard: 0)
    try await Self.fill(shard, seed: 6)
    try await shard.settle()
    #expect(shard.pendingSplit == nil)
    let other = try await Self.keys([Self.owners[2]], in: shard)
    let before = try await shard.read { try OwnRows.tallies(of: other, in: #require($0 as? SQLiteSnapshot)) }
    try await Self.narrow(shard)

    // Several owners in a row.
    for epoch in 1...3 {
      shard = try await world.store.open(shard: 0, knownEpoch: Int64(epoch))
      #expect(shard.pendingSplit == PendingSplit(shard: 1, number: 4711, cluster: nil))
      for _ in 0..<20 { try await shard.write { _ in } }
      #expect(try await shard.read { try OwnRows.tallies(of: other, in: #require($0 as? SQLiteSnapshot)) } == before)
      try await Self.expectNone(of: other[0], in: shard)
      if epoch < 3 { await shard.close() }
    }
    try await Self.endSplit(shard)
    try await shard.settle()
    let kept = try await Self.keys(Array(Self.owners.prefix(2)), in: shard)
    let strangers = try await shard.read { try OwnRows.strangers(to: kept, in: #require($0 as? SQLiteSnapshot)) }
    #expect(strangers == [])
    await shard.close()
    shard = try await world.store.open(shard: 0, knownEpoch: 1)
    #expect(shard.pendingSplit == nil)
    await shard.close()
  }

  @Test(arguments: StoreKind.queued)
  func `a shard whose division waits for its last step is not divided again, and keeps the note`(kind: StoreKind)
    async throws
  {
    let world = try World(kind, shardCount: 1)
    try await Self.narrow(try await world.store.open(shard: 0))
    let shard = try await world.store.open(shard: 0, knownEpoch: 1)
    let store = try #require(shard as? SQLiteShardStore)
    let quarter = try #require(Self.part?.halves?.staying)
    await #expect(throws: StoreError.dividing(0, into: 1)) {
      try await store.enqueue(of: "", runsAlone: true) { try $0.narrow(to: quarter, by: 4712, for: 2) }.value
    }
    try await shard.write { _ in }
    #expect(shard.pendingSplit == PendingSplit(shard: 1, number: 4711, cluster: nil))
    try await Self.endSplit(shard)
    try await store.enqueue(of: "", runsAlone: true) { try $0.narrow(to: quarter, by: 4712, for: 2) }.value
    await shard.close()
    let next = try await world.store.open(shard: 0, knownEpoch: 1)
    #expect(next.part == quarter && next.pendingSplit?.number == 4712)
    await next.close()
  }

  @Test(arguments: StoreKind.queued)
  func `the removal of the other databases goes on after any failure, and with another owner`(kind: StoreKind)
    async throws
  {
    let world = try World(kind, shardCount: 1)
    var shard = try await world.store.open(shard: 0)
    try await Self.fill(shard, seed: 4)
    try await Self.narrow(shard)
    for epoch in 1...4 {
      shard = try await world.store.open(shard: 0, knownEpoch: Int64(epoch))
      if epoch == 1 { try await Self.endSplit(shard) }
      try await shard.write { _ in }
      await shard.close()
    }
    shard = try await world.store.open(shard: 0, knownEpoch: 1)
    try await shard.settle()
    let kept = try await Self.keys(Array(Self.owners.prefix(2)), in: shard)
    let strangers = try await shard.read { try OwnRows.strangers(to: kept, in: #require($0 as? SQLiteSnapshot)) }
    #expect(strangers == [])
    await shard.close()
  }

  /// The rows of tables that grow with the use of a store.
  private static func rowCounts(_ shard: any ShardStore) async throws -> [String: Int64] {
    try await shard.read { snapshot in
      let connection = try #require(snapshot as? SQLiteSnapshot).session.connection
      var counts: [String: Int64] = [:]
      for table in ["history", "settled", "former", "journal", "quarantine", "mirror"] {
        counts[table] = try connection.statement(SQL("count \(table)", "SELECT count(*) FROM \(table)")).first {
          $0.int64(0)
        }
      }
      return counts
    }
  }

  @Test(arguments: StoreKind.queued)
  func `no commit that removes the other half takes more than a slice of a store's history`(kind: StoreKind)
    async throws
  {
    let world = try World(kind, shardCount: 1)
    let whole = try await world.store.open(shard: 0)
    let place = try await Place(in: whole, owner: "2")
    for identifier in ["phone", "tablet"] {
      let mirror = try await HistoryConformanceTests.makeMirror(in: whole, identifier, database: place.database).key
      for hundred in 0..<13 as Range<Int64> {
        _ = try await whole.write { transaction in
          for number in hundred * 100 + 1...hundred * 100 + 100 {
            try transaction.append(HistoryConformanceTests.transaction(number), to: mirror)
          }
        }
      }
      _ = try await whole.write { try $0.purgeTransactions(of: mirror, through: 600) }
      if identifier == "tablet" { try await whole.write { try $0.deleteMirror(mirror) } }
    }
    var counts = try await Self.rowCounts(whole)
    #expect(counts["history"] == 700 && counts["settled"] == 1900 && counts["former"] == 1 && counts["mirror"] == 1)
    try await Self.narrow(whole)

    // Its own removal waits for the new shard.
    let shard = try await world.store.open(shard: 0, knownEpoch: 1)
    let store = try #require(shard as? SQLiteShardStore)
    while store.core.extent.hasOthers {
      _ = try await store.enqueue(of: "", runsAlone: true) { try $0.removeOthers(limit: 100) }.value
      let rest = try await Self.rowCounts(shard)
      for (table, count) in counts {
        let left = try #require(rest[table])
        #expect(left <= count && left >= count - 500, "\(table)")
      }
      #expect(try await shard.verify(readsAssets: false).problems == [])
      await #expect(throws: StoreError.closed(shard: 0)) { try await shard.write { try $0.database(Self.owners[2]) } }
      counts = rest
    }
    #expect(counts.values.allSatisfy { $0 == 0 })
    try await Self.endSplit(shard)
    try await shard.settle()
    let strangers = try await shard.read { try OwnRows.strangers(to: [0], in: #require($0 as? SQLiteSnapshot)) }
    #expect(strangers == [])
    await shard.close()
  }

  @Test(arguments: StoreKind.queued)
  func `a shard of an installation of another size is refused, and one that was split off is never made`(
    kind: StoreKind
  ) async throws {
    let world = try World(kind, shardCount: 2)
    for epoch in 0...1 as ClosedRange<Int64> {
      await #expect { try await world.store.open(shard: 2, knownEpoch: epoch) } throws: {
        if case StoreError.foreign(let reason) = $0 { reason.contains("missing") } else { false }
      }
    }
    await #expect(throws: StoreError.io("there is no shard -1")) { try await world.store.open(shard: -1) }
    #expect(throws: StoreError.self) {
      try ShardPart.stored(6, nil, ofShard: 0, of: 2, in: "it")
    }
    for (modulus, remainder) in [(1, 0), (-2, 0), (3, 1), (4, 4)] as [(Int64, Int64)] {
      #expect(throws: StoreError.self) { try ShardPart.stored(modulus, remainder, ofShard: 0, of: 2, in: "it") }
    }
    #expect(try ShardPart.stored(2, nil, ofShard: 1, of: 2, in: "it") == nil)
    #expect(try ShardPart.stored(4, 3, ofShard: 2, of: 2, in: "it") == ShardPart(modulus: 4, remainder: 3))
  }

  @Test(arguments: [true, false])
  func `a divided shard moves between the engines, and a backup of it is one`(toDatabase: Bool) async throws {
    let places = try Places()
    var shard = try await places.store(isInDatabase: !toDatabase).open(shard: 0)
    try await Self.fill(shard, seed: 5)
    let store = try #require(shard as? SQLiteShardStore)
    let part = try #require(ShardPart(modulus: 4, remainder: 0))
    try await store.enqueue(of: "", runsAlone: true) { try $0.narrow(to: part, by: 1, for: 2) }.value
    await shard.close()
    let tally = try await places.migration(toDatabase: toDatabase).run()
    #expect(tally.moved == 1)
    shard = try await places.store(isInDatabase: toDatabase).open(shard: 0)
    #expect(shard.part == part && shard.pendingSplit == PendingSplit(shard: 2, number: 1, cluster: nil))
    try await Self.endSplit(shard)
    try await shard.settle()
    let kept = try await Self.keys(Array(Self.owners.prefix(2)), in: shard)
    let strangers = try await shard.read { try OwnRows.strangers(to: kept, in: #require($0 as? SQLiteSnapshot)) }
    #expect(strangers == [])
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()
  }
}
