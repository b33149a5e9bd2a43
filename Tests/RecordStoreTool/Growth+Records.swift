// Ten thousand to ten million records: saves, pulls and a search in large zones.

import Indexing
import RecordStore
import Records

extension Growth {
  private struct GrownZone: Sendable {
    let number: Int
    let shard: any ShardStore
    let database: Int64
    let zone: Int64
    let index: Int64
    let recordCount: Int
  }

  private static let zoneCount = 16
  /// Records of one body, in the order of their names, so that neighbours share pages.
  private static let fillCount = 4000
  private static let hitCount = 5
  private static let ratings = FieldIndex(recordType: "CD_Note", key: .field("CD_rating"), kind: .value)

  private func zones(_ shards: [any ShardStore]) async throws -> [GrownZone] {
    var zones: [GrownZone] = []
    for number in 0..<Self.zoneCount {
      let shard = shards[number % shards.count]
      zones.append(
        try await shard.enqueue { transaction in
          let database = try transaction.makeDatabase(Self.database(number)).key
          let zone = try transaction.makeZone(named: "notes", in: database).key
          return GrownZone(
            number: number, shard: shard, database: database, zone: zone,
            index: try transaction.makeIndex(Self.ratings, in: database).key,
            recordCount: try transaction.recordCount(in: zone))
        }.value)
    }
    return zones
  }

  func fillRecords(_ shards: [any ShardStore]) async throws -> Int {
    let zones = try await zones(shards)
    let goal = count / Self.zoneCount
    return try await withThrowingTaskGroup(of: Int.self) { group in
      for zone in zones {
        group.addTask {
          for first in stride(from: zone.recordCount, to: goal, by: Self.fillCount) {
            try await save(first..<min(first + Self.fillCount, goal), in: zone)
          }
          return max(goal - zone.recordCount, 0)
        }
      }
      return try await group.reduce(0, +)
    }
  }

  private func save(_ numbers: Range<Int>, in zone: GrownZone) async throws {
    let records = numbers.map { Bench.record(Bench.name(zone.number, $0), rating: $0 / Self.hitCount) }.sorted {
      $0.recordName < $1.recordName
    }
    try await zone.shard.enqueue { transaction in
      for record in records {
        // As in a client's creation, which must find no record of that name.
        guard try transaction.record(named: record.recordName, in: zone.zone) == nil else {
          throw StoreError.io("\(record.recordName) is there")
        }
        let stored = StoredRecord(
          record: record, isDeleted: false, sequence: try transaction.nextSequence(in: zone.database), origin: 0,
          sequenceOfOthers: 0)
        try transaction.put(
          stored, in: zone.zone, references: [OutgoingReference(field: "CD_folder", target: Bench.folder)], isNew: true)
      }
    }.value
  }

  func measureRecords(_ shards: [any ShardStore], _ figures: inout Figures) async throws {
    // Reading first, because the records saved below do not belong to the set.
    let zones = try await zones(shards)
    figures.add(
      "queryMilliseconds",
      try await median(of: 2000) { round in
        let zone = zones[round % zones.count]
        guard let range = IndexKey.equal(.int64(Int64(round &* 7919 % max(zone.recordCount / Self.hitCount, 1)))) else {
          return
        }
        let found = try await zone.shard.read {
          try $0.indexedRecords(IndexScan(index: zone.index, zone: zone.zone, range: range), limit: 64)
        }
        guard found.count == Self.hitCount else { throw StoreError.io("\(found.count) found") }
      })
    figures.add(
      "pulledPerSecond", try await rate(1) { _, round in try await pull(zones[round % zones.count], round) }.perSecond)
    // The names continue those of the set: a later, larger set has the same records.
    for (name, batch) in [("w1a", 1), ("w1b", 200)] {
      let zones = try await self.zones(shards)
      let rate = try await rate(zones.count) { loop, round in
        let first = zones[loop].recordCount + round * batch
        try await save(first..<first + batch, in: zones[loop])
        return batch
      }
      figures.add("\(name)PerSecond", rate.perSecond)
      figures.add("\(name)Microseconds", rate.cost)
    }
  }

  /// Pulls ten pages of 200 from some place of the feed.
  private func pull(_ zone: GrownZone, _ round: Int) async throws -> Int {
    var sequence = Int64(round &* 104_729 % max(zone.recordCount - 2000, 1))
    var pulled = 0
    for _ in 0..<10 {
      let page = try await zone.shard.read { [sequence] in try $0.changes(in: zone.zone, after: sequence, limit: 200) }
      guard let last = page.last else { break }
      pulled += page.count
      sequence = last.sequence
    }
    return pulled
  }
}
