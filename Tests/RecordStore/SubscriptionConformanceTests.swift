import Records
import SQLite
import Testing

@testable import RecordStore

/// Subscriptions: their users, and the edition by which others notice changes.
struct SubscriptionConformanceTests {
  @Test(arguments: StoreKind.allCases) func `a subscription is its user's, in the database as he addresses it`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let (ada, other) = try await shard.write { transaction in
        (
          try transaction.makeDatabase(Sample.database("ada")).key,
          try transaction.makeDatabase(Sample.database("bob")).key
        )
      }
      try await shard.write { transaction in
        for (identifier, user, scope) in [
          ("b", "ada", DatabaseScope.private), ("a", "ada", .private), ("a", "ada", .shared), ("a", "bob", .private),
        ] {
          _ = try transaction.putSubscription(
            identifier, of: user, scope: scope, payload: Array("\(identifier) \(user) \(scope)".utf8), in: ada)
        }
      }
      func payloads(_ rows: [StoredSubscription]) -> [String] {
        rows.map { String(decoding: $0.payload, as: UTF8.self) }
      }
      let (own, shared, bobs, all, elsewhere) = try await shard.read { snapshot in
        (
          try snapshot.subscriptions(of: "ada", scope: .private, in: ada, limit: 9),
          try snapshot.subscription("a", of: "ada", scope: .shared, in: ada),
          try snapshot.subscriptions(of: "bob", scope: .private, in: ada, limit: 9),
          try snapshot.subscriptions(in: ada, afterKey: 0, limit: 9),
          try snapshot.subscriptions(in: other, afterKey: 0, limit: 9)
        )
      }
      #expect(payloads(own) == ["a ada private", "b ada private"])
      #expect(payloads(shared.map { [$0] } ?? []) == ["a ada shared"])
      #expect(payloads(bobs) == ["a bob private"])
      #expect(payloads(all) == ["b ada private", "a ada private", "a ada shared", "a bob private"])
      #expect(elsewhere == [])
      #expect(try await shard.read { try $0.subscriptions(in: ada, afterKey: all[1].key, limit: 1) } == [all[2]])
      #expect(try await shard.read { try $0.subscriptionCount(in: ada) } == 4)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `every change of subscriptions gives the database another edition, and saves keep it`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      func edition() async throws -> UInt64 {
        try #require(try await shard.read { try $0.database(key: place.database) }).subscriptionEdition
      }
      #expect(try await edition() == 0)
      let first = try await shard.write {
        try $0.putSubscription("s", of: "ada", scope: .private, payload: [1], in: place.database)
      }
      var seen = [try await edition()]
      _ = try await shard.write { try $0.save(Sample.note("1"), in: place) }
      #expect(try await edition() == seen[0])
      let second = try await shard.write {
        try $0.putSubscription("s", of: "ada", scope: .private, payload: [2], in: place.database)
      }
      #expect(second.key != first.key)
      #expect(try await shard.read { try $0.subscriptions(in: place.database, afterKey: 0, limit: 9) } == [second])
      seen.append(try await edition())
      // The key of a replaced subscription names none.
      try await shard.write { try $0.deleteSubscription(first.key, in: place.database) }
      #expect(try await edition() == seen[1])
      try await shard.write { try $0.deleteSubscription(second.key, in: place.database) }
      seen.append(try await edition())
      #expect(Set(seen).count == 3 && !seen.contains(0))
      #expect(try await shard.read { try $0.subscriptionCount(in: place.database) } == 0)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a body that fails leaves subscriptions and edition as they were`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let kept = try await shard.write {
        try $0.putSubscription("kept", of: "ada", scope: .private, payload: [1], in: place.database)
      }
      let before = try await shard.read { try $0.database(key: place.database) }
      struct Stop: Error {}
      await #expect(throws: Stop.self) {
        try await shard.write { transaction in
          try transaction.deleteSubscription(kept.key, in: place.database)
          _ = try transaction.putSubscription("new", of: "ada", scope: .private, payload: [1], in: place.database)
          throw Stop()
        }
      }
      #expect(try await shard.read { try $0.subscriptions(in: place.database, afterKey: 0, limit: 9) } == [kept])
      #expect(try await shard.write { try $0.database(key: place.database) } == before)
      await #expect(throws: ContradictingWrite.self) {
        _ = try await shard.write { try $0.putSubscription("s", of: "ada", scope: .private, payload: [], in: 999) }
      }
    }
  }

  @Test func `a file of format 1 is brought up to date, and what it holds has no subscriptions`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var older = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    older.changes = [FormatChangeStep(format: 1, statements: FormatChange.initial.statements)]
    let connection = try older.takeOver().connection
    try connection.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq) \
      VALUES (1, 'iCloud.org.example.notes', 'development', 'ada', 5, 7)
      """
    )
    try connection.execute("INSERT INTO meta(key, value) VALUES ('lastKey', 1)")
    connection.close()
    let shard = try await store.open(shard: 0)
    #expect(try await shard.read { try $0.database(Sample.database("ada")) }?.subscriptionEdition == 0)
    let stored = try await shard.write { try $0.putSubscription("s", of: "ada", scope: .public, payload: [7], in: 1) }
    #expect(try await shard.read { try $0.subscription("s", of: "ada", scope: .public, in: 1) } == stored)
    await shard.close()
  }

  @Test func `a flipped byte within a subscription is reported`() async throws {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    _ = try await shard.write {
      try $0.putSubscription("s", of: "ada", scope: .private, payload: [7], in: place.database)
    }
    await shard.close()
    try StoredFormatTests.execute("UPDATE subscription SET payload = x'06'", in: folder)
    shard = try await store.open(shard: 0)
    await StoredFormatTests.expectCorrupt {
      _ = try await shard.read { try $0.subscriptions(in: place.database, afterKey: 0, limit: 9) }
    }
    await shard.close()
  }
}
