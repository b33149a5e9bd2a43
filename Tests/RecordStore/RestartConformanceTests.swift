// Restarted databases: nothing of their past is left, and other databases don't notice.

import Records
import SQLite
import Testing

@testable import RecordStore

struct RestartConformanceTests {
  @Test(arguments: StoreKind.allCases)
  func `a database that begins anew has no zone, store, subscription or token of its past`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let (place, second, other) = (
        try await Place(in: shard), try await Place(in: shard, zone: "more"), try await Place(in: shard, owner: "bob")
      )
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      let kept = try await HistoryConformanceTests.makeMirror(in: shard, "bob's phone", database: other.database)
      try await shard.write { transaction in
        for place in [place, second, other] { try transaction.save(Sample.note("n"), in: place) }
        try transaction.append(HistoryConformanceTests.transaction(1), to: mirror.key)
        try transaction.append(HistoryConformanceTests.transaction(1), to: kept.key)
        for database in [place.database, other.database] {
          _ = try transaction.putSubscription("s", of: "ada", scope: .private, payload: [1], in: database)
        }
        try transaction.deleteZone(second.zone)
      }
      let before = try #require(try await shard.read { try $0.database(key: place.database) })
      #expect(before.generation == 0)
      let deleted = try await shard.write { try $0.restart(place.database, generation: 4) }
      #expect(deleted.map(\.zoneName) == ["notes"] && deleted.allSatisfy(\.isDeleted))
      let after = try #require(try await shard.read { try $0.database(key: place.database) })
      #expect(
        after.generation == 4 && after.incarnation != before.incarnation && after.sequence > before.sequence
          && after.byteCount == 0)
      #expect(after.subscriptionEdition != before.subscriptionEdition)
      #expect(try await shard.read { try $0.zones(in: place.database, after: 0, limit: 9).allSatisfy(\.isDeleted) })
      #expect(try await shard.read { try $0.record(named: "n", in: place.zone) } == nil)
      #expect(try await shard.read { try $0.mirror("phone", in: place.database) } == nil)
      #expect(try await shard.read { try $0.subscriptionCount(in: place.database) } == 0)
      // It continues from here; its writer sees the same state.
      #expect(try await shard.write { try $0.database(key: place.database) } == after)
      let again = try await Place(in: shard)
      try await shard.write { _ = try $0.save(Sample.note("n"), in: again) }
      #expect(try await shard.read { try $0.recordCount(in: again.zone) } == 1)
      // Other databases.
      #expect(try await shard.read { try $0.record(named: "n", in: other.zone) } != nil)
      #expect(try await shard.read { try $0.transactions(of: kept.key, after: 0, limit: 9).count } == 1)
      #expect(try await shard.read { try $0.subscriptionCount(in: other.database) } == 1)
      #expect(try await shard.read { try $0.database(key: other.database)?.generation } == 0)
      await #expect(throws: ContradictingWrite.self) { _ = try await shard.write { try $0.restart(99, generation: 1) } }
      if let shard = shard as? SQLiteShardStore { #expect(try await shard.verify().problems == []) }
    }
  }

  @Test func `a file of the format before knows no generation, and is of the first`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var file = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    file.changes = file.changes.filter { $0.format < FormatChange.generations.rawValue }
    let connection = try file.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (7, 'iCloud.org.example.notes', 'development', 'ada', 5, 0)
      """
    )
    connection.close()
    for generation: Int64 in [0, 2] {
      let shard = try await store.open(shard: 0)
      #expect(try await shard.read { try $0.database(Sample.database("ada"))?.generation } == generation)
      _ = try await shard.write { try $0.restart(7, generation: 2) }
      await shard.close()
    }
  }
}
