// The sizes and loads of shards that operators see.

import FixedClocks
import JSON
import RecordStore
import ServiceBus
import ServiceKit
import Testing

@testable import WorkerHost

struct ShardLoadsTests {
  @Test func `rates are those of the last minutes, and nothing before two looks`() {
    var window = LoadWindow()
    #expect(window.rates == nil)
    window.add(saves: 100, reads: 7, at: 1000)
    #expect(window.rates == nil)
    window.add(saves: 110, reads: 7, at: 6000)
    #expect(window.rates.map { [$0.saves, $0.reads] } == [2, 0])
    // A busy beginning is forgotten after the window's length.
    for look in 2...200 { window.add(saves: 110, reads: 7 + Double(look), at: 1000 + Int64(look) * 5000) }
    #expect(window.rates?.saves == 0)
    #expect(window.rates.map { abs($0.reads - 0.2) < 1e-9 } == true)
    // The clock is set back.
    window.add(saves: 500, reads: 500, at: 500)
    #expect(window.rates == nil)
    window.add(saves: 501, reads: 500, at: 1500)
    #expect(window.rates.map { [$0.saves, $0.reads] } == [1, 0])
  }

  @Test(arguments: StoreKind.engines)
  func `a shard is measured when it opens and then now and then, its rates are counted at each look`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let rounds = ShardCensusTests.Rounds()
      let loads = ShardLoads(clock: world.clock, log: .silent, pause: { await rounds.pause($0) })
      let task = Task { await loads.run(on: world.store) }
      try await rounds.first()
      let opened = try #require(loads.all[0])
      #expect(opened.recordCount == 0 && opened.savesPerSecond == nil)
      #expect(try await world.store.read { try $0.byteCount() } == opened.byteCount)
      // What an opening reads is no load.
      for _ in 1...ShardLoads.openingLooks {
        world.clock.advance(by: 5000)
        try await rounds.next()
      }
      #expect(loads.all[0]?.savesPerSecond == nil)
      try await world.save(
        "A", #"{"changeType":"insert","entity":"Tag","objectID":"u","attributes":{"name":"u"}}"#,
        query: ["wait": "export"])
      world.clock.advance(by: 5000)
      try await rounds.next()
      let next = try #require(loads.all[0])
      #expect(next.recordCount == 0 && next.savesPerSecond.map { $0 > 0 || kind == .memory } == true)
      for _ in ShardLoads.openingLooks + 1..<ShardLoads.looksPerMeasurement { try await rounds.next() }
      #expect(loads.all[0]?.recordCount == 1)
      task.cancel()
      await task.value
      #expect(loads.all.isEmpty)
    }
  }

  @Test func `an operator's report has the figures that are known`() async throws {
    let standings = (0..<3).map { ShardHost.Standing(shard: $0, state: .open, epoch: 1, reason: nil) }
    let reports = WorkerReports(
      stores: [], openingCount: 0, pendingPingCount: 0, standings: standings,
      loads: [
        0: ShardLoad(recordCount: 3, byteCount: 4096, savesPerSecond: 1.239, readsPerSecond: 0),
        2: ShardLoad(recordCount: 1, byteCount: 5),
      ])
    #expect(
      String(decoding: try await reports.answer(WorkerReport(subject: "shards")), as: UTF8.self) == #"""
        {"shards":[{"shard":0,"state":"open","epoch":1,"records":3,"bytes":4096,"savesPerSecond":1.24,\#
        "readsPerSecond":0.0},{"shard":1,"state":"open","epoch":1},\#
        {"shard":2,"state":"open","epoch":1,"records":1,"bytes":5}]}
        """#)
  }
}
