import Assets
import Crypto
import DistantAssets
import RecordStore
import Records
import Synchronization
import Testing

/// Bodies that need a store of assets on a network.
struct AssetCallTests {
  private static func with(
    _ options: SQLiteRecordStore.Options = .init(), _ body: (DistantAssets, any ShardStore, Place) async throws -> Void
  ) async throws {
    let folder = try TemporaryFolder()
    let assets = DistantAssets(AssetFolder(directory: folder.path + "/assets"), isGated: true)
    let store = try SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path + "/shards", assets: assets, options: options), shardCount: 1,
      now: { 1000 })
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    do {
      try await body(assets, shard, place)
    } catch {
      assets.open(for: 1000)
      await shard.close()
      throw error
    }
    assets.open(for: 1000)
    await shard.close()
  }

  @Test(.timeLimit(.minutes(2))) func `saves go on while a hundred others wait for contents, and then all are there`()
    async throws
  {
    try await Self.with { assets, shard, place in
      let contents = try (0..<100).map { try assets.put([UInt8($0), 1], until: 0) }
      let waiting = contents.enumerated().map { index, asset in
        shard.enqueue { try $0.save(Sample.note("slow-\(index)", assets: [asset]), in: place) }
      }
      await assets.calls(1)
      for index in 0..<50 { _ = try await shard.write { try $0.save(Sample.note("quick-\(index)"), in: place) } }
      #expect(try await shard.read { try $0.record(named: "slow-0", in: place.zone) } == nil)
      assets.open(for: 100)
      for commit in waiting { _ = try await commit.value }
      let uses = try await shard.read { snapshot in
        try contents.map { try snapshot.asset(withHash: $0.hash)?.useCount }
      }
      #expect(uses == Array(repeating: 1, count: 100))
      #expect(try await shard.verify(readsAssets: true).problems == [])
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a body is told of all its contents by one call, and one that is nowhere refuses it`()
    async throws
  {
    try await Self.with { assets, shard, place in
      let known = try (0..<5).map { try assets.put([UInt8($0)], until: 0) }
      let missing = Asset(hash: SHA256.hash([99]), byteCount: 1)
      assets.open(for: 9)
      let isThere = try await shard.write { (try $0.hasContent(of: missing), try $0.hasContent(of: known[0])) }
      #expect(isThere == (false, true))
      #expect(assets.callCount == 1)
      _ = try await shard.write { try $0.save(Sample.note("a", assets: known), in: place) }
      #expect(assets.callCount == 2)
      // What was prepared for one run is prepared again for the next.
      let more = try (10..<13).map { try assets.put([UInt8($0)], until: 0) }
      try assets.prepare([more[1]], for: 0)
      _ = try await shard.write { try $0.save(Sample.note("c", assets: more), in: place) }
      #expect(assets.callCount == 4)
      await #expect(throws: MissingAsset(missing)) {
        try await shard.write { try $0.save(Sample.note("b", assets: [known[0], missing]), in: place) }
      }
      #expect(try await shard.read { try $0.asset(withHash: known[0].hash) }?.useCount == 1)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a store of contents that does not answer refuses the body, which changes nothing`()
    async throws
  {
    try await Self.with { assets, shard, place in
      let asset = try assets.put([1], until: 0)
      assets.fail(with: .unavailable("away"))
      assets.open(for: 1)
      await #expect(throws: StoreError.unavailable("away")) {
        try await shard.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
      }
      #expect(try await shard.read { try $0.record(named: "a", in: place.zone) } == nil)
      assets.fail(with: nil)
      assets.open(for: 1)
      _ = try await shard.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
    }
  }

  @Test(.timeLimit(.minutes(2))) func `contents leave while saves go on, and nothing uses them meanwhile`() async throws
  {
    try await Self.with { assets, shard, place in
      let asset = try assets.put([1], until: 0)
      assets.open(for: 1)
      _ = try await shard.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
      _ = try await shard.write { try $0.save(Sample.note("a"), in: place) }
      let removal = shard.collectAssets(orphanedBefore: .max, limit: 9)
      await assets.calls(2)
      _ = try await shard.write { try $0.save(Sample.note("b"), in: place) }
      let use = shard.enqueue { try $0.save(Sample.note("c", assets: [asset]), in: place) }
      await assets.calls(3)
      // Either of the two calls may go first.
      assets.open(for: 2)
      #expect(try await removal.value == 1)
      let isUsed = (try? await use.value) != nil
      let row = try await shard.read { try $0.asset(withHash: asset.hash) }
      #expect(row?.useCount == (isUsed ? 1 : nil))
      #expect(assets.present([asset], in: 0).isEmpty == !isUsed)
      #expect(try await shard.verify(readsAssets: true).problems == [])
    }
  }

  @Test(.timeLimit(.minutes(2))) func `a shard is given up only after its removals have ended`() async throws {
    let folder = try TemporaryFolder()
    let near = AssetFolder(directory: folder.path + "/assets")
    let assets = DistantAssets(near, isGated: true)
    let configuration = SQLiteConfiguration(directory: folder.path + "/shards", assets: assets)
    let shard = try await SQLiteRecordStore(configuration, shardCount: 1).open(shard: 0)
    let place = try await Place(in: shard)
    let (asset, other) = (try assets.put([1], until: 0), try assets.put([2], until: 0))
    assets.open(for: 1)
    _ = try await shard.write { try $0.save(Sample.note("a", assets: [asset]), in: place) }
    _ = try await shard.write { try $0.save(Sample.note("a"), in: place) }
    let removal = shard.collectAssets(orphanedBefore: .max, limit: 9)
    let save = shard.enqueue { try $0.save(Sample.note("b", assets: [other]), in: place) }
    await assets.calls(3)
    let isClosed = Atomic(false)
    async let closing: Void = {
      await shard.close()
      isClosed.store(true, ordering: .sequentiallyConsistent)
    }()
    // The shard still works for others until then.
    for index in 0..<20 { _ = try await shard.write { try $0.save(Sample.note("quick-\(index)"), in: place) } }
    let isEarly = isClosed.load(ordering: .sequentiallyConsistent)
    #expect(!isEarly)
    assets.open(for: 2)
    await closing
    _ = try? await removal.value
    _ = try? await save.value
    let next = try await SQLiteRecordStore(configuration, shardCount: 1).open(shard: 0)
    #expect(near.present([asset], in: 0).isEmpty)
    #expect(try await next.verify(readsAssets: false).problems == [])
    await next.close()
  }

  @Test(.timeLimit(.minutes(2)))
  func `bodies and reads that ask for calls run again after them, and at most five times`()
    async throws
  {
    try await Self.with { _, shard, place in
      let (runs, calls) = (Counter(0), Counter(0))
      let value = try await shard.write { transaction in
        _ = try transaction.save(Sample.note("a"), in: place)
        let run = runs.next()
        if run < 4 { throw AssetCalls("a test") { _ = calls.next() } }
        return run
      }
      // The fourth run made no calls.
      #expect(value == 4 && calls.next() == 4)
      #expect(try await shard.read { try $0.record(named: "a", in: place.zone) }?.record.recordName == "a")
      let reads = Counter(0)
      let read = try await shard.read { _ in
        let run = reads.next()
        if run < 3 { throw AssetCalls("a test") {} }
        return run
      }
      #expect(read == 3)
      let endless = Counter(0)
      await #expect(throws: StoreError.self) {
        try await shard.write { _ in
          _ = endless.next()
          throw AssetCalls("a test") {}
        }
      }
      #expect(endless.next() == UInt64(AssetCalls.runLimit) + 1)
    }
  }

  @Test(.timeLimit(.minutes(2))) func `bodies that wait for contents are bounded`() async throws {
    var options = SQLiteRecordStore.Options()
    options.queueLimit = 4
    try await Self.with(options) { assets, shard, place in
      var waiting: [PendingCommit<StoredRecord>] = []
      for index in 0..<4 {
        let asset = try assets.put([UInt8(index)], until: 0)
        waiting.append(shard.enqueue { try $0.save(Sample.note("\(index)", assets: [asset]), in: place) })
      }
      await assets.calls(4)
      let asset = try assets.put([9], until: 0)
      await #expect(throws: StoreError.overloaded(shard: 0)) {
        try await shard.write { try $0.save(Sample.note("9", assets: [asset]), in: place) }
      }
      assets.open(for: 4)
      for commit in waiting { _ = try await commit.value }
    }
  }
}
