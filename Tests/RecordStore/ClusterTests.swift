import InMemoryRecordStore
import Records
import Testing

@testable import RecordStore

/// Shards in several clusters: one place each, and moves that lose nothing, whoever dies.
struct ClusterTests {
  @Test func `one address is the main cluster, and addresses with names are several`() {
    let (one, other) = ("postgresql://a@db1,db2/aquifer?sslmode=require", "postgres://b/aquifer")
    #expect(ClusterAddress.list(one) == [ClusterAddress(name: "main", address: one)])
    #expect(ClusterAddress.list("host=db1 dbname=x") == [ClusterAddress(name: "main", address: "host=db1 dbname=x")])
    let (main, west) = (ClusterAddress(name: "main", address: one), ClusterAddress(name: "west-2", address: other))
    #expect(ClusterAddress.list("west-2=\(other)\n\(one)\n") == [main, west])
    #expect(ClusterAddress.list("main=\(one) west-2=\(other)") == [main, west])
    for wrong in ["db1.example.org", "a=\(one) a=\(other)", "\(one) \(other)", "A b=\(one)", "a=\(one) c"] {
      #expect(ClusterAddress.list(wrong) == nil, "\(wrong)")
    }
  }

  @Test func `a new shard is made where the directory says, and found wherever it is`() async throws {
    let clusters = try Clusters()
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2)
    store.follow(Clusters.told("west"))
    let shard = try await store.open(shard: 0)
    _ = try await Place(in: shard)
    await shard.close()
    #expect(try clusters.places() == ["west"])
    #expect(store.placement(ofShard: 0)?.cluster == "west")
    // The directory knows nothing of it, or the wrong place.
    for (told, epoch) in [("east", 0), ("main", 1)] as [(String, Int64)] {
      let other = try ClusteredRecordStore(clusters.all, shardCount: 2)
      other.follow(Clusters.told(told))
      let found = try await other.open(shard: 0, knownEpoch: epoch)
      #expect(try await found.read { try $0.counts().zones } == 1)
      #expect(other.placement(ofShard: 0)?.cluster == "west")
      await found.close()
    }
    var fewer = clusters.all
    fewer["west"] = nil
    let blind = try ClusteredRecordStore(fewer, shardCount: 2)
    blind.follow(Clusters.told("west"))
    await #expect(throws: StoreError.foreign("shard 0 is in the cluster west, which --records does not name")) {
      try await blind.open(shard: 0, knownEpoch: 3)
    }
  }

  @Test func `a store whose shard moves while it is written stays the same as one that stays`() async throws {
    var generator = SeededGenerator(seed: 1)
    let clusters = try Clusters()
    let (incarnations, oracleIncarnations) = (Counter(1000), Counter(1000))
    let oracle = try await InMemoryRecordStore(
      shardCount: 2, makeIncarnation: { oracleIncarnations.next() }, now: { 1000 }, keepsPastStates: true
    ).open(shard: 0)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2, makeIncarnation: { incarnations.next() }, now: { 1000 }, willTake: { _, _ in })
    store.follow(Clusters.told())
    var shard = try await store.open(shard: 0)
    var step: Int64 = 0
    for (place, target) in [("main", "west"), ("west", "main")] {
      var count = 0
      while count < 30 || store.placement(ofShard: 0)?.cluster != target {
        if count == 10 { store.follow(Clusters.told(place, target: target)) }
        count += 1
        step += 1
        let script = Script(using: &generator, at: step)
        let expected = "\(await Result { try await oracle.write { try script.run(in: $0) } })"
        var outcome = await Result { try await shard.write { try script.run(in: $0) } }
        while case .failure(StoreError.fenced) = outcome {
          await shard.close()
          shard = try await store.open(shard: 0, knownEpoch: shard.epoch)
          outcome = await Result { try await shard.write { try script.run(in: $0) } }
        }
        try #require("\(outcome)" == expected, "step \(step), \(script.steps)")
      }
      store.follow(Clusters.told(target))
    }
    for shard in [oracle, shard] { try await shard.settleIndexes() }
    #expect(try await shard.read { try Script.dump($0, limit: 7) } == oracle.read { try Script.dump($0, limit: 7) })
    #expect(try await shard.verify(readsAssets: false).problems == [])
    await shard.close()
    await oracle.close()
  }

  @Test(arguments: zip(1...5, [false, true, false, true, false]))
  func `the owner of a shard that moves dies, or only seems to, and its successor moves the shard`(
    at step: Int, goesOn: Bool
  ) async throws {
    let clusters = try Clusters()
    let successor = try ClusteredRecordStore(
      clusters.all, shardCount: 2, pause: .milliseconds(20), willTake: { _, _ in })
    successor.follow(Clusters.told())
    let (taken, took) = AsyncStream.makeStream(of: (any ShardStore).self)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2,
      willTake: { _, number in
        guard number == step else { return }
        took.yield(try await successor.open(shard: 0, knownEpoch: 1))
        if !goesOn { throw StoreError.closed(shard: 0) }
      })
    store.follow(Clusters.told())
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    _ = try await shard.write { try $0.save(Sample.note("first"), in: place) }
    store.follow(Clusters.told(target: "west"))
    var heir = try #require(await taken.first { _ in true })
    _ = try await heir.write { try $0.save(Sample.note("second"), in: place) }
    #expect(successor.placement(ofShard: 0)?.cluster == (step == 5 ? "west" : "main"))
    await #expect(throws: StoreError.self) {
      _ = try await shard.write { try $0.save(Sample.note("lost"), in: place) }
    }

    successor.follow(Clusters.told(target: "west"))
    heir = try await successor.openWhenMoved(to: "west", heir)
    _ = try await heir.write { try $0.save(Sample.note("third"), in: place) }
    let names = try await heir.read {
      try $0.records(in: place.zone, afterName: nil, limit: 99).map(\.record.recordName)
    }
    #expect(names == ["first", "second", "third"])
    #expect(try await heir.verify(readsAssets: false).problems == [])
    while try clusters.places() != ["west"] { try await Task.sleep(for: .milliseconds(20)) }
    await shard.close()
    await heir.close()
  }

  @Test(arguments: ["standby", "connect"])
  func `a cluster that can't take a shard is told, the shard serves on, and the move can be taken back`(
    problem: String
  ) async throws {
    var clusters = try Clusters()
    if problem == "standby" {
      clusters.all["west"]?.allowsAsynchronous = false
    } else {
      clusters.all["west"]?.address = "host=/nowhere dbname=none"
    }
    let (news, told) = AsyncStream.makeStream(of: String.self)
    // A new shard needs all clusters.
    var reachable = clusters.all
    reachable["west"] = nil
    await (try await ClusteredRecordStore(reachable, shardCount: 2).open(shard: 0)).close()
    let store = try ClusteredRecordStore(clusters.all, shardCount: 2, report: { told.yield($0) })
    store.follow(Clusters.told(target: "west"))
    let shard = try await store.open(shard: 0, knownEpoch: 1)
    let line = try #require(await news.first { $0.contains("could not move") })
    #expect(line.contains(problem))
    _ = try await Place(in: shard)
    while store.placement(ofShard: 0)?.problem?.contains(problem) != true {
      try await Task.sleep(for: .milliseconds(5))
    }
    store.follow(Clusters.told())
    #expect(store.placement(ofShard: 0) == ShardPlacement(cluster: "main"))
    _ = try await shard.write { try $0.makeDatabase(Sample.database("bob")) }
    await shard.close()
    #expect(try await store.open(shard: 0, knownEpoch: 2).read { try $0.counts().databases } == 2)
  }
}
