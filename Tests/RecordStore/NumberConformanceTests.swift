import Records
import SQLite
import Testing

@testable import RecordStore

/// Numbers that clients see belong to their database, not to the shard that several databases share.
struct NumberConformanceTests {
  @Test(arguments: StoreKind.allCases)
  func `nobody learns from numbers of events and conflicts how busy other databases are`(_ kind: StoreKind) async throws
  {
    try await withShard(kind) { shard in
      for owner in ["ada", "bob"] {
        let database = try await shard.write { try $0.makeDatabase(Sample.database(owner)).key }
        let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: database).key
        for number: Int64 in 1...3 {
          #expect(
            try await shard.write { try $0.put(StoredEvent(identifier: "e", kind: .setup, startedAt: 1), of: mirror) }
              == number)
          #expect(
            try await shard.write {
              try $0.appendConflict(
                JournalConformanceTests.conflict(database, "b"), content: [UInt8(number)], assets: [])
            } == number)
          #expect(try await shard.read { try $0.conflictContent(number, in: database) } == [UInt8(number)])
        }
        // A store that is made again continues its database's numbers.
        try await shard.write { try $0.deleteMirror(mirror) }
        let again = try await HistoryConformanceTests.makeMirror(in: shard, database: database).key
        #expect(
          try await shard.write { try $0.put(StoredEvent(identifier: "e", kind: .setup, startedAt: 1), of: again) } == 4
        )
      }
      #expect(
        try await shard.write { try $0.forgetConflicts(before: 11, limit: 4) } == 4,
        "entries are told apart by their database")
      #expect(try await shard.write { try $0.forgetConflicts(before: 11, limit: 4) } == 2)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test func `numbers of a shard from before databases had their own stay, and later ones are beyond all of them`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.numbers.rawValue }
    let old = try earlier.takeOver().connection
    let conflict = JournalConformanceTests.conflict(1, "b")
    try old.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.org.example', 'development', 'ada', 5, 0);
      INSERT INTO journal_use VALUES (1, 'ada', 1, 1, 0);
      """)
    try old.statement(
      SQL(
        "insert",
        "INSERT INTO journal VALUES (40, 1, 'notes', 0, 'b', 'Note', 2, 1, 'ada', 'phone', 10, NULL, 1, ?1, x'07')")
    ).binding(conflict.checksum([7])).run()
    old.close()
    let shard = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await shard.read { try $0.conflictContent(40, in: 1) } == [7])
    #expect(
      try await shard.read { try $0.conflicts(in: 1, afterNumber: 39, ConflictFilter(), limit: 9).map(\.number) } == [
        40
      ])
    #expect(try await shard.write { try $0.appendConflict(conflict, content: [8], assets: []) } == 41)
    #expect(try await shard.verify().problems == [])
    await shard.close()
    try StoredFormatTests.execute("UPDATE database SET conflicts = 40", in: folder)
    let again = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await again.verify().problems.count == 1)
    await again.close()
  }

  @Test func `the count of sequences leaves out those that restores skipped`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    for name in ["a", "b", "c"] { _ = try await shard.write { try $0.save(Sample.note(name), in: place) } }
    let before = try #require(try await shard.read { try $0.database(key: place.database) })
    #expect(before.stepCount(through: before.sequence) == before.sequence)
    await shard.close()
    let path = folder.path + "/shard-0.sqlite"
    for restore: Int64 in 1...3 {
      try ShardRenewal(shard: 0, startedAt: 0, now: 1_800_000_000_000 + restore * 86_400_000).run(at: path)
      let shard = try await store.open(shard: 0)
      let restored = try #require(try await shard.read { try $0.database(key: place.database) })
      #expect(
        restored.sequence > 1 << 50 && restored.stepCount(through: restored.sequence) == before.sequence + restore - 1)
      _ = try await shard.write { try $0.save(Sample.note("\(restore)"), in: place) }
      let after = try #require(try await shard.read { try $0.database(key: place.database) })
      #expect(after.stepCount(through: after.sequence) == before.sequence + restore)
      #expect(after.stepCount(through: before.sequence - 1) == before.sequence - 1)
      #expect(after.stepCount(through: restored.sequence) <= after.stepCount(through: after.sequence))
      await shard.close()
    }
  }

  @Test func `a file that was restored before databases knew what was passed finds it in its records`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.gaps.rawValue }
    let old = try earlier.takeOver().connection
    let jump: Int64 = 1_800_000_000_000 << 10
    try old.execute(
      """
      INSERT INTO symbol VALUES (1, 'Note');
      INSERT INTO database(id, container, environment, owner, incarnation, seq) VALUES
        (1, 'iCloud.org.example', 'development', 'ada', 5, \(jump + 3)), (2, 'iCloud.org.example', 'development', \
      'bob', 5, 8),
        (3, 'iCloud.org.example', 'development', 'cy', 5, \(jump));
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live) \
      VALUES (4, 1, 'a', 1, \(jump + 3), 0, 4), (5, 1, 'b', 1, 9, 0, 1), (6, 3, 'c', 1, 2, 0, 1);
      INSERT INTO record(zone, name, seq, type, deleted, origin, others, sum, data) \
      VALUES (4, 'a', 5, 1, 0, 0, 0, 0, x''), (4, 'b', \(jump + 1), 1, 0, 0, 0, 0, x''),
        (4, 'c', \(jump + 2), 1, 0, 0, 0, 0, x''), (4, 'd', \(jump + 3), 1, 0, 0, 0, 0, x''), (5, 'e', 9, 1, 0, 0, 0, \
      0, x''), (6, 'f', 2, 1, 0, 0, 0, 0, x'');
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 6);
      """)
    old.close()
    let shard = try await store.open(shard: 0)
    let counts = try await shard.read { snapshot in
      try (1...3).map { key in try snapshot.database(key: key).map { $0.stepCount(through: $0.sequence) } }
    }
    #expect(counts == [12, 8, 2])
    await shard.close()
  }
}
