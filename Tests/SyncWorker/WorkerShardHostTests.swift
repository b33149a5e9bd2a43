import InMemoryRecordStore
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
@testable import WorkerHost
@testable import ZoneCommit

/// A store with shards that open when the test allows it.
private final class ReluctantStore: RecordStore {
  let shardCount: Int
  let inner: InMemoryRecordStore
  /// The errors of opening a shard, the first entry first.
  let failures = Mutex<[StoreError]>([])
  let opens = Atomic(0)

  init(shardCount: Int) {
    self.shardCount = shardCount
    inner = InMemoryRecordStore(shardCount: shardCount)
  }

  func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    opens.add(1, ordering: .relaxed)
    if let failure = failures.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { throw failure }
    return try await inner.open(shard: shard, knownEpoch: knownEpoch, renewingBelow: bound)
  }
}

/// A store with shards that fail, and turn out damaged, when the test demands it.
private final class FailingStore: RecordStore {
  let inner: InMemoryRecordStore
  var shardCount: Int { inner.shardCount }
  let isDamaged = Atomic(false)
  let checks = Atomic(0)
  private let tell = Mutex<[Int: AsyncStream<StoreError>.Continuation]>([:])

  init(shardCount: Int) { inner = InMemoryRecordStore(shardCount: shardCount) }

  func fail(_ shard: Int, _ error: StoreError) { _ = tell.withLock { $0[shard] }?.yield(error) }

  func open(shard: Int, knownEpoch: Int64, renewingBelow bound: Int64) async throws -> any ShardStore {
    let (failures, continuation) = AsyncStream.makeStream(of: StoreError.self)
    tell.withLock { $0[shard] = continuation }
    let opened = try await inner.open(shard: shard, knownEpoch: knownEpoch, renewingBelow: bound)
    return FailingShard(base: opened, store: self, failures: failures)
  }
}

private struct FailingShard: ShardStore {
  let base: any ShardStore
  let store: FailingStore
  let failures: AsyncStream<StoreError>

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
  func removeUnknownContent(after part: Int?) async throws -> RemovedContent? {
    try await base.removeUnknownContent(after: part)
  }
  func close() async { await base.close() }

  func verify(readsAssets: Bool) async throws -> VerificationReport {
    store.checks.add(1, ordering: .relaxed)
    var report = VerificationReport()
    report.isStructureDamaged = store.isDamaged.load(ordering: .relaxed)
    return report
  }
}

/// Background work that tells when it begins and ends.
private final class BackgroundWork: ShardWork {
  let events: AsyncStream<String>.Continuation
  init(_ events: AsyncStream<String>.Continuation) { self.events = events }

  func run(on store: any ShardStore) async {
    events.yield("begin \(store.shard)/\(store.epoch)")
    let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
    for await _ in stream {}
    continuation.finish()
    events.yield("end \(store.shard)/\(store.epoch)")
  }
}

@Suite struct `The shards a worker holds` {
  static func map(_ version: Int64, _ holders: String?...) -> ClusterMap {
    ClusterMap(version: version, members: [], holders: holders)
  }

  /// A database in the given shard of four.
  static func database(in shard: Int, of count: Int = 4) -> DatabaseID {
    (0...).lazy.map { DatabaseID(container: RecordPlaneWorld.container, environment: .development, owner: "_\($0)") }
      .first { ShardLayout(createdCount: count)?.shard(of: $0) == shard }!
  }

