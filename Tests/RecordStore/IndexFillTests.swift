// The work of one commit on filling an index, for all kinds of records, and with a damaged record.

import Foundation
import Indexing
import Records
import Synchronization
import Testing

@testable import RecordStore

struct IndexFillTests {
  private static func slices(_ shard: any ShardStore) -> Double { shard.statistic("index_slices_total") }

  @Test func `an index of a rare record type is filled in without going through the zone in one commit`() async throws {
    let folder = try TemporaryFolder()
    var options = SQLiteRecordStore.Options()
    options.indexSliceNameLimit = 100
    options.indexSliceTime = .seconds(60)
    options.idleIndexSliceTime = .seconds(60)
    let shard = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path, options: options), shardCount: 1
    ).open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { transaction in
      for number in 0..<3000 { try transaction.save(Sample.note(Sample.uuid(number), type: "CD_Other"), in: place) }
      for number in 3000..<3003 { try transaction.save(Sample.note(Sample.uuid(number)), in: place) }
    }
    let index = try await shard.write { try $0.makeIndex(Sample.titles, in: place.database) }
    try await shard.settleIndexes()
    #expect(Self.slices(shard) >= 30)
    #expect(try await IndexMaintenanceTests.count(shard, index.key, in: place.zone) == 3)
    #expect(try await IndexMaintenanceTests.problems(shard) == [])
    await shard.close()
  }

  @Test func `large records are filled in a few at a time`() async throws {
    let folder = try TemporaryFolder()
    var options = SQLiteRecordStore.Options()
    options.indexSliceByteLimit = 200_000
    options.indexSliceTime = .seconds(60)
    options.idleIndexSliceTime = .seconds(60)
    let shard = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path, options: options), shardCount: 1
    ).open(shard: 0)
    let place = try await Place(in: shard)
    let text = String(repeating: "x", count: 100_000)
    try await shard.write { transaction in
      for number in 0..<40 {
        var note = Sample.note("\(number)")
        note.fields["CD_text"] = Field(.string(text))
        try transaction.save(note, in: place)
      }
    }
    let index = try await shard.write { try $0.makeIndex(Sample.titles, in: place.database) }
    try await shard.settleIndexes()
    #expect(Self.slices(shard) >= 20)
    #expect(try await IndexMaintenanceTests.count(shard, index.key, in: place.zone) == 40)
    await shard.close()
  }

  @Test func `a damaged record is passed over, said once, and holds up no index`() async throws {
    let folder = try TemporaryFolder()
    var shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder.path), shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { transaction in
      for number in 0..<10 {
        try transaction.save(Sample.note("n\(number)", title: "the title of \(number)"), in: place)
      }
    }
    await shard.close()
    let path = folder.path + "/shard-0.sqlite"
    let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
    try StoredFormatTests.flip(path, at: try #require(bytes.range(of: Data("the title of 4".utf8))).lowerBound + 2)

    let problems = Mutex<[String]>([])
    shard = try await SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path), shardCount: 1,
      report: { problem in problems.withLock { $0.append(problem) } }
    ).open(
      shard: 0)
    let indexes = try await shard.write { transaction in
      try [FieldIndex.Kind.value, .words].map {
        try transaction.makeIndex(
          FieldIndex(recordType: "CD_Note", key: .field("CD_title"), kind: $0), in: place.database)
      }
    }
    try await shard.settleIndexes()
    #expect(try await IndexMaintenanceTests.count(shard, indexes[0].key, in: place.zone) == 9)
    #expect(problems.withLock(\.count) == 1)
    #expect(problems.withLock { $0.first?.contains("sequence 6") } == true, "\(problems.withLock(\.self))")
    #expect(shard.statistic("passed_over_records_total") == 1)
    #expect(shard.statistic("groups_failed_total") == 0)
    // The record itself is still unreadable.
    await StoredFormatTests.expectCorrupt { _ = try await shard.read { try $0.record(named: "n4", in: place.zone) } }
    await shard.close()
  }
}
