// A worker's shards of which some were divided.

import InMemoryRecordStore
import RecordStore
import Records
import ServiceBus
import Testing

@testable import WorkerHost

/// A store whose shards have a part of the databases, in place of what they would have without divisions.
private struct DividedStore: RecordStore {
  let inner: InMemoryRecordStore
  let parts: [Int: ShardPart]
  let shardCount: Int

  func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    let store = try await inner.open(shard: shard, knownEpoch: knownEpoch, renewingBelow: bound)
    return DividedShard(base: store, part: parts[shard])
  }
}

private struct DividedShard: ShardStore {
  let base: any ShardStore
  let part: ShardPart?

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var statistics: [StoreStatistic] { base.statistics }
  func enqueue<Value: Sendable>(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) -> PendingCommit<Value> { base.enqueue(expecting: lookups, body) }
  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
    try await base.read(body)
  }
  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> {
    base.collectAssets(orphanedBefore: cutoff, limit: limit)
  }
  func close() async { await base.close() }
}

extension `The shards a worker holds` {
  @Test func `a database that a divided shard has no more is not mine, whichever of map and shard is newer`()
    async throws
  {
    let layout = try #require(ShardLayout(createdCount: 2, splits: [0]))
    let parts = Dictionary(
      uniqueKeysWithValues: [0, 2].compactMap { shard in layout.part(of: shard).map { (shard, $0) } })
    let store = DividedStore(inner: InMemoryRecordStore(shardCount: 3), parts: parts, shardCount: 2)
    let databases = (0..<40).map {
      DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_\($0)")
    }
    let (stayed, left) = (
      databases.filter { layout.shard(of: $0) == 0 }, databases.filter { layout.shard(of: $0) == 2 }
    )
    try await Self.withHost(store) { (host, publish) async throws in
      // The map does not know of the division yet.
      publish.yield(Self.map(1, "me", "other"))
      try await Self.wait { await host.openStores.count == 1 }
      for database in stayed { #expect(try await host.store(of: database).shard == 0) }
      for database in left {
        #expect(await Self.code(host, database) == .notMine)
        #expect(await host.openStore(of: database) == nil)
      }
      #expect(await (try? host.store(ofShard: 0, having: nil)) == nil)
      #expect(try await host.store(ofShard: 0, having: parts[0]).shard == 0)
      publish.yield(ClusterMap(version: 2, members: [], holders: ["me", "other", "me"], splits: [0]))
      try await Self.wait { await host.openStores.count == 2 }
      for database in stayed + left {
        #expect(try await host.store(of: database).shard == layout.shard(of: database))
        #expect(await host.openStore(of: database)?.shard == layout.shard(of: database))
      }
    }
  }
}
