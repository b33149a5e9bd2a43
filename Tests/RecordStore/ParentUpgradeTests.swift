// Files of releases that did not index parents: after the upgrade, the records below a parent are found.

import Crypto
import Records
import SQLite
import Testing

@testable import RecordStore

struct ParentUpgradeTests {
  private static let keys = try! KeyRing(parsing: String(repeating: "c", count: 64))

  private static func store(_ folder: TemporaryFolder, _ keys: KeyRing = keys) throws -> SQLiteRecordStore {
    try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path, keys: keys), shardCount: 1)
  }

  private static func child(_ name: String, of parent: String?, isEncrypted: Bool = false) -> Record {
    var record = Sample.note(name)
    record.parent = parent
    if isEncrypted { record.fields["secret"] = Field(.string("x"), isEncrypted: true) }
    return record
  }

  /// Turns the file into one of the format before, which had no parents, and removes later formats' columns.
  private static func age(_ folder: TemporaryFolder) throws {
    try StoredFormatTests.execute(
      """
      DROP INDEX zone_live;
      DROP TABLE history_time; ALTER TABLE database DROP COLUMN gapStart; ALTER TABLE database DROP COLUMN gapEnd;
      DROP INDEX event_number; CREATE INDEX event_mirror ON event(mirror); ALTER TABLE event DROP COLUMN number; ALTER \
      TABLE database DROP COLUMN events;
      DROP INDEX journal_number; DROP INDEX journal_open; ALTER TABLE journal DROP COLUMN number; ALTER TABLE database \
      DROP COLUMN conflicts;
      CREATE INDEX journal_open ON journal(database, \
       id) WHERE state = 0;CREATE INDEX journal_database ON journal(database);
      DROP TABLE settled; DROP TABLE former;
      ALTER TABLE mirror DROP COLUMN lineage; ALTER TABLE mirror DROP COLUMN forgotten; ALTER TABLE mirror DROP COLUMN \
      forgottenAt;
      DROP INDEX mirror_user; UPDATE meta SET value = 20 WHERE key = 'format'
      """, in: folder)
  }

  @Test func `parents that were stored before are found from the moment the file is brought up to date`() async throws {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    let old = try await store.open(shard: 0)
    let place = try await Place(in: old)
    let other = try await Place(in: old, zone: "other")
    let top = Sample.uuid(1)
    let pointer = OutgoingReference(field: "x", target: top, action: .deleteSelf)
    try await old.write { transaction in
      for number in 0..<1100 { try transaction.save(Self.child("child \(number)", of: top), in: place) }
      try transaction.save(Self.child("pointing", of: top), in: place, references: [pointer])
      try transaction.save(Self.child("sealed", of: "pointing", isEncrypted: true), in: place)
      try transaction.save(Self.child("alone", of: nil), in: place, references: [pointer])
      try transaction.save(
        Self.child("known", of: "pointing"), in: place,
        references: [OutgoingReference(field: ReservedName.parentReference, target: "pointing")])
      try transaction.save(Self.child("gone", of: top), in: place)
      try transaction.delete("gone", in: place)
      try transaction.save(Self.child("elsewhere", of: top), in: other)
    }
    let before = try await old.read { try $0.changes(in: place.zone, after: 0, limit: 9999) }
    #expect(try await old.read { try $0.children(of: top, in: place.zone, limit: 9999) } == [])
    await old.close()
    try Self.age(folder)
    await #expect(throws: StoreError.self, "what is sealed can't be told from what is not there") {
      _ = try await Self.store(folder, KeyRing()).open(shard: 0)
    }
    #expect(try StoredFormatTests.meta("format", in: folder) == 20)

    for _ in 0..<2 {
      let shard = try await store.open(shard: 0)
      let children = try await shard.read { try $0.children(of: top, in: place.zone, limit: 9999) }
      #expect(
        children.count == 1102 && children.contains("pointing") && children.contains("gone"),
        "chains go over what was deleted")
      #expect(
        try await shard.read { try $0.children(of: "pointing", in: place.zone, limit: 9) } == ["known", "sealed"])
      #expect(try await shard.read { try $0.children(of: top, in: other.zone, limit: 9) } == ["elsewhere"])
      #expect(
        try await shard.read { try $0.sources(boundTo: top, by: .deleteSelf, in: place.zone, limit: 9) } == [
          "alone", "pointing",
        ])
      #expect(
        try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 9999) } == before,
        "records and their tags are what they were")
      #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
      await shard.close()
      // Once more, over the existing rows.
      try Self.age(folder)
    }
    // Saves use the rows that the upgrade wrote.
    let shard = try await store.open(shard: 0)
    try await shard.write { transaction in
      try transaction.save(Self.child("child 0", of: nil), in: place)
      try transaction.delete("child 1", in: place)
    }
    #expect(try await shard.read { try $0.children(of: top, in: place.zone, limit: 9999) }.count == 1100)
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
    await shard.close()
  }

  @Test
  func `a damaged record holds the upgrade up no more than others, and where nothing has a parent nothing changes`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    let old = try await store.open(shard: 0)
    let place = try await Place(in: old)
    try await old.write { transaction in
      for name in ["a", "b"] { try transaction.save(Self.child(name, of: "top"), in: place) }
    }
    let plain = try await Place(in: old, zone: "plain")
    _ = try await old.write { try $0.save(Self.child("c", of: nil), in: plain) }
    await old.close()
    try StoredFormatTests.execute("UPDATE record SET sum = sum + 1 WHERE id = (SELECT min(id) FROM record)", in: folder)
    try Self.age(folder)
    let shard = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await shard.read { try $0.children(of: "top", in: place.zone, limit: 9) } == ["b"])
    #expect(try await shard.verify().problems.count == 1)
    await shard.close()
  }
}
