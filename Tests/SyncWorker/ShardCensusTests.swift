// A scrape's figures of shards come without reading the shards.

import FixedClocks
import History
import InMemoryRecordStore
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
@testable import WorkerHost

struct ShardCensusTests {
  /// Lets a census look whenever the test says so.
  final class Rounds: Sendable {
    private let state = Mutex<(looked: Int, gate: AsyncStream<Void>.Continuation?)>((0, nil))

    func pause(_: Duration) async {
      let (gate, open) = AsyncStream.makeStream(of: Void.self)
      state.withLock { $0 = ($0.looked + 1, open) }
      for await _ in gate {}
    }

    func next() async throws {
      let seen = state.withLock { state in
        state.gate?.finish()
        return state.looked
      }
      while state.withLock({ $0.looked == seen }) { try await Task.sleep(for: .milliseconds(1)) }
    }

    func first() async throws {
      while state.withLock({ $0.looked == 0 }) { try await Task.sleep(for: .milliseconds(1)) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a save that waits for its export is counted with its age, until it is exported`(_ kind: StoreKind) async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let (metrics, rounds) = (Metrics(), Rounds())
      let census = ShardCensus(metrics: metrics, clock: world.clock, log: .silent, pause: { await rounds.pause($0) })
      let task = Task { await census.run(on: world.store) }
      try await rounds.first()
      #expect(census.sum == ShardCensus.Figures())
      let change = HistoryTransaction(
        transactionID: "T", timestamp: 0, changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "t")])
      try await world.appendWithoutExport([change], to: "A")
      try await rounds.next()
      #expect(census.sum == ShardCensus.Figures(waitingCount: 1, oldestWaitingAt: 0))
      // Its age rises without another look.
      for advance in [0, 90_000] {
        world.clock.advance(by: Int64(advance))
        let text = String(decoding: await metrics.text(), as: UTF8.self)
        let age = text.firstMatch(of: /\naquifer_export_oldest_waiting_seconds (\S+)\n/).flatMap { Double($0.output.1) }
        #expect(text.contains("\naquifer_export_waiting_transactions 1\n") && age == Double(world.clock.now) / 1000)
      }
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Tag","objectID":"u","attributes":{"name":"u"}}"#,
        query: ["wait": "export"])
      try await rounds.next()
      #expect(census.sum == ShardCensus.Figures())
      #expect(
        String(decoding: await metrics.text(), as: UTF8.self).contains("\naquifer_export_oldest_waiting_seconds 0\n"))
      task.cancel()
      await task.value
    }
  }

  @Test func `shards' counters stay when they move, their contents do not`() async throws {
    let store = InMemoryRecordStore(shardCount: 2)
    let shards = [try await store.open(shard: 0), try await store.open(shard: 1)]
    for shard in shards { _ = try await shard.enqueue { _ in 1 }.value }
    var totals = ShardTotals()
    totals.add(shards[0], isOpen: true)
    totals.add(shards[1], isOpen: false)
    #expect(totals.values["commits_total"] == 2)
    var open = ShardTotals()
    open.add(Gauged(), isOpen: true)
    open.add(Gauged(), isOpen: false)
    #expect(open.values == ["queue_length": 7, "commits_total": 6] && open.longestQueue == 7)
    #expect(open.distributions["commit_bodies"]?.counts.count == 3)
  }

  /// A shard of which only the figures matter.
  private struct Gauged: ShardStore {
    var shard: Int { 0 }
    var epoch: Int64 { 1 }
    var statistics: [StoreStatistic] {
      [StoreStatistic(name: "queue_length", value: 7), StoreStatistic(name: "commits_total", value: 3)]
    }
    var distributions: [StoreDistribution] { [StoreDistribution(name: "commit_bodies", bounds: [1, 2])] }

    func enqueue<Value: Sendable>(
      expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
      _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
    ) -> PendingCommit<Value> { Refused(shard: 0) }
    func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value {
      throw StoreError.closed(shard: 0)
    }
    func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> PendingCommit<Int> { Refused(shard: 0) }
    func close() async {}

    private struct Refused<Value: Sendable>: CommitOutcome {
      let shard: Int
      var value: Value { get async throws { throw StoreError.closed(shard: shard) } }
    }
  }
}
