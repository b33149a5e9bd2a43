// Objects saved before their database's first store: noted in the background, and known at once.

import Records
import SQLite
import Testing

@testable import RecordStore

/// A shard whose slices note a few objects each.
private enum Slices {
  static var options: SQLiteRecordStore.Options {
    var options = SQLiteRecordStore.Options()
    options.indexSliceNameLimit = 40
    options.sweepLimit = 10
    return options
  }
}

enum FillRig {
  /// The number of rows in a table, also while the shard is open.
  static func count(_ table: String, in folder: String) throws -> Int {
    let connection = try Connection(exclusive: folder + "/shard-0.sqlite", mode: .readOnly)
    defer { connection.close() }
    return try connection.statement(SQL("count", "SELECT count(*) FROM \(table)")).first { $0.int(0) } ?? 0
  }

  static func zones(of names: [String], in database: Int64, _ snapshot: any ShardSnapshot) throws -> [[Int64]] {
    try names.map { try snapshot.placements(of: $0, in: database).map(\.zone) }
  }
}

@Suite struct `Objects that were there before the first store` {
  @Test(arguments: StoreKind.allCases) func `nothing is noted before the first store, and all of it is known with it`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind, options: Slices.options) { shard in
      let place = try await Place(in: shard, zone: "Trips")
      let (ended, other) = (
        try await Place(in: shard, zone: "Ended"), try await Place(in: shard, zone: "Trips", owner: "bob")
      )
      let names = ["a", Sample.uuid(1), "tombstone", "no object", "ended", "nobody"]
      try await shard.write { transaction in
        for place in [place, other] {
          for name in names.prefix(3) { try transaction.save(Sample.note(name), in: place) }
          try transaction.delete("tombstone", in: place)
          try transaction.save(Sample.note("no object", type: "Note"), in: place)
        }
        try transaction.save(Sample.note("ended"), in: ended)
        try transaction.deleteZone(ended.zone)
      }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.database(key: place.database)?.placementState == .untracked)
        #expect(try snapshot.database(key: place.database)?.hasPlacements == false)
        #expect(try FillRig.zones(of: names, in: place.database, snapshot).joined().isEmpty)
      }
      let expected = [[place.zone], [place.zone], [place.zone], [], [], []]
      // Known at once in the same commit, and in all later reads.
      #expect(
        try await shard.write { transaction in
          _ = try transaction.makeMirror(
            "phone", in: place.database, userRecordName: "ada", scope: .private, modelHash: "", configuration: nil,
            deviceName: nil, createdAt: 5)
          return try transaction.database(key: place.database)?.hasPlacements == true
            ? try FillRig.zones(of: names, in: place.database, transaction) : []
        } == expected)
      #expect(try await shard.read { try FillRig.zones(of: names, in: place.database, $0) } == expected)
      try await shard.settleIndexes()
      #expect(try await shard.read { try FillRig.zones(of: names, in: place.database, $0) } == expected)
      #expect(
        try await shard.read { (snapshot) throws in
          try [place, other].map { try snapshot.database(key: $0.database)?.placementState }
        } == [.noted, .untracked])
      // A second store changes nothing. In a database whose other zones have no objects, nothing is looked up.
      _ = try await HistoryConformanceTests.makeMirror(in: shard, "laptop", database: place.database)
      let eve = try await Place(in: shard, zone: "Trips", owner: "eve")
      try await shard.write { _ = try $0.save(Sample.note("n", type: "Note"), in: eve) }
      _ = try await HistoryConformanceTests.makeMirror(in: shard, "phone", database: eve.database)
      try await shard.settleIndexes()
      #expect(
        try await shard.read { (snapshot) throws in
          try [place, eve].map { try snapshot.database(key: $0.database)?.placementState }
        } == [.noted, .empty])
      if let store = shard as? SQLiteShardStore {
        #expect(try await store.verify().problems == [])
        #expect(store.statistic("placed_records_total") == 3)
      }
    }
  }

  @Test
  func
    `a file without stores has no row of an object, and one with a store gets them a slice a commit`()
    async throws
  {
    let world = try World(.sqlite, shardCount: 1, options: Slices.options)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard, zone: "Trips")
    let second = try await Place(in: shard, zone: "Work")
    try await shard.write { transaction in
      for number in 0..<500 { try transaction.save(Sample.note(Sample.uuid(number)), in: place) }
      for number in 500..<700 { try transaction.save(Sample.note("n\(number)"), in: second) }
    }
    #expect(try FillRig.count("placement", in: world.path) == 0)
    // Several at once: a rolled-back body begins nothing.
    struct Refused: Error {}
    let refused = shard.enqueue { transaction in
      _ = try transaction.makeMirror(
        "x", in: place.database, userRecordName: "ada", scope: .private, modelHash: "", configuration: nil,
        deviceName: nil, createdAt: 5)
      throw Refused()
    }
    await #expect(throws: Refused.self) { try await refused.value }
    #expect(try await shard.read { try $0.database(key: place.database)?.placementState } == .untracked)
    _ = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
    try await shard.settleIndexes()
    #expect(try FillRig.count("placement", in: world.path) == 700 && FillRig.count("unplaced", in: world.path) == 0)
    #expect(shard.statistic("placed_records_total") == 700 && shard.statistic("placement_slices_total") >= 700 / 40)
    await shard.close()
    // As left by an owner that ended in the middle of the first zone.
    let connection = try Connection(exclusive: world.path + "/shard-0.sqlite", mode: .readWrite)
    try connection.execute(
      """
      INSERT INTO unplaced(database, zone, target, after) SELECT database, zone, zone,\
       max(CASE WHEN rowNumber = 123 THEN name END)
        FROM (SELECT database, zone, name, row_number() OVER (PARTITION BY zone ORDER BY name) rowNumber \
      FROM placement) GROUP BY database, zone;
      UPDATE unplaced SET after = NULL WHERE zone = \(second.zone);
      DELETE FROM placement WHERE EXISTS (SELECT 1 FROM unplaced u WHERE u.zone = placement.zone \
      AND placement.name > coalesce(u.after, 0));
      UPDATE database SET placed = 3;
      """)
    connection.close()
    #expect(try FillRig.count("placement", in: world.path) == 123)
    shard = try await world.store.open(shard: 0)
    try await shard.settleIndexes()
    #expect(try FillRig.count("placement", in: world.path) == 700 && FillRig.count("unplaced", in: world.path) == 0)
    #expect(shard.statistic("placed_records_total") == 577)
    #expect(try await shard.read { try $0.database(key: place.database)?.placementState } == .noted)
    let store = try #require(shard as? SQLiteShardStore)
    #expect(try await store.verify().problems == [])
    await shard.close()
  }

  @Test func `changes during the filling of a database are newer, and zones that end meanwhile are remembered`()
    async throws
  {
    let world = try World(.sqlite, shardCount: 1, options: Slices.options)
    let shard = try await world.store.open(shard: 0)
    let places = try await [
      Place(in: shard, zone: "Ends"), Place(in: shard, zone: "Begins again"), Place(in: shard, zone: "Stays"),
    ]
    try await shard.write { transaction in
      for place in places {
        for number in 0..<200 { try transaction.save(Sample.note(Sample.uuid(number)), in: place) }
      }
    }
    let database = places[0].database
    let names = [Sample.uuid(0), Sample.uuid(199)]
    let again: Int64 = try await shard.write { transaction in
      _ = try transaction.makeMirror(
        "phone", in: database, userRecordName: "ada", scope: .private, modelHash: "", configuration: nil,
        deviceName: nil, createdAt: 5)
      try transaction.deleteZone(places[0].zone)
      try transaction.deleteZone(places[1].zone)
      let again = try transaction.makeZone(named: "Begins again", in: database)
      try transaction.save(Sample.note("new"), in: Place(database: database, zone: again.key))
      try transaction.place(Sample.uuid(199), in: places[2].zone)
      try transaction.delete(Sample.uuid(0), in: places[2])
      #expect(try transaction.database(key: database)?.placementState == .filling)
      #expect(
        try FillRig.zones(of: names, in: database, transaction)
          == names.map { _ in [places[0].zone, places[2].zone, again.key] })
      return again.key
    }
    for isSettled in [false, true] {
      if isSettled { try await shard.settleIndexes() }
      try await shard.read { (snapshot) throws in
        #expect(
          try FillRig.zones(of: names, in: database, snapshot)
            == names.map { _ in [places[0].zone, places[2].zone, again] })
        #expect(
          try snapshot.placements(of: Sample.uuid(199), in: database).filter(\.isAssigned).map(\.zone) == [
            places[2].zone
          ])
        #expect(try snapshot.placements(of: "new", in: database) == [StoredPlacement(zone: again, isAssigned: false)])
      }
    }
    #expect(try FillRig.count("placement", in: world.path) == 601)
    // The rows of the deleted zones were kept until they were noted, and are swept now.
    while try FillRig.count("doomed", in: world.path) > 0 { try await shard.write { _ in } }
    let store = try #require(shard as? SQLiteShardStore)
    #expect(try await store.verify().problems == [])
    // A database that is restarted during the fill has nothing left to fill.
    let eve = try await Place(in: shard, zone: "Trips", owner: "eve")
    try await shard.write { transaction in
      for number in 0..<200 { try transaction.save(Sample.note(Sample.uuid(number)), in: eve) }
      _ = try transaction.makeMirror(
        "phone", in: eve.database, userRecordName: "eve", scope: .private, modelHash: "", configuration: nil,
        deviceName: nil, createdAt: 5)
      _ = try transaction.restart(eve.database, generation: 1)
    }
    #expect(try await shard.read { try $0.database(key: eve.database)?.placementState } == .untracked)
    #expect(try FillRig.count("unplaced", in: world.path) == 0)
    #expect(try await store.verify().problems == [])
    await shard.close()
  }

  @Test func `a file of the format before forgets the objects of databases without stores`() async throws {
    let folder = try TemporaryFolder()
    var older = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    older.changes = FormatChangeStep.all.filter { $0.format < FormatChange.trackedPlacements.rawValue }
    let connection = try older.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq, placed) \
      VALUES (1, 'iCloud.a', 'development', 'ada', 5, 9, 1),
        (2, 'iCloud.a', 'development', 'bob', 6, 9, 0), (3, 'iCloud.a', 'development', 'eve', 7, 9, 1), (4, \
      'iCloud.a', 'development', 'joe', 7, 9, 0);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged) \
      VALUES (8, 1, 'phone', 1, 'ada', 'private', '', 0, 0, 0, 0),
        (9, 2, 'phone', 1, 'bob', 'private', '', 0, 0, 0, 0);
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live) \
      VALUES (5, 1, 'Trips', 1, 9, 0, 0), (6, 3, 'Trips', 1, 9, 0, 0);
      INSERT INTO placement(database, name, zone, assigned) VALUES (1, 'a', 5, 0), (1, 'b', 5, 1), (3, 'a', 6, 0);
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 9);
      """)
    connection.close()
    let shard = try await StoredFormatTests.store(folder).open(shard: 0)
    try await shard.read { (snapshot) throws in
      #expect(
        try (1...4).map { try snapshot.database(key: $0)?.placementState } == [.noted, .empty, .untracked, .untracked])
      #expect(try snapshot.placements(of: "b", in: 1) == [StoredPlacement(zone: 5, isAssigned: true)])
    }
    await shard.close()
    #expect(try FillRig.count("placement", in: folder.path) == 2)
  }

  @Test func `a check of the shard finds objects that nobody would find`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var shard = try await store.open(shard: 0)
    let place = try await Place(in: shard, zone: "Trips")
    _ = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
    try await shard.write { _ = try $0.save(Sample.note("a"), in: place) }
    await shard.close()
    for (damage, problem) in [
      ("DELETE FROM placement", "where its database does not look"),
      ("UPDATE database SET placed = 2", "of a database without placements"),
      ("UPDATE database SET placed = 0", "a store has no placements"),
    ] {
      try StoredFormatTests.execute(
        """
        UPDATE database SET placed = 1; INSERT OR IGNORE INTO placement(database, name, zone) \
        SELECT z.database, 'a', z.id FROM zone z
        """,
        in: folder)
      try StoredFormatTests.execute(damage, in: folder)
      shard = try await store.open(shard: 0)
      let problems = try await #require(shard as? SQLiteShardStore).verify().problems
      #expect(problems.contains { $0.contains(problem) }, "\(damage): \(problems)")
      await shard.close()
    }
    try StoredFormatTests.execute("UPDATE database SET placed = 7", in: folder)
    shard = try await store.open(shard: 0)
    await StoredFormatTests.expectCorrupt { _ = try await shard.read { try $0.database(key: place.database) } }
    await shard.close()
  }
}
