import Foundation
import Indexing
import Records
import SQLite
import Testing

@testable import RecordStore

/// Indexes of the SQLite store: filling, removal, and searches that read no more than necessary.
struct IndexMaintenanceTests {
  static let titles = Sample.titles
  static let everything = IndexRange(lower: [], upper: [0xff])

  /// Slices so small that a fill takes many commits.
  static var options: SQLiteRecordStore.Options {
    var options = SQLiteRecordStore.Options()
    options.indexSliceLimit = 5
    options.sweepLimit = 5
    options.groupBodyLimit = 1
    return options
  }

  static func count(_ shard: any ShardStore, _ index: Int64, in zone: Int64) async throws -> Int {
    try await shard.read { try $0.entryCount(of: index, in: zone, range: everything, limit: 100_000) }
  }

  static func problems(_ shard: any ShardStore) async throws -> [String] {
    try await #require(shard as? SQLiteShardStore).verify().problems
  }

  /// The number of index entries that satisfy a condition.
  static func entries(_ folder: TemporaryFolder, where condition: String = "1") throws -> Int {
    let connection = try Connection(exclusive: folder.path + "/shard-0.sqlite", mode: .readOnly)
    defer { connection.close() }
    return try connection.statement(SQL("count", "SELECT count(*) FROM entry WHERE \(condition)")).first { $0.int(0) }
      ?? -1
  }

