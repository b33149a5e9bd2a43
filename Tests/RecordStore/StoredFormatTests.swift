import Foundation
import History
import Indexing
import Records
import SQLite
import Testing

@testable import RecordStore

/// The file: its formats, and the handling of damaged or foreign files.
struct StoredFormatTests {
  static func flip(_ path: String, at offset: Int) throws {
    let handle = try #require(FileHandle(forUpdatingAtPath: path))
    defer { try? handle.close() }
    try handle.seek(toOffset: UInt64(offset))
    let byte = try #require(try handle.read(upToCount: 1)?.first)
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: [byte ^ 0x40])
  }

  static func store(_ folder: TemporaryFolder, shardCount: Int = 1) throws -> SQLiteRecordStore {
    try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: shardCount)
  }

  static func execute(_ text: String, in folder: TemporaryFolder) throws {
    let connection = try Connection(exclusive: folder.path + "/shard-0.sqlite", mode: .readWrite)
    try connection.execute(text)
    try connection.checkpoint(.truncate)
    connection.close()
  }

  static func meta(_ key: String, in folder: TemporaryFolder) throws -> Int64? {
    let connection = try Connection(exclusive: folder.path + "/shard-0.sqlite", mode: .readOnly)
    defer { connection.close() }
    return try connection.statement(SQL("meta", "SELECT value FROM meta WHERE key = ?1")).binding(key).first {
      $0.int64(0)
    }
  }

  /// Files of every release contain these checksums.
  @Test func `checksums are CRC-32, whatever pieces the bytes come in`() {
    for length in 0...9 {
      let (beginning, end) = (Array("123456789".utf8.prefix(length)), Array("123456789".utf8.dropFirst(length)))
      let sum = beginning.withUnsafeBytes { Checksum.update(0, $0) }
      #expect(end.withUnsafeBytes { Checksum.update(sum, $0) } == 0xcbf4_3926)
    }
    #expect(Checksum.update(7, UnsafeRawBufferPointer(start: nil, count: 0)) == 7)
  }

  @Test func `a file of a newer release is refused and left alone`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    await (try store.open(shard: 0)).close()
    try Self.execute("UPDATE meta SET value = 99 WHERE key = 'format'", in: folder)
    let known = try #require(FormatChange.allCases.last?.rawValue)
    await #expect(throws: StoreError.newerFormat(found: 99, known: known)) { _ = try await store.open(shard: 0) }
    #expect(try Self.meta("epoch", in: folder) == 1)
    // The lock is free again.
    try Self.execute("UPDATE meta SET value = \(known) WHERE key = 'format'", in: folder)
    let shard = try await store.open(shard: 0)
    #expect(shard.epoch == 2)
    await shard.close()
  }

  @Test func `a file of an older release is brought up to date once, and is then too new for that release`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    let first = FormatChangeStep.all
    let next = (first.last?.format ?? 0) + 1
    var older = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    older.changes = first
    var newer = older
    newer.changes =
      first + [
        FormatChangeStep(
          format: next, statements: ["CREATE TABLE extra(id INTEGER PRIMARY KEY)", "INSERT INTO extra VALUES (7)"])
      ]

    let shard = try await store.open(older)
    let place = try await Place(in: shard)
    let stored = try await shard.write { try $0.save(Sample.note("1"), in: place) }
    await shard.close()
    for _ in 0..<2 {
      let shard = try await store.open(newer)
      #expect(try await shard.read { try $0.record(named: "1", in: place.zone) } == stored)
      await shard.close()
    }
    #expect(try Self.meta("format", in: folder) == Int64(next))
    await #expect(throws: StoreError.newerFormat(found: next, known: next - 1)) { _ = try await store.open(older) }
  }

  @Test func `a shard of the first format learns short GUIDs when it is opened`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var first = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    first.changes = first.changes.filter { $0.format == FormatChange.initial.rawValue }
    let connection = try first.takeOver().connection
    connection.close()
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    var root = Sample.note("root")
    root.shortGUID = "0abc"
    let shared = root
    let stored = try await shard.write {
      try $0.save(shared, in: place, references: [OutgoingReference(field: "x", target: "y", action: .deleteSelf)])
    }
    #expect(try await shard.read { try $0.record(withShortGUID: "0abc")?.record } == stored)
    await shard.close()
    // A shard's references survive its process.
    let again = try await store.open(shard: 0)
    #expect(
      try await again.write { try $0.sources(boundTo: "y", by: .deleteSelf, in: place.zone, limit: 9) } == ["root"])
    await again.close()
  }

  @Test func `a shard from before redirects takes them when it is opened`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.redirects.rawValue }
    try earlier.takeOver().connection.close()
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    let redirect = StoredRedirect(loser: "b", survivor: "a", since: 1, rule: "Note(title)")
    #expect(try await shard.write { try $0.hasRedirects(in: place.database) } == false)
    try await shard.write { try $0.put(redirect, in: place.zone) }
    #expect(try await shard.read { try $0.redirect(of: "b", in: place.zone) } == redirect)
    if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    await shard.close()
  }

  @Test func `a shard from before consumers takes them when it is opened`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.consumers.rawValue }
    let old = try earlier.takeOver().connection
    try old.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'c', 'development', 'ada', 5, 0);
      INSERT INTO mirror VALUES (2, 1, 'phone', 6, 'ada', 'private', 'hash', NULL, NULL, 0, 0, 0, 0)
      """)
    old.close()
    let shard = try await store.open(shard: 0)
    #expect(try await shard.read { try $0.consumers(of: 2) } == [])
    let consumer = StoredConsumer(name: "widget", transactionNumber: 0, seenAt: 1)
    try await shard.write { try $0.put(consumer, of: 2) }
    #expect(try await shard.read { try $0.consumers(of: 2) } == [consumer])
    await shard.close()
  }

  @Test func `a shard from before users' stores were counted counts those that it has`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.storeUsers.rawValue }
    let old = try earlier.takeOver().connection
    try old.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'c', 'development', 'ada', 5, 0), (9, 'd', 'development', 'ada', 6, 0);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged) \
      VALUES
        (2, 1, 'phone', 6, 'ada', 'private', 'hash', 0, 0, 0, 0), (3, 1, 'pad', 6, 'ada', 'private', 'hash', 0, 0, 0, \
      0),
        (4, 1, 'guest', 6, 'bob', 'private', 'hash', 0, 0, 0, 0), (5, 9, 'phone', 6, 'ada', 'private', 'hash', 0, 0, \
      0, 0)
      """)
    old.close()
    let shard = try await store.open(shard: 0)
    #expect(try await shard.read { try $0.mirrorCount(of: "ada", in: 1) } == 2)
    try await shard.write { try $0.deleteMirror(3) }
    #expect(
      try await shard.read {
        try [$0.mirrorCount(of: "ada", in: 1), $0.mirrorCount(of: "bob", in: 1), $0.mirrorCount(of: "eve", in: 1)]
      } == [1, 1, 0])
    await shard.close()
  }

  @Test func `a shard from before past states knows its zones' states from its upgrade on`() async throws {
    let folder = try TemporaryFolder()
    var options = SQLiteRecordStore.Options()
    options.keepsPastStates = true
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path, options: options), shardCount: 1)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.pastStates.rawValue }
    let old = try earlier.takeOver().connection
    let record = Sample.note("a", title: "first")
    let data = record.encoded()
    let header = RecordRowHeader(zone: 2, sequence: 7, type: 1, isDeleted: false, origin: 0, sequenceOfOthers: 0)
    let sum = data.withUnsafeBytes { header.checksum(name: "a", references: [], data: $0) }
    try old.execute(
      """
      INSERT INTO symbol VALUES (1, 'CD_Note');
      INSERT INTO database(id, container, environment, owner, incarnation, seq, bytes) \
      VALUES (1, 'iCloud.org.example.notes', 'development', 'ada', 5, 9, \(data.count));
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live, bytes) \
      VALUES (2, 1, 'notes', 6, 9, 0, 1, \(data.count))
      """)
    try old.statement(SQL("insert", "INSERT INTO record VALUES (1, 2, 'a', 7, 1, 0, 0, 0, ?1, NULL, ?2)")).binding(
      sum, data
    ).run()
    old.close()
    let shard = try await store.open(shard: 0)
    let place = Place(database: 1, zone: 2)
    #expect(try await shard.read { try $0.horizon(of: 2) } == 9)
    _ = try await shard.write { try $0.save(Sample.note("a", title: "second"), in: place) }
    #expect(try await shard.read { try $0.state(of: "a", in: 2, at: 9) }?.record == record)
    #expect(try await shard.read { try $0.states(of: "a", in: 2).map(\.sequence) } == [7, 10])
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
    await shard.close()
  }

  @Test func `a shard from before the journal of conflicts has one when it is opened`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = FormatChangeStep.all.filter { $0.format < FormatChange.journal.rawValue }
    try earlier.takeOver().connection.close()
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    let other = try await Place(in: shard, owner: "bob")
    for database in [other.database, place.database] {
      let conflict = JournalConformanceTests.conflict(database, "b")
      #expect(try await shard.write { try $0.appendConflict(conflict, content: [7], assets: []) } == 1)
      #expect(try await shard.read { try $0.conflictContent(1, in: database) } == [7])
    }
    await shard.close()
    try Self.execute("UPDATE journal SET payload = x'08'", in: folder)
    let again = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    await #expect(throws: StoreError.self) {
      _ = try await again.read { try $0.conflictContent(1, in: place.database) }
    }
    #expect(try await again.verify().problems.count == 2, "numbers count per database")
    await again.close()
  }

  @Test func `a shard of an earlier format finds the events that were left open when it is opened`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = FormatChangeStep.all.filter { $0.format < FormatChange.openEvents.rawValue }
    let connection = try earlier.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.org.example', 'development', '_a', 1, 0);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged)
        VALUES (2, 1, 'phone', 1, '_a', 'private', 'm', 0, 0, 0, 0);
      INSERT INTO event(id, mirror, kind, started, ended, succeeded, saved, deleted, identifier) \
      VALUES (1, 2, 2, 5, NULL, 1, 0, 0, 'left');
      INSERT INTO event(id, mirror, kind, started, ended, succeeded, saved, deleted, identifier) \
      VALUES (2, 2, 2, 5, 6, 1, 0, 0, 'ended');
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastEvent', 2), ('lastKey', 2);
      """)
    connection.close()
    #expect(try Self.meta("format", in: folder) == Int64(FormatChange.openEvents.rawValue - 1))
    let shard = try await store.open(shard: 0)
    #expect(try await shard.write { try $0.abandonedEvents(limit: 9).map(\.event.identifier) } == ["left"])
    await shard.close()
  }

  @Test func `a file of the first format is brought up to date and takes indexes`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var first = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    first.changes = FormatChangeStep.all.filter { $0.format == 1 }
    let connection = try first.takeOver().connection
    connection.close()
    #expect(try Self.meta("format", in: folder) == 1)
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    _ = try await shard.write { try $0.save(Sample.note("a"), in: place) }
    let index = try await shard.write { try $0.makeIndex(Sample.titles, in: place.database) }
    try await shard.settleIndexes()
    let found = try await shard.read {
      try $0.indexedRecords(IndexScan(index: index.key, zone: place.zone, range: IndexKey.everything), limit: 9)
    }
    #expect(found.map(\.stored.record.recordName) == ["a"])
    await shard.close()
  }

  @Test func `a file of format 6 is brought up to date with its stores and takes what exports hold back`() async throws
  {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var older = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    older.changes = FormatChangeStep.all.filter { $0.format <= 6 }
    let connection = try older.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.a', 'development', 'ada', 5, 0)
      """
    )
    try connection.execute(
      """
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged) \
      VALUES (2, 1, 'phone', 6, 'ada', 'private', 'm', 1, 0, 0, 0)
      """
    )
    try connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 2)")
    connection.close()
    let shard = try await store.open(shard: 0)
    #expect(try await shard.read { try $0.mirror(key: 2)?.quarantinedCount } == 0)
    #expect(try await shard.read { try $0.mirror(key: 2)?.exportedStepCount } == 0)
    try await shard.write {
      try $0.putQuarantined(QuarantineConformanceTests.object(2, "b"), changes: Array("held back".utf8), assets: [])
    }
    await shard.close()
    let path = folder.path + "/shard-0.sqlite"
    try Self.flip(
      path,
      at: try #require(Data(contentsOf: URL(fileURLWithPath: path)).range(of: Data("held back".utf8))).lowerBound + 2)
    let again = try await store.open(shard: 0)
    #expect(try await again.read { try $0.mirror(key: 2)?.quarantinedCount } == 1)
    await Self.expectCorrupt { _ = try await again.read { try $0.quarantinedChanges(1) } }
    #expect(try await #require(again as? SQLiteShardStore).verify().problems.count == 1)
    await again.close()
  }

  @Test func `what waited in a file of an earlier format waits on, as changes without an author`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.heldTransactions.rawValue }
    let old = try await store.open(earlier)
    let place = try await Place(in: old)
    let mirror = try await HistoryConformanceTests.makeMirror(in: old, database: place.database).key
    let waiting = HistoryTransaction(
      transactionID: "", timestamp: 7,
      changes: [HistoryChange(changeType: .insert, entity: "Note", objectID: "b")])
    try await old.write {
      try $0.putQuarantined(QuarantineConformanceTests.object(mirror, "b"), changes: waiting.encoded(), assets: [])
    }
    await old.close()
    let shard = try await store.open(shard: 0)
    let payload = try #require(
      try await shard.read { snapshot in
        try snapshot.quarantined("b", of: mirror).flatMap { try snapshot.quarantinedChanges($0.key) }
      })
    #expect(try HeldTransactions(decoding: payload).parts == [waiting])
    await shard.close()
    await #expect(throws: StoreError.self) { _ = try await store.open(earlier) }
  }

  @Test func `an upgrade that fails leaves the file as it was`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    await (try store.open(shard: 0)).close()
    var newer = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    newer.changes += [
      FormatChangeStep(
        format: 50, statements: ["CREATE TABLE extra(id INTEGER PRIMARY KEY)", "CREATE TABLE record(id)"])
    ]
    await #expect(throws: StoreError.self) { _ = try await store.open(newer) }
    #expect(try Self.meta("format", in: folder) == FormatChange.allCases.last.map { Int64($0.rawValue) })
    #expect(try Self.meta("epoch", in: folder) == 1)
    let shard = try await store.open(shard: 0)
    #expect(shard.epoch == 2)
    await shard.close()
  }

  @Test func `a file of another shard or installation, or that is none of ours, is refused`() async throws {
    let folder = try TemporaryFolder()
    await (try Self.store(folder).open(shard: 0)).close()
    await #expect(throws: StoreError.self) { _ = try await Self.store(folder, shardCount: 2).open(shard: 0) }
    try FileManager.default.copyItem(atPath: folder.path + "/shard-0.sqlite", toPath: folder.path + "/shard-1.sqlite")
    await #expect(throws: StoreError.self) { _ = try await Self.store(folder, shardCount: 2).open(shard: 1) }

    let other = try TemporaryFolder()
    let connection = try Connection(exclusive: other.path + "/shard-0.sqlite", mode: .readWrite)
    try connection.execute("CREATE TABLE somebody(id)")
    connection.close()
    await Self.expectCorrupt { _ = try await Self.store(other).open(shard: 0) }
    try Data(repeating: 65, count: 9000).write(to: URL(fileURLWithPath: other.path + "/shard-0.sqlite"))
    await Self.expectCorrupt { _ = try await Self.store(other).open(shard: 0) }
  }
}
