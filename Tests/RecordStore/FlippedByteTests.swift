// Tests with flipped bytes in a shard file.

import Foundation
import Indexing
import Records
import SQLite
import Testing

@testable import RecordStore

extension StoredFormatTests {
  static func expectCorrupt(_ body: () async throws -> Void) async {
    do {
      try await body()
      Issue.record("nothing was noticed")
    } catch StoreError.corrupt {
    } catch {
      Issue.record("\(error)")
    }
  }

  @Test func `a flipped byte within a record or a transaction is reported, and its neighbours are served`() async throws
  {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
    try await shard.write { transaction in
      for name in ["a", "b", "c"] { try transaction.save(Sample.note(name, title: "the title of \(name)"), in: place) }
      for number: Int64 in 1...2 {
        try transaction.append(
          HistoryConformanceTests.transaction(number, payload: Array("payload \(number)".utf8)), to: mirror.key)
      }
    }
    await shard.close()
    let path = folder.path + "/shard-0.sqlite"
    let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
    for text in ["the title of b", "payload 2"] {
      try Self.flip(path, at: try #require(bytes.range(of: Data(text.utf8))).lowerBound + 2)
    }

    shard = try await store.open(shard: 0)
    #expect(
      try await shard.read { try $0.record(named: "a", in: place.zone) }?.record.fields.string("CD_title")
        == "the title of a")
    await Self.expectCorrupt { _ = try await shard.read { try $0.record(named: "b", in: place.zone) } }
    await Self.expectCorrupt { _ = try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 9) } }
    await Self.expectCorrupt { _ = try await shard.write { try $0.record(named: "b", in: place.zone) } }
    await Self.expectCorrupt { _ = try await shard.read { try $0.transaction(withID: Sample.uuid(2), of: mirror.key) } }
    #expect(try await shard.read { try $0.transactions(of: mirror.key, after: 0, limit: 1) }.count == 1)
    // Writing continues.
    _ = try await shard.write { try $0.save(Sample.note("d"), in: place) }
    let report = try await #require(shard as? SQLiteShardStore).verify()
    #expect(report.problems.count == 2, "\(report)")
    await shard.close()
  }

  @Test(arguments: 0..<40) func `wherever a byte flips, nothing wrong is served unnoticed`(_ seed: UInt64) async throws
  {
    let folder = try TemporaryFolder()
    let store = try Self.store(folder)
    var shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    try await shard.write { transaction in
      for number in 0..<60 {
        try transaction.save(
          Sample.note(Sample.uuid(number), title: "\(number)"), in: place,
          references: [OutgoingReference(field: "CD_a", target: Sample.uuid(number / 2))])
      }
    }
    let names = (0..<60).map { Sample.uuid($0) }
    @Sendable func state(_ snapshot: any ShardSnapshot) throws -> [String] {
      try names.map { name in
        """
        \(String(describing: try snapshot.record(named: name, in: place.zone))) \
        \(try snapshot.references(to: name, in: place.zone))
        """
      }
        + [
          "\(try snapshot.changes(in: place.zone, after: 0, limit: 99))",
          "\(try snapshot.records(ofType: "CD_Note", in: place.zone, afterName: nil, limit: 99))",
        ]
    }
    let before = try await shard.read(state)
    await shard.close()
    var generator = SeededGenerator(seed: seed)
    let path = folder.path + "/shard-0.sqlite"
    let size = try #require(try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int)
    try Self.flip(path, at: Int.random(in: 0..<size, using: &generator))
    do {
      shard = try await store.open(shard: 0)
    } catch is StoreError {
      return
    }
    do {
      if try await shard.read(state) != before {
        #expect(try await #require(shard as? SQLiteShardStore).verify().problems != [], "wrong, and unnoticed")
      }
    } catch is StoreError {
      // Reported where the damage was found.
    }
    await shard.close()
  }
}
