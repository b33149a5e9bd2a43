import Assets
import Crypto
import Foundation
import InMemoryRecordStore
import RecordStore
import Records
import Synchronization
import Testing

/// A store whose uploads and clock the test controls.
struct AssetWorld: Sendable {
  /// The clock and the uploads for both kinds of store.
  final class Outside: Sendable {
    let clock = Mutex<Int64>(1000)
    let uploads = Mutex<Set<Asset>>([])
  }

  let store: any RecordStore
  let outside = Outside()
  let folder: TemporaryFolder
  let assets: AssetFolder

  init(_ kind: StoreKind, options: SQLiteRecordStore.Options = .init()) throws {
    let folder = try TemporaryFolder()
    self.folder = folder
    assets = AssetFolder(directory: folder.path + "/assets")
    let incarnations = Counter(1000)
    let outside = outside
    let now: @Sendable () -> Int64 = { outside.clock.withLock { $0 } }
    store =
      switch kind {
      case .inMemory:
        InMemoryRecordStore(
          shardCount: 1, makeIncarnation: { incarnations.next() }, now: now,
          hasUpload: { asset in outside.uploads.withLock { $0.contains(asset) } },
          keepsPastStates: options.keepsPastStates)
      case .sqlite:
        try SQLiteRecordStore(
          SQLiteConfiguration(directory: folder.path + "/shards", assets: assets, options: options), shardCount: 1,
          makeIncarnation: { incarnations.next() }, now: now)
      case .postgreSQL:
        try PostgreSQLRecordStore(
          World.postgreSQL(assets: assets, options: options), shardCount: 1,
          makeIncarnation: { incarnations.next() }, now: now)
      }
  }

  func upload(_ content: [UInt8]) throws -> Asset {
    let asset = try assets.put(content, until: 0)
    outside.uploads.withLock { _ = $0.insert(asset) }
    return asset
  }

  /// Drops all uploads, as if their receipts had expired.
  func forgetUploads() throws {
    _ = try assets.sweepSpool(now: 1_000_000)
    outside.uploads.withLock { $0 = [] }
  }

  func pass(_ milliseconds: Int64) { outside.clock.withLock { $0 += milliseconds } }

  /// True when the shard's file exists; for a store without files, when the store knows the asset.
  func hasFile(_ asset: Asset, in shard: any ShardStore) async throws -> Bool {
    if shard is SQLiteShardStore { return FileManager.default.fileExists(atPath: assets.path(of: asset, shard: 0)) }
    return try await shard.read { try $0.asset(withHash: asset.hash) } != nil
  }

  static func with(
    _ kind: StoreKind, options: SQLiteRecordStore.Options = .init(),
    _ body: (AssetWorld, any ShardStore) async throws -> Void
  ) async throws {
    let world = try AssetWorld(kind, options: options)
    let shard = try await world.store.open(shard: 0)
    do {
      try await body(world, shard)
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify(readsAssets: true).problems == []) }
    } catch {
      await shard.close()
      throw error
    }
    await shard.close()
  }
}

extension Sample {
  static func note(_ name: String, assets: [Asset], others: [Asset] = []) -> Record {
    var record = note(name)
    for (index, asset) in assets.enumerated() { record.fields["file\(index)"] = Field(.asset(asset)) }
    if !others.isEmpty { record.fields["files"] = Field(.list(element: .asset, others.map { .asset($0) })) }
    return record
  }
}

