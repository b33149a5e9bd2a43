// A worker's shards of which some were divided.

import InMemoryRecordStore
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import WorkerHost
@testable import ZoneCommit

/// A store whose shards have a part of the databases, in place of what they would have without divisions.
private final class DividedStore: RecordStore {
  let inner: InMemoryRecordStore
  let shardCount: Int
  /// By shard.
  let parts: Mutex<[Int: ShardPart]>
  let pending = Mutex<[Int: PendingSplit]>([:])
  /// As the last map tells them.
  let placements = Mutex<[ShardPlacement]>([])

  init(createdCount: Int, count: Int, parts: [Int: ShardPart] = [:]) {
    inner = InMemoryRecordStore(shardCount: count)
    shardCount = createdCount
    self.parts = Mutex(parts)
  }

  func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    let opened = try await inner.open(shard: shard, knownEpoch: knownEpoch, renewingBelow: bound)
    return DividedShard(base: opened, part: parts.withLock { $0[shard] }, store: self)
  }

  func follow(_ clusters: [ShardPlacement], named: Set<String>) { placements.withLock { $0 = clusters } }
}

private struct DividedShard: ShardStore {
  let base: any ShardStore
  let part: ShardPart?
  let store: DividedStore

  var shard: Int { base.shard }
  var epoch: Int64 { base.epoch }
  var pendingSplit: PendingSplit? { store.pending.withLock { $0[shard] } }
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
    let store = DividedStore(createdCount: 2, count: 3, parts: parts)
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

  @Test func `a shard that was brought back to before its division serves nothing, and one whose half left serves`()
    async throws
  {
    let layout = try #require(ShardLayout(createdCount: 2, splits: [0]))
    let store = DividedStore(createdCount: 2, count: 3, parts: [2: try #require(layout.part(of: 2))])
    let (maps, publish) = AsyncStream.makeStream(of: ClusterMap.self)
    let (gate, open) = AsyncStream.makeStream(of: Never.self)
    let isPausing = Atomic(false)
    let host = ShardHost(
      name: "me", store: store, work: [], log: .silent,
      pause: { pause in
        guard pause == .seconds(5) else { return }
        isPausing.store(true, ordering: .relaxed)
        for await _ in gate {}
      }, patience: { _ in })
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await host.run(maps) }
      publish.yield(ClusterMap(version: 1, members: [], holders: ["me", "me", "me"], splits: [0]))
      try await Self.wait { await host.openStores.map(\.shard) == [1, 2] }
      try await Self.wait { await host.standings.first?.state == .outOfService }
      #expect(await host.standings.first?.reason?.contains("shard 0 was brought back to before a division") == true)
      #expect(await host.refusedCount == 1)
      try await Self.wait { isPausing.load(ordering: .relaxed) }
      let database = Self.database(in: 0, of: 4)
      await #expect(throws: RecordError.outOfService) { try await host.store(of: database) }
      store.parts.withLock { $0[0] = layout.part(of: 0) }
      open.finish()
      try await Self.wait { await host.openStores.count == 3 }
      #expect(try await host.store(of: database).shard == 0)
      // Divided, and the directory has not heard of it.
      store.parts.withLock { $0[1] = ShardPart(modulus: 4, remainder: 1) }
      await host.lost(try await host.store(ofShard: 1))
      try await Self.wait { await host.openStores.count == 3 }
      #expect(try await host.store(ofShard: 1).part == ShardPart(modulus: 4, remainder: 1))
      publish.finish()
      try await group.waitForAll()
    }
  }

  @Test func `an open shard is opened anew when the map knows of a division that it has not seen`() async throws {
    let store = DividedStore(createdCount: 2, count: 3)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, "me", "other"))
      try await Self.wait { await host.openStores.map(\.epoch) == [1] }
      store.parts.withLock { $0[0] = ShardPart(modulus: 4, remainder: 0) }
      publish.yield(ClusterMap(version: 2, members: [], holders: ["me", "other", nil], splits: [0]))
      try await Self.wait { await host.openStores.map(\.epoch) == [2] }
      #expect(try await host.store(ofShard: 0).part != nil)
    }
  }

  @Test func `a map tells the store which division a new shard came by`() async throws {
    let store = DividedStore(createdCount: 1, count: 2, parts: [0: try #require(ShardPart(modulus: 2, remainder: 0))])
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(
        ClusterMap(
          version: 1, members: [], holders: ["me", nil],
          clusters: [ShardCluster(), ShardCluster(name: "west", arrival: 7)], splits: [0]))
      try await Self.wait { await !host.openStores.isEmpty }
      #expect(store.placements.withLock { $0.map(\.arrival) } == [nil, 7])
    }
  }

  @Test func `a shard is opened anew, once, when a request to divide it is taken back`() async throws {
    let store = DividedStore(createdCount: 2, count: 2)
    try await Self.withHost(store) { (host, publish) async throws in
      func map(_ version: Int64, _ takenBack: Int64?...) -> ClusterMap {
        ClusterMap(
          version: version, members: [], holders: ["me", "me"], clusters: takenBack.map { ShardCluster(takenBack: $0) })
      }
      publish.yield(map(1, nil, nil))
      try await Self.wait { await host.openStores.map(\.epoch) == [1, 1] }
      publish.yield(map(2, nil, 4))
      try await Self.wait { await host.openStores.map(\.epoch) == [1, 2] }
      publish.yield(map(3, nil, 4))
      publish.yield(map(4, 5, nil))
      try await Self.wait { await host.openStores.map(\.epoch) == [2, 2] }
    }
  }

  @Test func `the directory is told of a shard again when a map contradicts its part`() async throws {
    let store = DividedStore(createdCount: 2, count: 2, parts: [0: try #require(ShardPart(modulus: 4, remainder: 0))])
    let directory = await ToldDirectory(worker: "me")
    let (maps, publish) = AsyncStream.makeStream(of: ClusterMap.self)
    let host = ShardHost(
      name: "me", store: store, epochs: ShardEpochs(bus: directory.bus, log: .silent, pause: { _ in }), work: [],
      log: .silent, pause: { _ in }, patience: { _ in })
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await host.run(maps) }
      publish.yield(Self.map(1, "me", "other"))
      try await Self.wait { await host.openStores.count == 1 }
      let first = directory.told
      #expect(first.map(\.part) == [ShardPart(modulus: 4, remainder: 0)])
      // The directory has come from a backup, or lost a message.
      publish.yield(Self.map(2, "me", "other"))
      try await Self.wait { directory.told == first + first }
      publish.finish()
      try await group.waitForAll()
    }
  }
}
