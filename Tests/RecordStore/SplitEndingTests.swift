import Records
import Testing

@testable import RecordStore

/// Divisions whose last step is missing: no half is lost, whatever is asked for meanwhile, and by whom the shards are
/// opened.
struct SplitEndingTests {
  /// What the directory tells of shards in the main cluster.
  /// - Parameters:
  ///   - splits: the clusters of the new shards by the shards that are to be divided.
  ///   - newShard: the number of the new one.
  private static func told(_ splits: [Int: String] = [:], into newShard: Int = 2, part: ShardPart? = nil) throws
    -> [ShardPlacement]
  {
    try (0..<2).map { shard in
      let part = try #require(part ?? ShardPart(modulus: 2, remainder: Int64(shard)))
      return ShardPlacement(
        cluster: "main", split: splits[shard].map { RequestedSplit(shard: newShard, cluster: $0, part: part) })
    }
  }

  /// Shard 0, which was divided into shard 2 by a store that died before the last step.
  private struct Half {
    let clusters: Clusters
    let epoch: Int64
    /// Of the databases `0`, which stays, and `2`, which leaves.
    let places: (Place, Place)

    /// - Parameter willTake: called before each step of the division.
    init(
      target: String = "west", willTake: @escaping @Sendable (Clusters, _ step: Int) throws -> Void = { _, _ in }
    ) async throws {
      let clusters = try Clusters()
      self.clusters = clusters
      let store = try ClusteredRecordStore(
        clusters.all, shardCount: 2,
        willTake: { shard, step in
          try willTake(clusters, step)
          if step == 5 { throw StoreError.closed(shard: shard) }
        })
      store.follow(try told())
      let shard = try await store.open(shard: 0)
      places = try await (Place(in: shard, owner: "0"), Place(in: shard, owner: "2"))
      for place in [places.0, places.1] { _ = try await shard.write { try $0.save(Sample.note("a"), in: place) } }
      store.follow(try told([0: target]))
      await store.whenTidy()
      await #expect(throws: StoreError.fenced(shard: 0, epoch: shard.epoch + 1)) { try await shard.write { _ in } }
      await shard.close()
      epoch = shard.epoch
    }

    func store(_ names: [String]? = nil) throws -> ClusteredRecordStore {
      try ClusteredRecordStore(
        clusters.all.filter { names?.contains($0.key) != false }, shardCount: 2, pause: .milliseconds(20),
        willTake: { _, _ in })
    }