struct AssetConformanceTests {
  @Test(arguments: StoreKind.allCases) func `uses are counted as records come, change and go`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let (a, b) = (try world.upload([1]), try world.upload([2]))
      func uses() async throws -> [Int?] {
        try await shard.read { snapshot in try [a, b].map { try snapshot.asset(withHash: $0.hash)?.useCount } }
      }
      _ = try await shard.write { try $0.save(Sample.note("1", assets: [a]), in: place) }
      #expect(try await uses() == [1, nil])
      _ = try await shard.write { try $0.save(Sample.note("2", assets: [a, b], others: [a, b, b]), in: place) }
      #expect(try await uses() == [3, 3])
      _ = try await shard.write { try $0.save(Sample.note("2", assets: [b]), in: place) }
      #expect(try await uses() == [1, 1])
      _ = try await shard.write { try $0.save(Sample.note("2", assets: [b]), in: place) }
      #expect(try await uses() == [1, 1])
      world.pass(5)
      _ = try await shard.write { try $0.delete("1", in: place) }
      #expect(try await uses() == [0, 1])
      #expect(
        try await shard.read { try $0.asset(withHash: a.hash) } == StoredAsset(asset: a, useCount: 0, orphanedAt: 1005))
      // A tombstone becomes a record again, and one body moves an asset from one record to another.
      try await shard.write { transaction in
        try transaction.save(Sample.note("1", assets: [a]), in: place)
        try transaction.save(Sample.note("2"), in: place)
        _ = try transaction.save(Sample.note("3", assets: [b]), in: place)
      }
      #expect(try await uses() == [1, 1])
      #expect(try await shard.read { try $0.asset(withHash: b.hash) }?.orphanedAt == nil)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `content that was never uploaded is refused, and nothing of its body is stored`(_ kind: StoreKind) async throws {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let known = try world.upload([1])
      let missing = Asset(hash: SHA256.hash([9]), byteCount: 1)
      #expect(try await shard.write { try $0.hasContent(of: known) })
      #expect(try await !shard.write { try $0.hasContent(of: missing) })
      await #expect(throws: MissingAsset(missing)) {
        try await shard.write { transaction in
          try transaction.save(Sample.note("1", assets: [known]), in: place)
          try transaction.save(Sample.note("2", assets: [missing]), in: place)
        }
      }
      #expect(try await shard.read { try $0.record(named: "1", in: place.zone) } == nil)
      #expect(try await shard.read { try $0.asset(withHash: known.hash) } == nil)
      for wrong in [Asset(hash: [], byteCount: 0), Asset(hash: Array("../../../etc/passwd".utf8), byteCount: 1)] {
        await #expect(throws: (any Error).self) {
          try await shard.write { try $0.save(Sample.note("3", assets: [wrong]), in: place) }
        }
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a record's asset can be kept and shared long after its upload is forgotten`(_ kind: StoreKind) async throws {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let asset = try world.upload([1, 2])
      _ = try await shard.write { try $0.save(Sample.note("1", assets: [asset]), in: place) }
      try world.forgetUploads()
      _ = try await shard.write { try $0.save(Sample.note("2", assets: [asset]), in: place) }
      _ = try await shard.write { try $0.delete("1", in: place) }
      #expect(try await shard.collectAssets(orphanedBefore: .max, limit: 9).value == 0)
      #expect(try await world.hasFile(asset, in: shard))
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `only what has been unused for long is collected, the oldest first, and can be uploaded again`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let assets = try (0..<4).map { try world.upload([UInt8($0)]) }
      try await shard.write { transaction in
        for (index, asset) in assets.enumerated() {
          try transaction.save(Sample.note("\(index)", assets: [asset]), in: place)
        }
      }
      for name in ["2", "0", "1"] {
        world.pass(10)
        _ = try await shard.write { try $0.delete(name, in: place) }
      }
      try world.forgetUploads()
      #expect(try await shard.collectAssets(orphanedBefore: 1010, limit: 9).value == 0)
      #expect(try await shard.collectAssets(orphanedBefore: 1030, limit: 1).value == 1)
      #expect(
        try await shard.read { snapshot in try assets.map { try snapshot.asset(withHash: $0.hash) != nil } } == [
          true, true, false, true,
        ])
      #expect(try await shard.collectAssets(orphanedBefore: 1031, limit: 9).value == 2)
      for (asset, isThere) in zip(assets, [false, false, false, true]) {
        #expect(try await world.hasFile(asset, in: shard) == isThere)
      }
      await #expect(throws: MissingAsset.self) {
        try await shard.write { try $0.save(Sample.note("x", assets: [assets[0]]), in: place) }
      }
      _ = try world.upload([0])
      _ = try await shard.write { try $0.save(Sample.note("x", assets: [assets[0]]), in: place) }
      #expect(try await world.hasFile(assets[0], in: shard))
    }
  }

  @Test(arguments: StoreKind.queued)
  func `an unused file of the wrong length makes way for an upload of the same content`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let asset = try world.upload([1, 2, 3])
      _ = try await shard.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
      _ = try await shard.write { try $0.delete("a", in: place) }
      try world.forgetUploads()
      // Another file, because a shard's file is a link to that of the upload.
      let path = world.assets.path(of: asset, shard: 0)
      try FileManager.default.removeItem(atPath: path)
      try Data([1]).write(to: URL(filePath: path))
      #expect(try world.upload([1, 2, 3]) == asset)
      _ = try await shard.write { try $0.save(Sample.note("b", assets: [asset]), in: place) }
      try world.forgetUploads()
      #expect(try world.assets.read(asset, shard: 0) == [1, 2, 3])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a deleted zone lets go of its assets`(_ kind: StoreKind) async throws {
    var options = SQLiteRecordStore.Options()
    options.sweepLimit = 2
    try await AssetWorld.with(kind, options: options) { world, shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      let (a, b) = (try world.upload([1]), try world.upload([2]))
      try await shard.write { transaction in
        for index in 0..<7 { try transaction.save(Sample.note("\(index)", assets: [a, b]), in: place) }
        try transaction.save(Sample.note("x", assets: [b]), in: other)
        _ = try transaction.delete("0", in: place)
      }
      try await shard.write { try $0.deleteZone(place.zone) }
      // Slices are removed between bodies.
      while try await shard.write({ try $0.asset(withHash: a.hash) })?.useCount != 0 {}
      #expect(try await shard.read { try $0.asset(withHash: b.hash) }?.useCount == 1)
      #expect(try await shard.collectAssets(orphanedBefore: .max, limit: 9).value == 1)
      #expect(try await !world.hasFile(a, in: shard))
      #expect(try await world.hasFile(b, in: shard))
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `transactions keep their assets until they are purged or their store is forgotten`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let (a, b) = (try world.upload([1]), try world.upload([2]))
      let missing = Asset(hash: SHA256.hash([9]), byteCount: 1)
      let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database)
      try await shard.write { transaction in
        try transaction.append(HistoryConformanceTests.transaction(1), assets: [a, a, b], to: mirror.key)
        try transaction.append(HistoryConformanceTests.transaction(2), assets: [b], to: mirror.key)
        try transaction.append(HistoryConformanceTests.transaction(3), to: mirror.key)
      }
      func uses() async throws -> [Int?] {
        try await shard.read { snapshot in try [a, b].map { try snapshot.asset(withHash: $0.hash)?.useCount } }
      }
      #expect(try await uses() == [1, 2])
      await #expect(throws: MissingAsset(missing)) {
        try await shard.write {
          try $0.append(HistoryConformanceTests.transaction(4), assets: [missing], to: mirror.key)
        }
      }
      _ = try await shard.write { try $0.purgeTransactions(of: mirror.key, through: 1) }
      #expect(try await uses() == [0, 1])
      try await shard.write { try $0.deleteMirror(mirror.key) }
      #expect(try await uses() == [0, 0])
      #expect(try await shard.collectAssets(orphanedBefore: .max, limit: 9).value == 2)
    }
  }

  @Test(arguments: StoreKind.allCases) func `databases know what their records hold`(_ kind: StoreKind) async throws {
    try await AssetWorld.with(kind) { world, shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      let asset = try world.upload(Array(repeating: 1, count: 5000))
      func byteCount() async throws -> Int64? {
        try await shard.read { try $0.database(key: place.database)?.byteCount }
      }
      #expect(try await byteCount() == 0)
      let (first, second) = (Sample.note("1", assets: [asset], others: [asset]), Sample.note("2"))
      let expected = Int64(first.encoded().count + 10_000)
      #expect(first.countedByteCount == expected)
      _ = try await shard.write { try $0.save(first, in: place) }
      #expect(try await byteCount() == expected)
      // A transaction sees its own changes before its commit.
      let seen = try await shard.write { transaction in
        try transaction.save(second, in: other)
        return try transaction.database(key: place.database)?.byteCount
      }
      #expect(seen == expected + second.countedByteCount)
      #expect(try await byteCount() == seen)
      _ = try await shard.write { try $0.save(Sample.note("1", title: "longer than it was"), in: place) }
      #expect(
        try await byteCount() == Sample.note("1", title: "longer than it was").countedByteCount
          + second.countedByteCount)
      _ = try await shard.write { try $0.delete("1", in: place) }
      #expect(try await byteCount() == second.countedByteCount)
      try await shard.write { try $0.deleteZone(other.zone) }
      #expect(try await byteCount() == 0)
    }
  }
}