  /// Runs a host called `me`, and `body` beside it with a way to publish maps.
  static func withHost(
    _ store: any RecordStore, work: [any ShardWork] = [], pauses: AsyncStream<Duration>.Continuation? = nil,
    _ body: @Sendable (ShardHost, AsyncStream<ClusterMap>.Continuation) async throws -> Void
  ) async throws {
    let (maps, publish) = AsyncStream.makeStream(of: ClusterMap.self)
    let host = ShardHost(
      name: "me", store: store, work: work, log: .silent, pause: { pauses?.yield($0) }, patience: { _ in })
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await host.run(maps) }
      try await body(host, publish)
      publish.finish()
      try await group.waitForAll()
    }
    #expect(await host.openStores.isEmpty)
  }

  /// Polls for a condition that no event announces.
  static func wait(until condition: () async -> Bool) async throws {
    while await !condition() { try await Task.sleep(for: .milliseconds(1)) }
  }

  static func code(_ host: ShardHost, _ database: DatabaseID) async -> BusError.Code? {
    do {
      _ = try await host.store(of: database)
      return nil
    } catch {
      return (error as? BusError)?.code
    }
  }

  @Test func `assigned shards open, others are not mine, and all are let go of at the end`() async throws {
    let store = ReluctantStore(shardCount: 4)
    try await Self.withHost(store) { (host, publish) async throws in
      #expect(await Self.code(host, Self.database(in: 0)) == .notMine)
      publish.yield(Self.map(1, "me", "other", "me", nil))
      try await Self.wait { await !(host.openStores.count < 2) }
      #expect(try await host.store(of: Self.database(in: 0)).shard == 0)
      #expect(try await host.store(of: Self.database(in: 2)).shard == 2)
      #expect(await Self.code(host, Self.database(in: 1)) == .notMine)
      #expect(await Self.code(host, Self.database(in: 3)) == .notMine)
    }
    for shard in [0, 2] { await (try store.inner.open(shard: shard)).close() }
  }

  @Test func `a request waits for a shard that its previous owner still holds`() async throws {
    let store = ReluctantStore(shardCount: 4)
    let previous = try await store.inner.open(shard: 1)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, nil, "me", nil, nil))
      try await Self.wait { await !(host.openingCount == 0) }
      async let waiting = host.store(of: Self.database(in: 1))
      await previous.close()
      #expect(try await waiting.epoch == previous.epoch + 1)
    }
  }

  @Test func `requests for a shard that goes elsewhere while it opens are told so, and the wait is given up`()
    async throws
  {
    let store = ReluctantStore(shardCount: 4)
    let previous = try await store.inner.open(shard: 1)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, nil, "me", nil, nil))
      try await Self.wait { await !(host.openingCount == 0) }
      async let waiting = Self.code(host, Self.database(in: 1))
      publish.yield(Self.map(2, nil, "other", nil, nil))
      #expect(await waiting == .notMine)
      await previous.close()
      // Nobody else holds it now: the host has given up its place in the queue.
      let next = try await store.inner.open(shard: 1)
      await next.close()
      publish.yield(Self.map(3, nil, "me", nil, nil))
      try await Self.wait { await !(host.openStores.isEmpty) }
    }
  }

  @Test func `a cancelled request stops waiting`() async throws {
    let store = ReluctantStore(shardCount: 4)
    let previous = try await store.inner.open(shard: 1)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, nil, "me", nil, nil))
      try await Self.wait { await !(host.openingCount == 0) }
      let outcome = await withTaskGroup(of: Result<Int, any Error>.self) { group in
        group.addTask {
          do { return .success(try await host.store(of: Self.database(in: 1)).shard) } catch { return .failure(error) }
        }
        group.cancelAll()
        return await group.next()
      }
      #expect(throws: CancellationError.self) { try outcome?.get() }
      await previous.close()
    }
  }

  @Test func `more requests than may wait are overloaded, unless those before have gone`() async throws {
    let store = ReluctantStore(shardCount: 4)
    let previous = try await store.inner.open(shard: 1)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, nil, "me", nil, nil))
      try await Self.wait { await !(host.openingCount == 0) }
      let codes = await withTaskGroup(of: BusError.Code?.self) { group in
        for _ in 0..<ShardHost.waiterLimit + 10 { group.addTask { await Self.code(host, Self.database(in: 1)) } }
        for _ in 0..<10 { #expect(await group.next() == .overloaded) }
        group.cancelAll()
        return await group.reduce(into: []) { $0.append($1) }
      }
      #expect(codes.count == ShardHost.waiterLimit && codes.allSatisfy { $0 == nil })
      async let waiting = host.store(of: Self.database(in: 1))
      await previous.close()
      #expect(try await waiting.shard == 1)
    }
  }

  @Test func `a lost shard is opened anew when it is still assigned`() async throws {
    let store = ReluctantStore(shardCount: 4)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, "me", nil, nil, nil))
      try await Self.wait { await !(host.openStores.isEmpty) }
      let first = try await host.store(of: Self.database(in: 0))
      let thief = store.inner.takeOver(shard: 0)
      await host.lost(first)
      await host.lost(first)
      async let waiting = host.store(of: Self.database(in: 0))
      await thief.close()
      #expect(try await waiting.epoch == thief.epoch + 1)
    }
  }

  @Test func `a shard that can't be opened refuses requests and is tried again, less and less often`() async throws {
    let store = ReluctantStore(shardCount: 4)
    store.failures.withLock { $0 = [.io("a"), .corrupt("b"), .full("c")] }
    let (pauses, paused) = AsyncStream.makeStream(of: Duration.self)
    try await Self.withHost(store, pauses: paused) { (host, publish) async throws in
      publish.yield(Self.map(1, "me", nil, nil, nil))
      try await Self.wait { await !(host.openStores.isEmpty) }
      #expect(try await host.store(of: Self.database(in: 0)).shard == 0)
    }
    paused.finish()
    var lengths: [Duration] = []
    for await pause in pauses { lengths.append(pause) }
    // Longer ones are about what serves.
    #expect(lengths.filter { $0 < .seconds(100) } == [.milliseconds(100), .milliseconds(200), .milliseconds(400)])
  }

  @Test func `requests for a shard of a newer release go elsewhere until this worker can have it`() async throws {
    let store = ReluctantStore(shardCount: 4)
    store.failures.withLock { $0 = [.newerFormat(found: 99, known: 21)] }
    let (maps, publish) = AsyncStream.makeStream(of: ClusterMap.self)
    let (gate, open) = AsyncStream.makeStream(of: Never.self)
    let host = ShardHost(
      name: "me", store: store, work: [], log: .silent, pause: { _ in for await _ in gate {} }, patience: { _ in })
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await host.run(maps) }
      publish.yield(Self.map(1, "me", nil, nil, nil))
      try await Self.wait { await host.outOfServiceCount == 1 }
      await #expect(throws: RecordError.shardMoved) { try await host.store(of: Self.database(in: 0)) }
      open.finish()
      try await Self.wait { await !host.openStores.isEmpty }
      publish.finish()
      try await group.waitForAll()
    }
  }

  @Test func `while a shard has failed its requests get the error, not a wait`() async throws {
    let store = ReluctantStore(shardCount: 4)
    store.failures.withLock { $0 = [.corrupt("page 7")] }
    let (maps, publish) = AsyncStream.makeStream(of: ClusterMap.self)
    let (gate, open) = AsyncStream.makeStream(of: Never.self)
    let host = ShardHost(
      name: "me", store: store, work: [], log: .silent, pause: { _ in for await _ in gate {} }, patience: { _ in })
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await host.run(maps) }
      publish.yield(Self.map(1, "me", nil, nil, nil))
      try await Self.wait { await host.standings.map(\.state) == [.outOfService] }
      for _ in 0..<3 {
        let error = await #expect(throws: RecordError.self) { try await host.store(of: Self.database(in: 0)) }
        #expect(error?.code == .tryAgainLater && error?.retryAfter != nil && error?.reason.contains("page 7") == false)
      }
      #expect(await host.standings.first?.reason?.contains("page 7") == true)
      open.finish()
      try await Self.wait { await !(host.openStores.isEmpty) }
      publish.finish()
      try await group.waitForAll()
    }
  }

  @Test
  func `a shard that fails in service is taken out alone, checked if it is damaged, and serves again when it is sound`()
    async throws
  {
    let store = FailingStore(shardCount: 4)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, "me", "me", nil, nil))
      try await Self.wait { await host.openStores.count == 2 }
      store.isDamaged.store(true, ordering: .relaxed)
      let (neighbour, database) = (try await host.store(of: Self.database(in: 1)), Self.database(in: 0))
      store.fail(0, .corrupt("page 9"))
      try await Self.wait { await host.standings.map(\.state) == [.outOfService, .open] }
      let error = await #expect(throws: RecordError.self) { try await host.store(of: database) }
      #expect(error == .outOfService)
      #expect(try await host.store(of: Self.database(in: 1)).epoch == neighbour.epoch)
      #expect(await host.outageCounts == (1, 0))
      #expect(await host.openingCount == 0)
      store.isDamaged.store(false, ordering: .relaxed)
      try await Self.wait { await host.openStores.count == 2 }
      #expect(try await host.store(of: database).epoch > 1)
      // A disk that failed is no reason to check all that is on it.
      let checks = store.checks.load(ordering: .relaxed)
      #expect(checks > 0)
      store.fail(0, .io("sync"))
      try await Self.wait { await host.outageCounts.failing == 1 }
      try await Self.wait { await host.openStores.count == 2 }
      #expect(store.checks.load(ordering: .relaxed) == checks)
    }
  }

  @Test func `background work on a shard runs while it is held, and stops before it is let go of`() async throws {
    let store = ReluctantStore(shardCount: 4)
    let (events, event) = AsyncStream.makeStream(of: String.self)
    try await Self.withHost(store, work: [BackgroundWork(event)]) { (host, publish) async throws in
      var seen = events.makeAsyncIterator()
      publish.yield(Self.map(1, "me", nil, nil, nil))
      #expect(await seen.next() == "begin 0/1")
      publish.yield(Self.map(2, "other", nil, nil, nil))
      #expect(await seen.next() == "end 0/1")
      let other = try await store.inner.open(shard: 0)
      publish.yield(Self.map(3, "me", nil, nil, nil))
      await other.close()
      #expect(await seen.next() == "begin 0/3")
      await host.lost(try await host.store(of: Self.database(in: 0)))
      #expect(await seen.next() == "end 0/3")
      #expect(await seen.next() == "begin 0/4")
    }
  }

  @Test func `a map of another installation is ignored`() async throws {
    let store = ReluctantStore(shardCount: 4)
    try await Self.withHost(store) { (host, publish) async throws in
      publish.yield(Self.map(1, "me", "me", "me", "me"))
      try await Self.wait { await !(host.openStores.count < 4) }
      publish.yield(Self.map(2, "other", "other"))
      publish.yield(Self.map(3, "me", "me", "me", "other"))
      try await Self.wait { await !(host.openStores.count == 4) }
      #expect(await host.openStores.map(\.shard) == [0, 1, 2])
    }
  }

  /// As after a partition: two share services' maps, or an old map next to a newer one. The files decide.
  @Test func `of two workers whose maps both give them a shard one has it, and the other when that one has let go`()
    async throws
  {
    try await withTemporaryFolder { folder in
      // Locks belong to descriptors: two stores in one process are to each other what two processes are.
      let stores = try (0..<2).map { _ in try SQLiteRecordStore(SQLiteConfiguration(directory: folder), shardCount: 1) }
      try await Self.withHost(stores[0]) { (first, firstMaps) async throws in
        firstMaps.yield(Self.map(1, "me"))
        try await Self.wait { await first.openStores.count == 1 }
        let held = try #require(await first.openStores.first)
        try await Self.withHost(stores[1]) { (second, secondMaps) async throws in
          secondMaps.yield(Self.map(2, "me"))
          let database = Self.database(in: 0, of: 1)
          try await Self.wait { await second.openingCount == 1 }
          async let waiting = second.store(of: database)
          // Longer than many attempts at the lock.
          try await Task.sleep(for: .milliseconds(200))
          #expect(await second.openStores.isEmpty, "nobody else holds it while the first does")
          #expect(try await first.store(of: database).epoch == held.epoch)
          firstMaps.yield(Self.map(2, nil))
          let taken = try await waiting
          #expect(taken.epoch == held.epoch + 1)
          await #expect(throws: (any Error).self) { try await held.enqueue { _ in }.value }
          #expect(await Self.code(first, database) == .notMine)
          try await taken.enqueue { _ in }.value
        }
      }
    }
  }
}
