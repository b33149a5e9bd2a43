import Assets
import Crypto
import Foundation
import History
import Records
import Sanitizers
import SQLite
import Testing

@testable import RecordStore

/// The file store's work besides counting uses.
struct AssetFileTests {
  @Test(arguments: Sanitizer.few(3, of: 0..<12 as Range<UInt64>))
  func `saves, deletions, uploads and collections in any order leave what is used, and nothing else`(_ seed: UInt64)
    async throws
  {
    var generator = SeededGenerator(seed: seed)
    var options = SQLiteRecordStore.Options()
    options.groupBodyLimit = 6
    let worlds = try [AssetWorld(.inMemory), AssetWorld(.sqlite, options: options)]
    var shards: [any ShardStore] = []
    var places: [Place] = []
    for world in worlds {
      shards.append(try await world.store.open(shard: 0))
      places.append(try await Place(in: shards[shards.count - 1]))
    }
    let contents = (0..<5).map { [UInt8]("content \($0)".utf8) }
    let assets = contents.map { Asset(hash: SHA256.hash($0), byteCount: Int64($0.count)) }
    for round in 0..<25 {
      // Uploads and the clock change only between batches, so that both stores see the same.
      for world in worlds {
        world.pass(10)
        if round % 7 == 6 { try world.forgetUploads() }
      }
      for _ in 0..<Int.random(in: 0..<3, using: &generator) {
        let content = contents[Int.random(in: 0..<5, using: &generator)]
        for world in worlds { _ = try world.upload(content) }
      }
      var pending: [[PendingCommit<Int>]] = [[], []]
      for _ in 0..<Int.random(in: 1..<14, using: &generator) {
        let (name, kind) = (
          "note \(Int.random(in: 0..<4, using: &generator))", Int.random(in: 0..<10, using: &generator)
        )
        let used = (0..<Int.random(in: 0..<3, using: &generator)).map { _ in
          assets[Int.random(in: 0..<5, using: &generator)]
        }
        let cutoff = 1000 + Int64(round * 10) - Int64(Int.random(in: -1..<30, using: &generator))
        for (index, shard) in shards.enumerated() {
          let place = places[index]
          switch kind {
          case 0..<2: pending[index].append(shard.collectAssets(orphanedBefore: cutoff, limit: 99))
          case 2..<5: pending[index].append(shard.enqueue { try $0.delete(name, in: place) == nil ? 0 : 1 })
          case 5:
            // Links content, and is rolled back.
            pending[index].append(
              shard.enqueue { transaction in
                try transaction.save(Sample.note(name, assets: used), in: place)
                throw Script.Stop()
              })
          default:
            pending[index].append(
              shard.enqueue { Int(try $0.save(Sample.note(name, assets: used), in: place).sequence) })
          }
        }
      }
      var outcomes: [[String]] = [[], []]
      for index in 0..<2 {
        for commit in pending[index] {
          do { outcomes[index].append("\(try await commit.value)") } catch {
            outcomes[index].append("\(type(of: error))")
          }
        }
      }
      try #require(outcomes[0] == outcomes[1], "seed \(seed), round \(round)")
      let rows = try await [shards[0], shards[1]].asyncMap { shard in
        try await shard.read { snapshot in try assets.map { try snapshot.asset(withHash: $0.hash) } }
      }
      try #require(rows[0] == rows[1], "seed \(seed), round \(round)")
      for (asset, row) in zip(assets, rows[1]) where row != nil {
        #expect(try await worlds[1].hasFile(asset, in: shards[1]), "seed \(seed), round \(round)")
      }
      let report = try await #require(shards[1] as? SQLiteShardStore).verify(readsAssets: true)
      try #require(report.problems == [], "seed \(seed), round \(round)")
      // Later bodies would find links of rolled-back ones; the oracle has no files.
      _ = try await shards[1].removeUnknownContent()
    }
    for shard in shards { await shard.close() }
  }

