import Indexing
import Records
import Testing

@testable import RecordStore

/// Field indexes in both stores.
struct IndexConformanceTests {
  static let titles = Sample.titles
  static let words = FieldIndex(recordType: "CD_Note", key: .field("CD_title"), kind: .words)

  /// Names and keys of all entries.
  static func names(_ shard: any ShardStore, _ index: StoredIndex, in place: Place, isDescending: Bool = false)
    async throws -> [String]
  {
    try await shard.read { snapshot in
      try snapshot.indexedRecords(
        IndexScan(
          index: index.key, zone: place.zone, range: IndexRange(lower: [], upper: [0xff]), isDescending: isDescending),
        limit: 10_000)
    }.map(\.stored.record.recordName)
  }

  @Test(arguments: StoreKind.allCases) func `an index has what was there before it, and follows every change`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let elsewhere = try await Place(in: shard, zone: "other")
      try await shard.write { transaction in
        for (name, title) in [("a", "mango"), ("b", "apple"), ("c", "mango"), ("d", "zebra")] {
          try transaction.save(Sample.note(name, title: title), in: place)
        }
        try transaction.save(Sample.note("tag", type: "CD_Tag", title: "banana"), in: place)
        try transaction.save(Sample.note("far", title: "banana"), in: elsewhere)
        try transaction.delete("d", in: place)
      }
      let index = try await shard.write { try $0.makeIndex(Self.titles, in: place.database) }
      #expect(try await shard.write { try $0.makeIndex(Self.titles, in: place.database) }.key == index.key)
      try await shard.settleIndexes()
      #expect(try await Self.names(shard, index, in: place) == ["b", "a", "c"])
      #expect(try await Self.names(shard, index, in: place, isDescending: true) == ["c", "a", "b"])
      #expect(try await Self.names(shard, index, in: elsewhere) == ["far"])

      try await shard.write { transaction in
        try transaction.save(Sample.note("b", title: "zoo"), in: place)
        try transaction.save(Sample.note("c", type: "CD_Tag", title: "mango"), in: place)
        try transaction.save(Sample.note("tag", type: "CD_Note", title: "banana"), in: place)
        try transaction.save(Sample.note("d", title: "again"), in: place)
      }
      #expect(try await Self.names(shard, index, in: place) == ["d", "tag", "a", "b"])
      try await shard.write { _ = try $0.delete("a", in: place) }
      #expect(try await Self.names(shard, index, in: place) == ["d", "tag", "b"])
      #expect(try await shard.read { try $0.recordCount(in: place.zone) } == 4)

      // Another owner's database is not affected.
      let stranger = try await Place(in: shard, owner: "bob")
      _ = try await shard.write { try $0.save(Sample.note("x", title: "mango"), in: stranger) }
      #expect(try await shard.read { try $0.indexes(in: stranger.database) } == [])
      #expect(try await shard.read { try $0.indexes(afterKey: 0, limit: 9).map(\.index) } == [Self.titles])

      try await shard.write { try $0.dropIndex(index.key) }
      #expect(try await shard.read { try $0.indexes(in: place.database) } == [])
      // Made again, the index has another key.
      let again = try await shard.write { try $0.makeIndex(Self.titles, in: place.database) }
      #expect(again.key != index.key)
      try await shard.settleIndexes()
      #expect(try await Self.names(shard, again, in: place) == ["d", "tag", "b"])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a record has an entry for each word, and a page begins where the last one ended`(_ kind: StoreKind) async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let index = try await shard.write { try $0.makeIndex(Self.words, in: place.database) }
      try await shard.write { transaction in
        for number in 0..<20 {
          try transaction.save(
            Sample.note(number % 2 == 0 ? "\(number)" : Sample.uuid(number), title: "Red \(number % 3) red!"), in: place
          )
        }
      }
      try await shard.settleIndexes()
      let range = IndexRange(key: Array("red".utf8))
      #expect(try await shard.read { try $0.entryCount(of: index.key, in: place.zone, range: range, limit: 100) } == 20)
      #expect(try await shard.read { try $0.entryCount(of: index.key, in: place.zone, range: range, limit: 7) } == 7)
      let names = (0..<20).map { $0 % 2 == 0 ? "\($0)" : Sample.uuid($0) }.sorted { RecordNameOrder.precedes($0, $1) }
      for (limit, count) in [(100, 20), (3, 3), (0, 0)] {
        let found = try await shard.read {
          try $0.indexedNames(of: index.key, in: place.zone, range: range, limit: limit)
        }
        #expect(found == Array(names.prefix(count)))
      }
      for isDescending in [false, true] {
        var scan = IndexScan(index: index.key, zone: place.zone, range: range, isDescending: isDescending)
        var names: [String] = []
        while let last = try await shard.read({ [scan] in try $0.indexedRecords(scan, limit: 3) }).last {
          names += try await shard.read { [scan] in try $0.indexedRecords(scan, limit: 3) }.map(
            \.stored.record.recordName)
          scan.after = IndexPosition(key: last.key, recordName: last.stored.record.recordName)
        }
        let sorted = (0..<20).map { $0 % 2 == 0 ? "\($0)" : Sample.uuid($0) }.sorted {
          RecordNameOrder.precedes($0, $1)
        }
        #expect(names == (isDescending ? sorted.reversed() : sorted))
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a body that fails leaves no index and no entry, and a deleted zone loses its entries`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      struct Stop: Error {}
      let place = try await Place(in: shard)
      await #expect(throws: Stop.self) {
        try await shard.write { transaction in
          _ = try transaction.makeIndex(Self.titles, in: place.database)
          throw Stop()
        }
      }
      #expect(try await shard.read { try $0.indexes(in: place.database) } == [])
      let index = try await shard.write { try $0.makeIndex(Self.titles, in: place.database) }
      try await shard.settleIndexes()
      _ = try await shard.write { try $0.save(Sample.note("a"), in: place) }
      await #expect(throws: Stop.self) {
        try await shard.write { transaction in
          try transaction.save(Sample.note("a", title: "other"), in: place)
          try transaction.save(Sample.note("b"), in: place)
          throw Stop()
        }
      }
      #expect(try await Self.names(shard, index, in: place) == ["a"])
      try await shard.write { try $0.deleteZone(place.zone) }
      #expect(try await Self.names(shard, index, in: place) == [])
      let again = try await Place(in: shard)
      #expect(try await Self.names(shard, index, in: again) == [])
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { _ = try $0.makeIndex(Self.titles, in: 99) }
      }
    }
  }
}
