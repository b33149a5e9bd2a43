// Measures a search by an index in a zone full of records, without the other processes.

import Indexing
import RecordStore
import Records

struct QueryBench: Sendable {
  let directory: String
  let recordCount: Int

  private static let ratings = FieldIndex(recordType: "CD_Note", key: .field("CD_rating"), kind: .value)
  private static let dates = FieldIndex(recordType: "CD_Note", key: .field("CD_createdAt"), kind: .value)
  private static let hitCount = 5
  private static let pageSize = 20
  private static let readCount = 2000

  func run() async throws {
    let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: directory), shardCount: 1).open(shard: 0)
    let clock = ContinuousClock()
    var start = clock.now
    let (database, zone) = try await fill(shard)
    print("\(recordCount) records in \(start.duration(to: clock.now))")
    start = clock.now
    let keys = try await shard.enqueue { transaction in
      try [Self.ratings, Self.dates].map { try transaction.makeIndex($0, in: database).key }
    }.value
    while try await !shard.read({ try $0.indexes(in: database).allSatisfy(\.isReady) }) {
      try await Task.sleep(for: .milliseconds(20))
    }
    print("two indexes ready after \(start.duration(to: clock.now))")
    try await measure("equality, \(Self.hitCount) hits", shard) { round, snapshot in
      let value = Int64(round &* 7919 % (recordCount / Self.hitCount))
      guard let range = IndexKey.equal(.int64(value)) else { return 0 }
      let count = try snapshot.entryCount(of: keys[0], in: zone, range: range, limit: 1000)
      return count == 0
        ? 0 : try snapshot.indexedRecords(IndexScan(index: keys[0], zone: zone, range: range), limit: 64).count
    }
    try await measure("range in order, the first \(Self.pageSize)", shard) { round, snapshot in
      guard let range = IndexKey.atLeast(.timestamp(Int64(round &* 7919 % (recordCount - Self.pageSize)))) else {
        return 0
      }
      let enough = Int(Double(Self.pageSize * recordCount).squareRoot())
      _ = try snapshot.entryCount(of: keys[1], in: zone, range: range, limit: enough)
      return try snapshot.indexedRecords(IndexScan(index: keys[1], zone: zone, range: range), limit: 64).count
    }
    await shard.close()
  }

  private func fill(_ shard: any ShardStore) async throws -> (database: Int64, zone: Int64) {
    let (database, zone) = try await shard.enqueue { transaction in
      guard let container = ContainerID(rawValue: "iCloud.org.example.bench") else {
        throw StoreError.io("no container")
      }
      let database = try transaction.makeDatabase(
        DatabaseID(container: container, environment: .production, owner: "_user")
      ).key
      return (database, try transaction.makeZone(named: "zone", in: database).key)
    }.value
    let batch = 1000
    for first in stride(from: 0, to: recordCount, by: batch) {
      try await shard.enqueue { transaction in
        for number in first..<min(first + batch, recordCount) {
          let stamp = Stamp(timestamp: Int64(number), userRecordName: "_user")
          let record = Record(
            recordName: "note \(number &* 104_729 % 15_485_863)", recordType: "CD_Note",
            fields: [
              "CD_createdAt": .timestamp(Int64(number &* 7919 % recordCount)), "CD_entityName": .string("Note"),
              "CD_rating": .int64(Int64(number % (recordCount / Self.hitCount))), "CD_title": .string("Note \(number)"),
            ], created: stamp, modified: stamp)
          let stored = StoredRecord(
            record: record, isDeleted: false, sequence: try transaction.nextSequence(in: database), origin: 0,
            sequenceOfOthers: 0)
          try transaction.put(stored, in: zone, references: [], isNew: true)
        }
      }.value
    }
    return (database, zone)
  }

  private func measure(
    _ name: String, _ shard: any ShardStore, _ search: @escaping @Sendable (Int, any ShardSnapshot) throws -> Int
  ) async throws {
    let clock = ContinuousClock()
    var latencies: [Duration] = []
    var hitCount = 0
    for round in 0..<Self.readCount {
      let start = clock.now
      hitCount += try await shard.read { try search(round, $0) }
      latencies.append(start.duration(to: clock.now))
    }
    latencies.sort()
    print(
      """
      \(name): p50 \(latencies[Self.readCount / 2]), p99 \(latencies[Self.readCount * 99 / 100]), \
      \(hitCount / Self.readCount) records read each
      """
    )
  }
}