    /// Expects that the new shard has the half that left.
    func expectWhole(_ new: any ShardStore) async throws {
      let zone = places.1.zone
      #expect(new.part == ShardPart(modulus: 4, remainder: 2))
      #expect(
        try await new.read { try $0.records(in: zone, afterName: nil, limit: 9).map(\.record.recordName) } == ["a"])
    }
  }

  /// Writes to a shard until its store tells of a problem.
  private static func problem(of shard: any ShardStore, in store: ClusteredRecordStore) async throws -> String {
    while true {
      if let problem = store.placement(ofShard: shard.shard)?.problem { return problem }
      try await shard.write { _ in }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  /// Writes to shard 0 until its last division is over, and opens it anew when it is lost meanwhile.
  private static func awaitEnd(_ shard: any ShardStore, part: ShardPart?, in store: ClusteredRecordStore) async throws
    -> any ShardStore
  {
    try await store.write(to: shard) { $0.part == part && $0.pendingSplit == nil }
  }

  @Test func `a division that nobody has ended is not replaced by another shard's with the same number`() async throws {
    let half = try await Half()
    let store = try half.store()
    store.follow(try Self.told())
    // Not refused because of its epoch.
    for _ in 0..<4 { await (try await store.open(shard: 1)).close() }
    let other = try await store.open(shard: 1, knownEpoch: 1)
    store.follow(try Self.told([1: "west"]))
    let problem = try await Self.problem(of: other, in: store)
    #expect(problem.contains("was split off shard 1") && problem.contains("was split off shard 0"))
    store.follow(try Self.told())
    await store.whenTidy()
    #expect(other.part == nil)

    let old = try await store.open(shard: 0, knownEpoch: half.epoch)
    await store.whenTidy()
    #expect(old.pendingSplit == nil)
    let new = try await store.open(shard: 2, knownEpoch: 1)
    try await half.expectWhole(new)
    for shard in [old, other, new] { await shard.close() }
  }

  @Test func `another shard's division with the same number is not taken for the own one`() async throws {
    let half = try await Half()
    let store = try half.store()
    store.follow(try Self.told())
    let whole = try await store.open(shard: 1)
    store.follow(try Self.told([1: "east"]))
    let other = try await store.write(to: whole) { $0.part != nil }
    await store.whenTidy()
    store.follow(try Self.told())
    let old = try await store.open(shard: 0, knownEpoch: half.epoch)
    await store.whenTidy()
    #expect(old.pendingSplit == nil)
    for (cluster, source) in [("west", 0), ("east", 1)] {
      let found = try half.clusters.all[cluster]?.look(atShard: 2)
      #expect(found?.source == source && found?.origin != nil && found?.move == nil)
    }
    await old.close()
    await other.close()
  }

  @Test func `a shard is divided again only after the last step, and tells that it waits`() async throws {
    let half = try await Half()
    let part = try #require(ShardPart(modulus: 4, remainder: 0))
    let again = try Self.told([0: "main"], into: 3, part: part)
    let blind = try half.store(["main"])
    blind.follow(again)
    let shard = try await blind.open(shard: 0, knownEpoch: half.epoch)
    #expect(shard.pendingSplit?.shard == 2 && shard.pendingSplit?.cluster == "west")
    #expect(try await Self.problem(of: shard, in: blind).contains("waits for its last step"))
    for _ in 0..<20 { try await shard.write { _ in } }
    await blind.whenTidy()
    #expect(shard.part == part && shard.pendingSplit?.shard == 2)
    #expect(try half.clusters.all["main"]?.look(atShard: 3) == nil)
    await shard.close()

    let store = try half.store()
    store.follow(again)
    let seeing = try await store.open(shard: 0, knownEpoch: shard.epoch)
    let quarter = try await Self.awaitEnd(seeing, part: part.halves?.staying, in: store)
    let new = try await store.open(shard: 2, knownEpoch: 1)
    try await half.expectWhole(new)
    #expect(try half.clusters.all["main"]?.look(atShard: 3)?.move == nil)
    #expect(store.placement(ofShard: 0)?.problem == nil)
    await quarter.close()
    await new.close()
  }

  @Test func `a worker that reaches only the new shard's cluster opens that shard by the number of the division`()
    async throws
  {
    let half = try await Half()
    let (blind, west) = (try half.store(["main"]), try half.store(["west"]))
    let old = try await blind.open(shard: 0, knownEpoch: half.epoch)
    let pending = try #require(old.pendingSplit)
    for arrival in [nil, pending.number &+ 1] {
      west.follow(try Self.told() + [ShardPlacement(cluster: "west", arrival: arrival)])
      await #expect {
        try await west.open(shard: 2)
      } throws: {
        if case StoreError.foreign = $0 { true } else { false }
      }
    }
    west.follow(try Self.told() + [ShardPlacement(cluster: "west", arrival: pending.number)])
    let new = try await west.open(shard: 2)
    try await half.expectWhole(new)
    _ = try await new.write { try $0.save(Sample.note("b"), in: half.places.1) }
    #expect(old.pendingSplit == pending)
    await old.close()

    // The owner that reaches both finds it open.
    let store = try half.store()
    let seeing = try await store.open(shard: 0, knownEpoch: old.epoch)
    await store.whenTidy()
    #expect(seeing.pendingSplit == nil)
    _ = try await new.write { try $0.save(Sample.note("c"), in: half.places.1) }
    await seeing.close()
    await new.close()
  }

  @Test func `a division is ended even if the new shard has moved since`() async throws {
    let half = try await Half()
    let west = try half.store(["west", "east"])
    let blind = try half.store(["main"])
    let old = try await blind.open(shard: 0, knownEpoch: half.epoch)
    let number = try #require(old.pendingSplit).number
    let told = try Self.told()
    west.follow(told + [ShardPlacement(cluster: "west", target: "east", arrival: number)])
    var new = try await west.open(shard: 2)
    while west.placement(ofShard: 2)?.cluster != "east" {
      do {
        try await new.write { _ in }
        try await Task.sleep(for: .milliseconds(5))
      } catch StoreError.fenced {
        await new.close()
        new = try await west.open(shard: 2, knownEpoch: new.epoch)
      }
    }
    await west.whenTidy()
    await old.close()
    let store = try half.store()
    let seeing = try await store.open(shard: 0, knownEpoch: old.epoch)
    await store.whenTidy()
    #expect(seeing.pendingSplit == nil)
    try await half.expectWhole(new)
    await seeing.close()
    await new.close()
  }

  @Test(arguments: ["main", "west"])
  func `a division that was never carried out leaves nothing, and another shard gets the number`(target: String)
    async throws
  {
    let clusters = try Clusters()
    let successor = try ClusteredRecordStore(
      clusters.all, shardCount: 2, pause: .milliseconds(20), willTake: { _, _ in })
    successor.follow(try Self.told())
    let (taken, took) = AsyncStream.makeStream(of: (any ShardStore).self)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2,
      willTake: { shard, step in
        guard step == 3 else { return }
        #expect(try clusters.all[target]?.look(atShard: 2)?.source == 0)
        took.yield(try await successor.open(shard: 0, knownEpoch: 1))
        throw StoreError.closed(shard: shard)
      })
    store.follow(try Self.told())
    let shard = try await store.open(shard: 0)
    store.follow(try Self.told([0: target]))
    let heir = try #require(await taken.first { _ in true })
    await store.whenTidy()
    await successor.whenTidy()
    #expect(heir.part == nil && heir.pendingSplit == nil)
    #expect(try clusters.all[target]?.look(atShard: 2) == nil)

    let whole = try await successor.open(shard: 1)
    successor.follow(try Self.told([1: target]))
    let other = try await successor.write(to: whole) { $0.part != nil && $0.pendingSplit == nil }
    #expect(try clusters.all[target]?.look(atShard: 2)?.source == 1)
    for shard in [shard, heir, other] { await shard.close() }
  }

  @Test func `a copy whose shard the map knows stays, although its source is found as before its division`()
    async throws
  {
    let clusters = try Clusters()
    let successor = try ClusteredRecordStore(clusters.all, shardCount: 2)
    let (taken, took) = AsyncStream.makeStream(of: (any ShardStore).self)
    let (rest, end) = AsyncStream.makeStream(of: Never.self)
    // The copy of an owner that hangs stands for one whose division was carried out before the source was brought back.
    let hanging = try ClusteredRecordStore(
      clusters.all, shardCount: 2,
      willTake: { shard, step in
        guard step == 3 else { return }
        successor.follow(try Self.told() + [ShardPlacement(cluster: "west", arrival: 1)])
        took.yield(try await successor.open(shard: 0, knownEpoch: 1))
        for await _ in rest {}
        throw StoreError.closed(shard: shard)
      })
    hanging.follow(try Self.told())
    let shard = try await hanging.open(shard: 0)
    hanging.follow(try Self.told([0: "west"]))
    let heir = try #require(await taken.first { _ in true })
    await successor.whenTidy()
    #expect(heir.part == nil)
    #expect(try clusters.all["west"]?.look(atShard: 2)?.source == 0)
    end.finish()
    await hanging.whenTidy()
    for shard in [shard, heir] { await shard.close() }
  }

  @Test func `a new shard that its cluster has as it was before its last round is not opened until the cluster has it`()
    async throws
  {
    // Its own tools bring the cluster back to a moment of the division.
    let half = try await Half { clusters, step in
      let schema = try #require(clusters.all["west"]).schema(ofShard: 2)
      if step == 4 { try clusters.run(["CREATE TABLE \(schema).kept AS TABLE \(schema).meta"], in: "west") }
      if step == 5 {
        try clusters.run(["DELETE FROM \(schema).meta", "INSERT INTO \(schema).meta TABLE \(schema).kept"], in: "west")
      }
    }
    let (store, west) = (try half.store(), try half.store(["west"]))
    store.follow(try Self.told())
    let old = try await store.open(shard: 0, knownEpoch: half.epoch)
    let pending = try #require(old.pendingSplit)
    #expect(try await Self.problem(of: old, in: store).contains("before the end of its division"))
    #expect(old.pendingSplit == pending)
    west.follow(try Self.told() + [ShardPlacement(cluster: "west", arrival: pending.number)])
    await #expect {
      try await west.open(shard: 2)
    } throws: {
      "\($0)".contains("before the end of its division")
    }
    #expect(try half.clusters.all["west"]?.look(atShard: 2)?.move == pending.number)

    let schema = try #require(half.clusters.all["west"]).schema(ofShard: 2)
    // The last round, or a copy that an earlier release has made.
    try half.clusters.run(["DELETE FROM \(schema).meta WHERE key = 'lacksRest'"], in: "west")
    let ended = try await store.write(to: old) { $0.pendingSplit == nil }
    let new = try await west.open(shard: 2)
    try await half.expectWhole(new)
    await ended.close()
    await new.close()
  }

  @Test func `a copy that is made after its shard was taken over goes with its division`() async throws {
    let clusters = try Clusters()
    let main = try #require(clusters.all["main"])
    let (taken, took) = AsyncStream.makeStream(of: (any ShardStore).self)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2,
      willTake: { _, step in
        // The next owner looks for copies before this one is made, and so never again.
        if step == 2 { took.yield(try await PostgreSQLRecordStore(main, shardCount: 2).open(shard: 0, knownEpoch: 1)) }
        if step == 3 { #expect(try clusters.all["west"]?.look(atShard: 2)?.source == 0) }
      })
    store.follow(try Self.told())
    let shard = try await store.open(shard: 0)
    store.follow(try Self.told([0: "west"]))
    let heir = try #require(await taken.first { _ in true })
    await store.whenTidy()
    #expect(heir.part == nil)
    #expect(try clusters.all["west"]?.look(atShard: 2) == nil)
    await shard.close()
    await heir.close()
  }
}
