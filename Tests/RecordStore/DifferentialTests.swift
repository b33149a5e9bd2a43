import RecordStore
import Records
import Sanitizers
import Testing

/// Compares the engines with the oracle.
struct DifferentialTests {
  @Test(arguments: StoreKind.queued, Sanitizer.few(2, of: [1, 2, 3, 4] as [UInt64]))
  func `thousands of random bodies leave both stores the same, also across reopening`(_ kind: StoreKind, _ seed: UInt64)
    async throws
  {
    var generator = SeededGenerator(seed: seed)
    var options = SQLiteRecordStore.Options()
    options.groupBodyLimit = 8
    options.checkpointPages = 40
    options.longLogPages = 40
    options.sweepLimit = 3
    options.readTime = .seconds(120)
    options.indexSliceLimit = 2
    options.keepsPastStates = seed % 2 == 1
    let worlds = try [World(.inMemory, options: options), World(kind, options: options)]
    var shards: [any ShardStore] = []
    for world in worlds { shards.append(try await world.store.open(shard: 0)) }
    var step: Int64 = 0
    for round in 0..<30 {
      for _ in 0..<6 {
        let scripts = (0..<1 + Int.random(in: 0..<10, using: &generator)).map { _ in
          step += 1
          return Script(using: &generator, at: step)
        }
        // All are queued at once, so the engine commits them in groups.
        let pending = shards.map { shard in
          scripts.map { script in shard.enqueue(expecting: { script.lookups }) { try script.run(in: $0) } }
        }
        for (index, script) in scripts.enumerated() {
          let outcomes = try await [Self.outcome(pending[0][index]), Self.outcome(pending[1][index])]
          try #require(outcomes[0] == outcomes[1], "seed \(seed), round \(round), \(script.steps)")
        }
      }
      for shard in shards { try await shard.settleIndexes() }
      let limit = 1 + Int.random(in: 0..<20, using: &generator)
      let states = try await [
        shards[0].read { try Script.dump($0, limit: limit) }, shards[1].read { try Script.dump($0, limit: limit) },
        shards[1].write { try Script.dump($0, limit: limit) },
      ]
      for line in 0..<max(states[0].count, states[1].count) {
        try #require(
          states[0].indices.contains(line) && states[1].indices.contains(line) && states[0][line] == states[1][line],
          "seed \(seed), round \(round)")
      }
      try #require(states[1] == states[2], "a transaction sees what a snapshot sees; seed \(seed), round \(round)")
      if round % 10 == 9 {
        let store = try #require(shards[1] as? SQLiteShardStore)
        #expect(try await store.verify().problems == [])
        for (index, world) in worlds.enumerated() {
          await shards[index].close()
          shards[index] = try await world.store.open(shard: 0)
        }
      }
    }
    for shard in shards { await shard.close() }
  }

  private static func outcome(_ commit: PendingCommit<[String]>) async throws -> [String] {
    do {
      return try await commit.value
    } catch let refusal as ContradictingWrite {
      return ["refused: \(refusal.reason)"]
    } catch is Script.Stop {
      return ["stopped"]
    }
  }
}
