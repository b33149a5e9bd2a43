import History
import Records
import SQLite
import Testing

@testable import RecordStore

/// Transactions whose history was deleted.
struct SettledConformanceTests {
  private static func append(_ numbers: ClosedRange<Int64>, to mirror: Int64, in shard: any ShardStore) async throws {
    try await shard.write {
      for number in numbers { try $0.append(HistoryConformanceTests.transaction(number), to: mirror) }
    }
  }

  private static func number(_ id: Int64, of mirror: Int64, in shard: any ShardStore) async throws -> Int64? {
    let read = try await shard.read { try $0.transactionNumber(of: Sample.uuid(Int(id)), in: mirror) }
    #expect(try await shard.write { try $0.transactionNumber(of: Sample.uuid(Int(id)), in: mirror) } == read)
    return read
  }

  @Test(arguments: StoreKind.allCases)
  func `purged and reset transactions are known by their identifiers, and those of other stores are not`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      let other = try await HistoryConformanceTests.makeMirror(in: shard, "tablet", database: place.database).key
      try await Self.append(1...4, to: mirror, in: shard)
      #expect(try await shard.write { try $0.purgeTransactions(of: mirror, through: 2) } == 2)
      for id: Int64 in 1...4 {
        #expect(try await Self.number(id, of: mirror, in: shard) == id)
        #expect(try await Self.number(id, of: other, in: shard) == nil)
        #expect(
          try await shard.read { try $0.keptTransactionNumber(of: Sample.uuid(Int(id)), in: mirror) }
            == (id > 2 ? id : nil))
        #expect(
          try await shard.read { try $0.settledTransaction(withID: Sample.uuid(Int(id)), of: mirror)?.appendedAt }
            == (id > 2 ? nil : 1000 + id))
      }
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.append(HistoryConformanceTests.transaction(5, id: Sample.uuid(1)), to: mirror) }
      }
      _ = try await shard.write { try $0.resetMirror(mirror) }
      try await Self.append(5...5, to: mirror, in: shard)
      for id: Int64 in 1...5 { #expect(try await Self.number(id, of: mirror, in: shard) == id) }
      #expect(try await Self.number(6, of: mirror, in: shard) == nil)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store that is removed and made again knows its transactions, for its user alone, and numbers on`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      func make(_ user: String) async throws -> StoredMirror {
        try await shard.write {
          try $0.makeMirror(
            "phone", in: place.database, userRecordName: user, scope: .private, modelHash: "hash", configuration: nil,
            deviceName: nil, createdAt: 5)
        }
      }
      var mirror = try await make("ada")
      for round: Int64 in 0..<3 {
        try await Self.append(round * 2 + 1...round * 2 + 2, to: mirror.key, in: shard)
        let key = mirror.key
        try await shard.write { try $0.deleteMirror(key) }
        let others = try await make("bob")
        #expect(others.lastTransactionNumber == 0)
        #expect(try await Self.number(1, of: others.key, in: shard) == nil)
        try await shard.write { try $0.deleteMirror(others.key) }
        mirror = try await make("ada")
        #expect(
          mirror.key != key && mirror.lastTransactionNumber == round * 2 + 2
            && mirror.purgedTransactionNumber == round * 2 + 2)
        #expect(mirror.exportedTransactionNumber == round * 2 + 2)
        for id in 1...(round * 2 + 2) { #expect(try await Self.number(id, of: mirror.key, in: shard) == id) }
      }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
      // A restarted database forgets them.
      let last = mirror.key
      try await shard.write {
        try $0.deleteMirror(last)
        _ = try $0.restart(place.database, generation: 1)
      }
      mirror = try await make("ada")
      #expect(mirror.lastTransactionNumber == 0)
      #expect(try await Self.number(1, of: mirror.key, in: shard) == nil)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `old transactions are forgotten in slices, and the store's row knows when the last of them was saved`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      try await Self.append(1...6, to: mirror, in: shard)
      _ = try await shard.write { try $0.purgeTransactions(of: mirror, through: 5) }
      func forget(before time: Int64, limit: Int) async throws -> Int {
        try await shard.write { try $0.forgetTransactions(of: mirror, appendedBefore: time, limit: limit) }
      }
      #expect(try await forget(before: 1001, limit: 9) == 0)
      #expect(try await forget(before: 1004, limit: 2) == 2)
      #expect(try await forget(before: 1004, limit: 2) == 1)
      #expect(try await forget(before: 1004, limit: 2) == 0)
      let row = try #require(try await shard.read { try $0.mirror(key: mirror) })
      #expect(row.forgottenTransactionNumber == 3 && row.forgottenAt == 1003)
      for id: Int64 in 1...6 { #expect(try await Self.number(id, of: mirror, in: shard) == (id > 3 ? id : nil)) }
      #expect(try await forget(before: .max, limit: 9) == 2, "what is in the history is not forgotten")
      try await shard.write { try $0.deleteMirror(mirror) }
      #expect(try await shard.write { try $0.forgetFormerMirrors(removedBefore: 1000, limit: 9) } == 0)
      #expect(try await shard.write { try $0.forgetFormerMirrors(removedBefore: 1001, limit: 1) } == 1)
      #expect(try await shard.write { try $0.forgetFormerMirrors(removedBefore: 1001, limit: 1) } == 1)
      #expect(try await shard.write { try $0.forgetFormerMirrors(removedBefore: 1001, limit: 1) } == 0)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store of a shared database knows which objects a purged transaction changed`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await shard.write {
        try $0.makeMirror(
          "guest", in: place.database, userRecordName: "bob", scope: .shared, modelHash: "hash", configuration: nil,
          deviceName: nil, createdAt: 5)
      }
      let saved = HistoryTransaction(
        transactionID: "T", timestamp: 1,
        changes: ["X", "Y"].map { HistoryChange(changeType: .insert, entity: "Note", objectID: $0) })
      try await shard.write {
        try $0.append(HistoryConformanceTests.transaction(1, id: "T", payload: saved.encoded()), to: mirror.key)
        try $0.append(HistoryConformanceTests.transaction(2, id: "U", payload: [1]), to: mirror.key)
        _ = try $0.purgeTransactions(of: mirror.key, through: 2)
      }
      let settled = try #require(try await shard.read { try $0.settledTransaction(withID: "T", of: mirror.key) })
      #expect(settled.changed("X") && settled.changed("Y") && !settled.changed("Z"))
      #expect(
        try await shard.read { try $0.settledTransaction(withID: "U", of: mirror.key)?.changed("Z") } == true,
        "what can't be read is taken to be all of it")
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test func `a store keeps no more than its share of purged transactions, and says how many it forgot`() async throws {
    try await withShard(.sqlite) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      let count = SettledTransaction.keptCount
      for start in stride(from: 1, through: count, by: 20_000) {
        try await Self.append(start...(start + 19_999), to: mirror, in: shard)
      }
      func forgotten() -> Double? { shard.statistics.first { $0.name == "transactions_forgotten_total" }?.value }
      _ = try await shard.write { try $0.purgeTransactions(of: mirror, through: count) }
      #expect(try await Self.number(1, of: mirror, in: shard) == 1 && forgotten() == 0)
      try await Self.append((count + 1)...(count + 3), to: mirror, in: shard)
      _ = try await shard.write { try $0.purgeTransactions(of: mirror, through: count + 3) }
      #expect(try await Self.number(3, of: mirror, in: shard) == nil && forgotten() == 3)
      #expect(try await Self.number(4, of: mirror, in: shard) == 4)
      #expect(try await shard.read { try $0.mirror(key: mirror)?.forgottenAt } == 1003)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a database remembers no more than so many removed stores`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      for number in 0...SettledTransaction.formerStoreCount {
        let mirror = try await HistoryConformanceTests.makeMirror(
          in: shard, "store \(number)", database: place.database
        ).key
        try await shard.write {
          try $0.append(HistoryConformanceTests.transaction(1), to: mirror)
          try $0.deleteMirror(mirror)
        }
      }
      #expect(
        try await HistoryConformanceTests.makeMirror(in: shard, "store 1", database: place.database)
          .lastTransactionNumber == 1)
      #expect(
        try await HistoryConformanceTests.makeMirror(in: shard, "store 0", database: place.database)
          .lastTransactionNumber == 0)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test
  func
    `a shard from before settled transactions learns of purged ones from its upgrade on, and scrub tells what lacks`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.settledTransactions.rawValue }
    let old = try earlier.takeOver().connection
    let transaction = HistoryConformanceTests.transaction(3, id: "T")
    try old.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq, placed) \
      VALUES (1, 'iCloud.org.example', 'development', 'ada', 5, 0, 2);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged)
        VALUES (2, 1, 'phone', 6, 'ada', 'private', 'm', 0, 3, 3, 2);
      INSERT INTO event(id, mirror, kind, started, ended, succeeded, saved, deleted, identifier) \
      VALUES (7, 2, 2, 5, 6, 1, 0, 0, 'before');
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 2), ('lastEvent', 9);
      """)
    try old.statement(SQL("insert", "INSERT INTO history VALUES (?1, 2, 1003, ?2, 'T', 'app', ?3)"))
      .binding(HistoryRowID.of(2, 3), transaction.checksum(mirror: 2), transaction.payload).run()
    old.close()
    let shard = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await shard.verify().problems == [])
    #expect(try await shard.write { try $0.purgeTransactions(of: 2, through: 3) } == 1)
    #expect(try await shard.read { try $0.transactionNumber(of: "T", in: 2) } == 3)
    #expect(try await shard.verify().problems == [])
    // Event numbers continue beyond all that the shard gave out.
    #expect(try await shard.read { try $0.events(of: 2, after: 6, kind: nil, limit: 9).map(\.number) } == [7])
    #expect(
      try await shard.write { try $0.put(StoredEvent(identifier: "after", kind: .export, startedAt: 9), of: 2) } == 10)
    await shard.close()
    try StoredFormatTests.execute("DELETE FROM settled", in: folder)
    let again = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await again.verify().problems.count == 1)
    await again.close()
    try StoredFormatTests.execute("INSERT INTO settled(id, mirror, appended, txid) VALUES (7, 9, 1, 'x')", in: folder)
    let wrong = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await wrong.verify().problems.count == 2)
    await wrong.close()
  }
}
