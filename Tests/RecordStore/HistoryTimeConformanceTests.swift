// Searches by time in long histories, and the times that shorten them.

import RecordStore
import Records
import SQLite
import Testing

@testable import RecordStore

struct HistoryTimeConformanceTests {
  /// The times of transactions 1, 2, … by a clock that goes on, stands still, and goes back by seconds at times.
  private static let times: [Int64] = {
    var time: Int64 = 1_000_000
    return (0..<3_300).map { index in
      time += Int64(index * 7919 % 13) * 10
      if index % 701 == 700 { time -= 9_000 }
      return time
    }
  }()

  /// The search as a scan over all that is kept.
  private static func first(at time: Int64, purged: Int) -> Int64? {
    times.indices.first { $0 >= purged && times[$0] >= time }.map { Int64($0) + 1 }
  }

  private static func transaction(_ number: Int) -> StoredTransaction {
    StoredTransaction(
      number: Int64(number), transactionID: Sample.uuid(number), author: nil, appendedAt: times[number - 1],
      payload: [1])
  }

  @Test(arguments: StoreKind.allCases)
  func `a search by time in a long history finds what a scan finds, before and after purges`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
      let other = try await HistoryConformanceTests.makeMirror(in: shard, "tablet", database: place.database).key
      for start in stride(from: 1, through: Self.times.count, by: 500) {
        try await shard.write { transaction in
          for number in start..<min(start + 500, Self.times.count + 1) {
            try transaction.append(Self.transaction(number), to: mirror)
          }
        }
      }
      let sought = stride(from: Self.times.min()! - 7, through: Self.times.max()! + 7, by: 1_013)
      for purged in [0, 1, 1_024, 1_500, 2_048, 3_299, 3_300] {
        _ = try await shard.write { try $0.purgeTransactions(of: mirror, through: Int64(purged)) }
        let found = try await shard.read { snapshot in
          try sought.map { try snapshot.firstTransaction(of: mirror, appendedAtOrAfter: $0) }
        }
        #expect(found == sought.map { Self.first(at: $0, purged: purged) }, "purged through \(purged)")
      }
      #expect(try await shard.read { try $0.firstTransaction(of: other, appendedAtOrAfter: 0) } == nil)
      try await shard.write { try $0.deleteMirror(mirror) }
    }
  }

  @Test func `a file from before knows the times of its history once it is open, and scrub finds a wrong one`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    var earlier = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    earlier.changes = earlier.changes.filter { $0.format < FormatChange.historyTimes.rawValue }
    let old = try earlier.takeOver().connection
    let last = Self.times.count
    try old.execute(
      """
      INSERT INTO database(id, container, environment, owner, incarnation, seq, placed) \
      VALUES (1, 'iCloud.org.example', 'development', 'ada', 5, 0, 2);
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, created, last, exported, purged, \
      forgotten) VALUES (2, 1, 'phone', 6, 'ada', 'private', 'm', 0, \(last), \(last), 500, 500);
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 2);
      BEGIN
      """)
    let insert = try old.statement(SQL("insert", "INSERT INTO history VALUES (?1, 2, ?2, ?3, ?4, NULL, ?5)"))
    for number in 501...last {
      let transaction = Self.transaction(number)
      try insert.bind(1, HistoryRowID.of(2, transaction.number))
      try insert.bind(2, transaction.appendedAt)
      try insert.bind(3, transaction.checksum(mirror: 2))
      try insert.bind(4, recordName: transaction.transactionID)
      try insert.bind(5, transaction.payload)
      try insert.run()
    }
    try old.execute("COMMIT")
    old.close()
    let shard = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await shard.verify().problems == [])
    let time = try #require(Self.times.max())
    #expect(
      try await shard.read { try $0.firstTransaction(of: 2, appendedAtOrAfter: time) }
        == Self.first(at: time, purged: 500))
    await shard.close()
    #expect(try Self.numbers(in: folder) == [1_024, 2_048, 3_072])
    try StoredFormatTests.execute("UPDATE history_time SET latest = latest - 400 WHERE number = 2048", in: folder)
    let wrong = try #require(try await store.open(shard: 0) as? SQLiteShardStore)
    #expect(try await wrong.verify().problems.count == 1)
    await wrong.close()
  }

  private static func numbers(in folder: TemporaryFolder) throws -> [Int64] {
    let connection = try Connection(exclusive: folder.path + "/shard-0.sqlite", mode: .readOnly)
    defer { connection.close() }
    return try connection.statement(SQL("times", "SELECT number FROM history_time ORDER BY number")).all {
      $0.int64(0)
    }
  }
}
