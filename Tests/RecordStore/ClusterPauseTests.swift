import Assets
import CuttingProxy
import Records
import Testing

@testable import RecordStore

/// The last round of a move, which keeps the shard's users waiting, and servers that go away during any step.
struct ClusterPauseTests {
  /// Saves under new names until it is told to end, and notes those that were acknowledged.
  private static func save(
    in place: Place, of store: ClusteredRecordStore, _ shard: any ShardStore, until isOver: () -> Bool
  ) async throws -> (shard: any ShardStore, names: [String]) {
    var (shard, names, number) = (shard, [String](), 0)
    while !isOver() {
      let name = "note \(number)"
      do {
        _ = try await shard.write { transaction in
          guard try transaction.record(named: name, in: place.zone) == nil else { return }
          try transaction.save(Sample.note(name), in: place)
        }
        names.append(name)
        number += 1
      } catch StoreError.fenced {
        await shard.close()
        shard = try await store.open(shard: 0, knownEpoch: shard.epoch)
      } catch StoreError.unreachable {
        // The name is tried again: an outcome can be unknown.
        try await Task.sleep(for: .milliseconds(5))
      }
    }
    return (shard, names)
  }

  private static func names(in place: Place, of shard: any ShardStore) async throws -> [String] {
    try await shard.read { try $0.records(in: place.zone, afterName: nil, limit: 9999).map(\.record.recordName) }
  }

  private static func leavesNothing(_ clusters: Clusters) async throws {
    while try clusters.places() != ["west"] || clusters.logs() != [] { try await Task.sleep(for: .milliseconds(20)) }
  }

  @Test func `a shard with too many rows left stays in service where it is, and moves later`() async throws {
    let clusters = try Clusters()
    let move = try await DisturbedMove(clusters) { shard in
      let place = try await Place(in: shard)
      _ = try await shard.write { for number in 0..<3200 { try $0.save(Sample.note("late \(number)"), in: place) } }
    }
    let refusal = await move.refusal()
    try #require(refusal.contains("could not move") && refusal.contains("rows have changed"))
    let moved = try await move.arrive()
    #expect(try await moved.read { try $0.counts().records } == 3200)
    try await Self.leavesNothing(clusters)
    await moved.close()
  }

  /// Takes the three seconds that the writer waits for a silent server.
  @Test func `a target that falls silent in the last step holds writes up for seconds, and gets the shard later`()
    async throws
  {
    var clusters = try Clusters()
    let proxy = try clusters.proxy(to: "west")
    defer { proxy.close() }
    let move = try await DisturbedMove(clusters) { shard in
      let place = try await Place(in: shard)
      _ = try await shard.write { try $0.save(Sample.note("late"), in: place) }
      // A session that connects now needs fewer bytes.
      proxy.setWithinConnections(.init(answerByteCount: 4000, isSilent: true))
    }
    try #require(await move.refusal().contains("the time for all answers"))
    // The server is still silent.
    try await move.shard.write { _ in }
    #expect(try clusters.all["main"]?.look(atShard: 0)?.move == nil)
    proxy.set(.init())
    let moved = try await move.arrive()
    #expect(try await moved.read { try $0.counts().records } == 1)
    await moved.close()
  }

  struct Loss: Sendable, CustomStringConvertible {
    let cluster: String
    let step: Int
    /// The bytes of requests that pass before; 0: all sessions end before the step.
    var byteCount = 0
    var description: String { "\(cluster), step \(step), \(byteCount) bytes" }
  }

  private static let losses =
    ["main", "west"].flatMap { cluster in (1...5).map { Loss(cluster: cluster, step: $0) } }
    + [300, 1500, 3000, 6000].flatMap { count in
      [Loss(cluster: "main", step: 4, byteCount: count), Loss(cluster: "west", step: 4, byteCount: count)]
    }

  @Test(arguments: losses)
  func `a server that ends its sessions during a step costs no save, and the shard moves`(at loss: Loss) async throws {
    var clusters = try Clusters()
    let proxy = try clusters.proxy(to: loss.cluster)
    defer { proxy.close() }
    let tries = Counter(0)
    let store = try ClusteredRecordStore(
      clusters.all, shardCount: 2, pause: .milliseconds(20),
      willTake: { _, step in
        guard step == loss.step, tries.next() == 1 else { return }
        if loss.byteCount == 0 {
          proxy.set(.init())
        } else {
          proxy.setWithinConnections(.init(requestByteCount: loss.byteCount, isOnce: true))
        }
      })
    store.follow(Clusters.told())
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    store.follow(Clusters.told(target: "west"))
    let saved = try await Self.save(in: place, of: store, shard) {
      store.placement(ofShard: 0)?.cluster == "west"
    }
    #expect(try await Self.names(in: place, of: saved.shard) == saved.names.sorted())
    #expect(try await saved.shard.verify(readsAssets: false).problems == [])
    // Without another opening the log and the copy may stay for a minute.
    await saved.shard.close()
    let again = try await store.open(shard: 0, knownEpoch: saved.shard.epoch)
    await store.whenTidy()
    try await Self.leavesNothing(clusters)
    await again.close()
  }

  @Test func `two installations that share databases move shards past each other`() async throws {
    let one = try Clusters(installation: InstallationID(text: "00000000000000aa"))
    var all = one.all
    for name in all.keys { all[name]?.installation = InstallationID(text: "00000000000000bb") }
    let first = try ClusteredRecordStore(one.all, shardCount: 2, pause: .milliseconds(20), willTake: { _, _ in })
    let second = try ClusteredRecordStore(all, shardCount: 2, pause: .milliseconds(20), willTake: { _, _ in })
    first.follow(Clusters.told("main"))
    second.follow(Clusters.told("east"))
    var (left, right) = (try await first.open(shard: 0), try await second.open(shard: 0))
    let places = (try await Place(in: left), try await Place(in: right, owner: "bob"))
    _ = try await left.write { try $0.save(Sample.note("left"), in: places.0) }
    _ = try await right.write { try $0.save(Sample.note("right"), in: places.1) }

    // Each wants the place of the other.
    first.follow(Clusters.told("main", target: "east"))
    second.follow(Clusters.told("east", target: "main"))
    for store in [first, second] {
      while store.placement(ofShard: 0)?.problem == nil {
        try await Task.sleep(for: .milliseconds(5))
      }
    }
    first.follow(Clusters.told("main", target: "west"))
    left = try await first.openWhenMoved(to: "west", left)
    await first.whenTidy()
    right = try await second.openWhenMoved(to: "main", right)
    await second.whenTidy()
    #expect(try await Self.names(in: places.0, of: left) == ["left"])
    #expect(try await Self.names(in: places.1, of: right) == ["right"])
    #expect(try one.places() == ["west"])
    while try one.logs() != [] { try await Task.sleep(for: .milliseconds(20)) }
    await left.close()
    await right.close()
  }

  @Test func `a store that lacks a cluster of the installation makes no shard`() async throws {
    let clusters = try Clusters()
    let whole = try ClusteredRecordStore(clusters.all, shardCount: 2)
    whole.follow(Clusters.told("west"), named: ["main", "east", "west"])
    let shard = try await whole.open(shard: 0)
    await shard.close()
    // The directory was restored from before the shard.
    let partial = try ClusteredRecordStore(clusters.all.filter { $0.key == "main" }, shardCount: 2)
    partial.follow(Clusters.told("main"), named: ["main", "west"])
    await #expect(
      throws: StoreError.foreign(
        "shard 0 is new to the directory, and could be in the cluster west, which --records does not name")
    ) { try await partial.open(shard: 0) }
    #expect(try clusters.places() == ["west"])
  }
}
