import Records
import SQLite
import Testing

@testable import RecordStore

struct ZoneConformanceTests {
  @Test(arguments: StoreKind.allCases) func `a database is made once and found by id and key`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      #expect(try await shard.read { try $0.database(Sample.database("ada")) } == nil)
      let made = try await shard.write { try $0.makeDatabase(Sample.database("ada")) }
      let again = try await shard.write { try $0.makeDatabase(Sample.database("ada")) }
      let other = try await shard.write { try $0.makeDatabase(Sample.database("bob")) }
      #expect(made == again)
      #expect(made.sequence == 0)
      #expect(made.key != other.key)
      #expect(made.incarnation != other.incarnation)
      #expect(try await shard.read { try $0.database(Sample.database("ada")) } == made)
      #expect(try await shard.read { try $0.database(key: other.key) } == other)
      #expect(try await shard.read { try $0.database(key: 99) } == nil)
      #expect(try await shard.read { try $0.databases(afterKey: 0, limit: 9) } == [made, other])
      #expect(try await shard.read { try $0.databases(afterKey: made.key, limit: 9) } == [other])
      #expect(try await shard.read { try $0.databases(afterKey: 0, limit: 1) } == [made])
      #expect(try await shard.write { try $0.databases(afterKey: 0, limit: 0) } == [])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `sequence numbers ascend within a database, over all its zones, and survive commits`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let numbers = try await shard.write { transaction in
        try (0..<3).map { _ in try transaction.nextSequence(in: place.database) }
      }
      #expect(numbers == [2, 3, 4])
      #expect(try await shard.write { try $0.nextSequence(in: place.database) } == 5)
      let other = try await Place(in: shard, owner: "bob")
      #expect(try await shard.write { try $0.nextSequence(in: other.database) } == 2)
      #expect(try await shard.read { try $0.database(key: place.database)?.sequence } == 5)
      await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.nextSequence(in: 99) } }
    }
  }

  @Test(arguments: StoreKind.allCases) func `zones come after a sequence in the order of their last change, and page`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let places = try await [Place(in: shard, zone: "a"), Place(in: shard, zone: "b"), Place(in: shard, zone: "c")]
      let database = places[0].database
      try await shard.write { transaction in
        try transaction.save(Sample.note("1"), in: places[0])
        // Within the body, too.
        #expect(try transaction.zones(in: database, after: 0, limit: 9).map(\.zoneName) == ["b", "c", "a"])
      }
      let first = try await shard.read { try $0.zones(in: database, after: 0, limit: 2) }
      #expect(first.map(\.zoneName) == ["b", "c"])
      let rest = try await shard.read { [last = first[1].sequence] in try $0.zones(in: database, after: last, limit: 2)
      }
      #expect(rest.map(\.zoneName) == ["a"])
      #expect(try await shard.read { try $0.zones(in: database, after: rest[0].sequence, limit: 2) } == [])
      #expect(try await shard.read { try $0.zones(in: database, after: 0, limit: 0) } == [])
      #expect(try await shard.read { try $0.liveZoneCount(in: database) } == 3)
    }
  }

  @Test(arguments: StoreKind.allCases) func `live zones come by name and page, without those that ended`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      var places: [String: Place] = [:]
      for name in ["b", "d", "a", "c", "B"] { places[name] = try await Place(in: shard, zone: name) }
      let (b, c) = (try #require(places["b"]), try #require(places["c"]))
      _ = try await Place(in: shard, zone: "other", owner: "bob")
      func live(after name: String? = nil, limit: Int = 9) async throws -> [String] {
        try await shard.read { try $0.liveZones(in: b.database, afterName: name, limit: limit).map(\.zoneName) }
      }
      #expect(try await live() == ["B", "a", "b", "c", "d"])
      try await shard.write { transaction in
        try transaction.save(Sample.note("1"), in: b)
        try transaction.deleteZone(c.zone, as: .purged)
        // Within the body, too.
        let zones = try transaction.liveZones(in: b.database, afterName: "a", limit: 9)
        #expect(zones.map(\.zoneName) == ["b", "d"])
        #expect(zones.first?.sequence == (try transaction.zone(key: b.zone)?.sequence))
      }
      #expect(try await live(limit: 2) == ["B", "a"])
      #expect(try await live(after: "a", limit: 2) == ["b", "d"])
      #expect(try await live(after: "d") == [])
      #expect(try await live(limit: 0) == [])
      #expect(try await shard.read { try $0.liveZoneCount(in: b.database) } == 4)
      // The row of an ended zone keeps the reason of its end, also when it is written again.
      let ended = try await shard.read { try $0.zone(named: "c", in: b.database) }
      #expect(ended?.isDeleted == true && ended?.end == .purged && ended?.endSequence == ended?.sequence)
      let again = try await Place(in: shard, zone: "c")
      try await shard.write { _ = try $0.save(Sample.note("2"), in: again) }
      #expect(try await live(after: "b") == ["c", "d"])
      let made = try await shard.read { try $0.zone(named: "c", in: b.database) }
      #expect(made?.isDeleted == false && made?.end == .purged && made?.endSequence == ended?.endSequence)
      #expect(try await shard.read { try $0.recordCount(in: again.zone) } == 1)
    }
  }

  @Test func `a file of an earlier format finds its live zones when it is opened`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.liveZones.rawValue }
    let old = try await store.open(earlier)
    let places = try await [Place(in: old, zone: "a"), Place(in: old, zone: "b")]
    try await old.write { transaction in
      try transaction.deleteZone(places[0].zone)
      try transaction.save(Sample.note("1"), in: places[1])
    }
    await old.close()
    let shard = try await store.open(shard: 0)
    let database = places[0].database
    #expect(try await shard.read { try $0.liveZones(in: database, afterName: nil, limit: 9).map(\.zoneName) } == ["b"])
    #expect(try await shard.read { try $0.liveZoneCount(in: database) } == 1)
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
    await shard.close()
    let connection = try Connection(exclusive: folder.path + "/shard-0.sqlite", mode: .readOnly)
    let count = try connection.statement(
      SQL("index", "SELECT count(*) FROM sqlite_master WHERE name = 'zone_live'")
    ).first { $0.int64(0) }
    connection.close()
    #expect(count == 1)
    await #expect(throws: StoreError.self) { _ = try await store.open(earlier) }
  }

  @Test(arguments: StoreKind.allCases) func `a look-up by a text with NUL finds nothing`(_ kind: StoreKind) async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      @Sendable func check(_ snapshot: any ShardSnapshot) throws {
        let text = "notes\0"
        #expect(try snapshot.zone(named: text, in: place.database) == nil)
        #expect(try snapshot.record(withShortGUID: text) == nil)
        #expect(try snapshot.share(named: text, in: place.zone) == nil)
        #expect(try snapshot.share(ofRoot: text, in: place.zone) == nil)
        #expect(try snapshot.share(withOneTimeGUID: text) == nil)
        #expect(try snapshot.subscription(text, of: "alice", scope: .private, in: place.database) == nil)
        #expect(try snapshot.zone(named: "notes", in: place.database)?.key == place.zone)
      }
      try await shard.read { try check($0) }
      try await shard.write { try check($0) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `an existing zone is returned unchanged`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { _ = try $0.save(Sample.note("1"), in: place) }
      let zone = try await shard.read { try $0.zone(named: "notes", in: place.database) }
      #expect(zone?.sequence == 2)
      #expect(try await shard.write { try $0.makeZone(named: "notes", in: place.database) } == zone)
      #expect(try await shard.read { try $0.zone(key: place.zone) } == zone)
      #expect(try await shard.read { try $0.database(key: place.database)?.sequence } == 2)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a deleted zone loses its records and keeps its place in the feed`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      try await shard.write { transaction in
        for number in 0..<50 {
          try transaction.save(
            Sample.note(Sample.uuid(number)), in: place,
            references: [OutgoingReference(field: "CD_parent", target: Sample.uuid(number + 1))])
        }
        try transaction.save(Sample.note("stays"), in: other)
      }
      let before = try await shard.read { try $0.zone(key: place.zone) }
      try await shard.write { transaction in
        try transaction.deleteZone(place.zone)
        #expect(try transaction.record(named: Sample.uuid(3), in: place.zone) == nil)
        #expect(try transaction.changes(in: place.zone, after: 0, limit: 9) == [])
      }
      let after = try await shard.read { try $0.zone(named: "notes", in: place.database) }
      #expect(after?.isDeleted == true)
      #expect(after?.incarnation == before?.incarnation)
      #expect(after.map(\.sequence) == 54)
      let feed = try await shard.read { try $0.zones(in: place.database, after: before?.sequence ?? 0, limit: 9) }
      #expect(try await shard.read { try $0.liveZoneCount(in: place.database) } == 1)
      #expect(feed.last == after)
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.record(named: Sample.uuid(3), in: place.zone) == nil)
        #expect(try snapshot.changes(in: place.zone, after: 0, limit: 9) == [])
        #expect(try snapshot.records(ofType: "CD_Note", in: place.zone, afterName: nil, limit: 9) == [])
        #expect(try snapshot.references(to: Sample.uuid(4), in: place.zone) == [])
        #expect(try snapshot.counts() == ShardCounts(databases: 1, zones: 1, records: 1, mirrors: 0))
      }
      // A second deletion changes nothing.
      try await shard.write { try $0.deleteZone(place.zone) }
      #expect(try await shard.read { try $0.zone(key: place.zone) } == after)
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { _ = try $0.save(Sample.note("x"), in: place) }
      }
      await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.deleteZone(99) } }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a zone made again has another incarnation and none of its records`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { _ = try $0.save(Sample.note("1"), in: place) }
      let before = try await shard.read { try $0.zone(key: place.zone) }
      // In the same body as the deletion.
      let again = try await shard.write { transaction in
        try transaction.deleteZone(place.zone)
        return try transaction.makeZone(named: "notes", in: place.database)
      }
      #expect(again.incarnation != before?.incarnation)
      #expect(again.sequence == 4)
      #expect(!again.isDeleted)
      #expect(try await shard.read { try $0.record(named: "1", in: again.key) } == nil)
      #expect(try await shard.read { try $0.zone(key: place.zone) } == nil)
      #expect(try await shard.read { try $0.zones(in: place.database, after: 0, limit: 9) } == [again])
      let newPlace = try await Place(in: shard)
      #expect(newPlace.zone == again.key)
      try await shard.write { _ = try $0.save(Sample.note("1", title: "new"), in: newPlace) }
      #expect(try await shard.read { try $0.changes(in: again.key, after: 0, limit: 9) }.map(\.sequence) == [5])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a shard's bytes rise with what it stores`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let before = try await shard.read { try $0.byteCount() }
      try await shard.write { transaction in
        for name in 0..<100 {
          try transaction.save(Sample.note("\(name)", title: String(repeating: "x", count: 1000)), in: place)
        }
      }
      #expect(try await shard.read { try $0.byteCount() } >= before + 50_000)
    }
  }

  @Test(arguments: StoreKind.allCases) func `counts are of what lives`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      #expect(try await shard.read { try $0.counts() } == ShardCounts(databases: 0, zones: 0, records: 0, mirrors: 0))
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        for name in ["a", "b", "c"] { try transaction.save(Sample.note(name), in: place) }
        try transaction.delete("b", in: place)
        #expect(try transaction.counts() == ShardCounts(databases: 1, zones: 1, records: 2, mirrors: 0))
      }
      try await shard.write { transaction in
        try transaction.save(Sample.note("a", title: "again"), in: place)
        try transaction.save(Sample.note("b", title: "back"), in: place)
        try transaction.delete("c", in: place)
        try transaction.delete("c", in: place)
      }
      #expect(try await shard.read { try $0.counts() } == ShardCounts(databases: 1, zones: 1, records: 2, mirrors: 0))
    }
  }
}