  @Test func `saves that come while an index is filled in are in it once, and readers see it when it is ready`()
    async throws
  {
    let folder = try TemporaryFolder()
    let shard = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path, options: Self.options), shardCount: 1
    ).open(shard: 0)
    let places = [
      try await Place(in: shard), try await Place(in: shard, zone: "b"), try await Place(in: shard, zone: "c"),
    ]
    try await shard.write { transaction in
      for place in places {
        for number in 0..<100 { try transaction.save(Sample.note("n\(number)", title: "old \(number)"), in: place) }
      }
    }
    // All are queued before the first runs: with one body in a group, a slice follows each.
    let made = shard.enqueue { transaction in
      let index = try transaction.makeIndex(Self.titles, in: places[0].database)
      #expect(!index.isReady)
    }
    var generator = SeededGenerator(seed: 5)
    var pending: [PendingCommit<Bool>] = []
    for round in 0..<120 {
      let (place, number) = (
        places[[0, 2][Int.random(in: 0..<2, using: &generator)]], Int.random(in: 0..<130, using: &generator)
      )
      pending.append(
        shard.enqueue { transaction in
          if number % 5 == 0 {
            _ = try transaction.delete("n\(number)", in: place)
          } else {
            try transaction.save(Sample.note("n\(number)", title: "new \(round)"), in: place)
          }
          if round == 30 {
            // A zone is deleted and made again while the index is being filled.
            try transaction.deleteZone(places[1].zone)
            let zone = try transaction.makeZone(named: "b", in: places[1].database)
            try transaction.save(Sample.note("fresh"), in: Place(database: places[1].database, zone: zone.key))
          }
          return try transaction.indexes(in: place.database).allSatisfy(\.isReady)
        })
    }
    try await made.value
    var unreadyCount = 0
    for commit in pending where try await !commit.value { unreadyCount += 1 }
    #expect(unreadyCount > 30)
    try await shard.settleIndexes()
    #expect(try await Self.problems(shard) == [])
    await shard.close()
  }

  @Test func `filling in and removing go on where they were after the shard was closed in between`() async throws {
    let folder = try TemporaryFolder()
    var options = Self.options
    options.indexSliceLimit = 3
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path, options: options), shardCount: 1)
    var shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { transaction in
      for number in 0..<300 { try transaction.save(Sample.note("\(number)"), in: place) }
    }
    // Closing waits for queued bodies, but not for background work.
    let made = shard.enqueue { try $0.makeIndex(Self.titles, in: place.database) }
    await shard.close()
    let index = try await made.value
    #expect(try Self.entries(folder) < 300)
    shard = try await store.open(shard: 0)
    var reopened = 0
    while try await !shard.read({ try $0.indexes(in: place.database).allSatisfy(\.isReady) }), reopened < 200 {
      await shard.close()
      shard = try await store.open(shard: 0)
      reopened += 1
    }
    #expect(try await Self.count(shard, index.key, in: place.zone) == 300)
    #expect(try await Self.problems(shard) == [])
    let dropped = shard.enqueue { try $0.dropIndex(index.key) }
    await shard.close()
    try await dropped.value
    #expect(try Self.entries(folder) > 0)
    shard = try await store.open(shard: 0)
    for _ in 0..<1000 where try Self.entries(folder) > 0 { try await shard.write { _ in } }
    #expect(try Self.entries(folder) == 0)
    #expect(try await Self.problems(shard) == [])
    await shard.close()
  }

  @Test func `the entries of a deleted zone are removed, and other zones keep theirs`() async throws {
    let folder = try TemporaryFolder()
    let shard = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path, options: Self.options), shardCount: 1
    ).open(shard: 0)
    let (place, other) = (try await Place(in: shard), try await Place(in: shard, zone: "b"))
    let index = try await shard.write { try $0.makeIndex(Self.titles, in: place.database) }
    try await shard.write { transaction in
      for number in 0..<30 {
        for place in [place, other] { try transaction.save(Sample.note("\(number)"), in: place) }
      }
      try transaction.deleteZone(place.zone)
    }
    for _ in 0..<1000 where try Self.entries(folder, where: "zone = \(place.zone)") > 0 {
      try await shard.write { _ in }
    }
    #expect(try Self.entries(folder, where: "zone = \(place.zone)") == 0)
    #expect(try await Self.count(shard, index.key, in: other.zone) == 30)
    #expect(try await Self.problems(shard) == [])
    await shard.close()
  }

  @Test func `a search by an index and a scan of a type read just their own part of it`() throws {
    let folder = try TemporaryFolder()
    let connection = try ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1).takeOver()
      .connection
    defer { connection.close() }
    func plan(_ query: some Query) throws -> [String] {
      try connection.statement(SQL("plan \(query.sql(.sqlite).name)", "EXPLAIN QUERY PLAN " + query.text(.sqlite))).all
      { $0.text(3) }
    }
    #expect(
      try plan(IndexQuery.entriesUp) == [
        "SEARCH e USING PRIMARY KEY (zone=? AND fieldindex=? AND (key,name)>(?,?) AND key<?)",
        "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)",
      ])
    #expect(
      try plan(IndexQuery.entriesDown) == [
        "SEARCH e USING PRIMARY KEY (zone=? AND fieldindex=? AND key>? AND (key,name)<(?,?))",
        "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)",
      ])
    #expect(
      try plan(IndexQuery.countEntries).contains(
        "SEARCH entry USING PRIMARY KEY (zone=? AND fieldindex=? AND key>? AND key<?)"))
    #expect(try plan(StoredRecordQuery.ofType) == ["SEARCH record USING INDEX record_name (zone=? AND name>?)"])
    #expect(
      try plan(StoredRecordQuery.changesBackwards) == [
        "SEARCH record USING INDEX record_changes (zone=? AND seq>? AND seq<?)"
      ])
    #expect(
      try plan(IndexQuery.deleteEntry) == [
        "SEARCH entry USING PRIMARY KEY (zone=? AND fieldindex=? AND key=? AND name=?)"
      ])
    for query in [ZoneQuery.afterName, .live, .liveCount, .anyWithRecords] {
      let steps = try plan(query)
      #expect(steps.count == 1 && steps[0].hasSuffix("INDEX zone_live (database=? AND name>?)"), "\(query): \(steps)")
    }
    #expect(try plan(IndexQuery.inDatabase) == ["SEARCH fieldindex USING INDEX fieldindex_database (database=?)"])
  }

  @Test func `verification sees an entry that is missing, wrong, or of no index`() async throws {
    for (damage, words) in [
      ("DELETE FROM entry WHERE name = 'b'", "is missing"),
      ("UPDATE entry SET key = x'03' WHERE name = 'b'", "is missing"),
      ("UPDATE entry SET record = 1 WHERE name = 'c'", "is missing"),
      (
        "INSERT INTO entry SELECT zone, fieldindex, x'0377', name, record FROM entry WHERE name = 'b'",
        "has 4 entries, the records have 3"
      ),
      (
        "INSERT INTO entry SELECT zone, 999, key, name, record FROM entry WHERE name = 'b'",
        "an index that does not exist has entries"
      ),
    ] {
      let folder = try TemporaryFolder()
      let store = try StoredFormatTests.store(folder)
      var shard = try await store.open(shard: 0)
      let place = try await Place(in: shard)
      _ = try await shard.write { try $0.makeIndex(Self.titles, in: place.database) }
      try await shard.settleIndexes()
      try await shard.write { transaction in
        for name in ["a", "b", "c"] { try transaction.save(Sample.note(name), in: place) }
      }
      #expect(try await Self.problems(shard) == [])
      await shard.close()
      try StoredFormatTests.execute(damage, in: folder)
      shard = try await store.open(shard: 0)
      #expect(try await Self.problems(shard).contains { $0.contains(words) }, "\(damage)")
      await shard.close()
    }
  }
}