  @Test func `files that no commit knows of are removed, and only those`() async throws {
    try await AssetWorld.with(.sqlite) { world, shard in
      let place = try await Place(in: shard)
      let (used, unused, undone) = (try world.upload([1]), try world.upload([2]), try world.upload([3]))
      try await shard.write { transaction in
        try transaction.save(Sample.note("1", assets: [used]), in: place)
        _ = try transaction.save(Sample.note("2", assets: [unused]), in: place)
      }
      _ = try await shard.write { try $0.delete("2", in: place) }
      await #expect(throws: Script.Stop.self) {
        try await shard.write { transaction in
          _ = try transaction.save(Sample.note("3", assets: [undone]), in: place)
          throw Script.Stop()
        }
      }
      #expect(try await world.hasFile(undone, in: shard))
      #expect(try await shard.removeUnknownContent() == 1)
      for (asset, isThere) in [(used, true), (unused, true), (undone, false)] {
        #expect(try await world.hasFile(asset, in: shard) == isThere)
      }
      #expect(try await shard.removeUnknownContent(after: 255) == nil)
    }
  }

  @Test func `a file of format 1 is counted when it is opened, and keeps its assets`() async throws {
    let world = try AssetWorld(.sqlite)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    let other = try await Place(in: shard, zone: "other")
    let contents = (0..<3).map { [UInt8](repeating: UInt8($0), count: 1000) }
    let assets = try contents.map { try world.upload($0) }
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
    let history = HistoryTransaction(
      transactionID: "t", timestamp: 1,
      changes: [
        HistoryChange(
          changeType: .insert, entity: "Note", objectID: "1",
          attributes: [NamedValue(name: "text", value: .asset(assets[2]))])
      ])
    try await shard.write { transaction in
      try transaction.save(Sample.note("1", assets: [assets[0]], others: [assets[0], assets[1]]), in: place)
      try transaction.save(Sample.note("2", assets: [assets[1]]), in: other)
      try transaction.save(Sample.note("3", assets: [assets[0]]), in: place)
      _ = try transaction.delete("3", in: place)
      try transaction.append(
        HistoryConformanceTests.transaction(1, payload: history.encoded()), assets: history.assets, to: mirror.key)
    }
    let before = try await shard.read { snapshot in
      (try snapshot.database(key: place.database), try assets.map { try snapshot.asset(withHash: $0.hash)?.useCount })
    }
    #expect(before.1 == [2, 2, 1])
    await shard.close()

    // As the first release left it: one folder of files for all shards, and no table of format 3.
    for asset in assets {
      let path = world.assets.directory + "/" + asset.unshardedPath
      try FileManager.default.createDirectory(
        atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
      try FileManager.default.moveItem(atPath: world.assets.path(of: asset, shard: 0), toPath: path)
    }
    try FileManager.default.removeItem(atPath: world.assets.directory + "/shard-0")
    try world.forgetUploads()
    let connection = try Connection(exclusive: world.folder.path + "/shards/shard-0.sqlite", mode: .readWrite)
    try connection.execute(
      """
      DROP TABLE asset; DROP TABLE history_asset; ALTER TABLE database DROP COLUMN bytes; ALTER TABLE zone DROP COLUMN \
      bytes;
      UPDATE meta SET value = 1 WHERE key = 'format'
      """)
    try connection.checkpoint(.truncate)
    connection.close()

    var file = ShardFile(
      SQLiteConfiguration(directory: world.folder.path + "/shards", assets: world.assets), shard: 0, shardCount: 1)
    file.changes = file.changes.filter { $0.format == 1 || $0.format == FormatChange.assets.rawValue }
    shard = try await #require(world.store as? SQLiteRecordStore).open(file)
    let after = try await shard.read { snapshot in
      (try snapshot.database(key: place.database), try assets.map { try snapshot.asset(withHash: $0.hash)?.useCount })
    }
    #expect(after.0 == before.0)
    #expect(after.1 == before.1)
    let report = try await #require(shard as? SQLiteShardStore).verify(readsAssets: true)
    #expect(report.problems == [])
    #expect(report.assetCount == 3)
    for (asset, content) in zip(assets, contents) { #expect(try world.assets.read(asset, shard: 0) == content) }
    await shard.close()
  }

  @Test func `verification finds a file that is missing, shortened or altered, and counts that are wrong`() async throws
  {
    let world = try AssetWorld(.sqlite)
    var shard = try await world.store.open(shard: 0)
    let place = try await Place(in: shard)
    let assets = try (0..<4).map { try world.upload([UInt8](repeating: UInt8($0), count: 100)) }
    try await shard.write { transaction in
      for (index, asset) in assets.enumerated() {
        try transaction.save(Sample.note("\(index)", assets: [asset]), in: place)
      }
    }
    // The spool's file is the same file.
    try world.forgetUploads()
    try FileManager.default.removeItem(atPath: world.assets.path(of: assets[0], shard: 0))
    #expect(truncate(world.assets.path(of: assets[1], shard: 0), 99) == 0)
    try StoredFormatTests.flip(world.assets.path(of: assets[2], shard: 0), at: 50)
    let store = try #require(shard as? SQLiteShardStore)
    #expect(try await store.verify().problems.count == 2)
    #expect(try await store.verify(readsAssets: true).problems.count == 3)
    await shard.close()

    let connection = try Connection(exclusive: world.folder.path + "/shards/shard-0.sqlite", mode: .readWrite)
    try connection.execute(
      "UPDATE asset SET uses = 7; UPDATE zone SET bytes = bytes + 1; UPDATE database SET bytes = bytes + 2")
    try connection.checkpoint(.truncate)
    connection.close()
    shard = try await world.store.open(shard: 0)
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems.count == 2 + 4 + 2)
    await shard.close()
  }
}

extension Array {
  fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async throws -> [Value] {
    var values: [Value] = []
    for element in self { values.append(try await transform(element)) }
    return values
  }
}

extension ShardStore {
  /// Removes the unknown content of all parts.
  /// - Returns: the number of removed files.
  fileprivate func removeUnknownContent() async throws -> Int {
    var count = 0
    var part: Int?
    while let removed = try await removeUnknownContent(after: part) {
      part = removed.part
      count += removed.count
    }
    return count
  }
}
