// Which cluster keeps which shard, and which worker may have it, as tables.

import MessagePack
import Testing

@testable import ServiceBus

private func worker(_ name: String, _ clusters: [String]?) -> Peer {
  Peer(
    name: name, role: .worker, incarnation: 1, endpoint: "memory://" + name, isReady: true, shardFormat: 1,
    clusters: clusters)
}

@Suite struct ShardClustersTests {
  @Test func `new shards spread evenly, and those of before are in the main cluster`() {
    var clusters = ShardClusters(shardCount: 64)
    clusters.settle(among: [], wasOpened: Array(repeating: false, count: 64))
    #expect(clusters == ShardClusters(shardCount: 64))
    clusters.settle(among: ["a", "b", "c"], wasOpened: Array(repeating: false, count: 64))
    let counts = Dictionary(grouping: clusters.shards.compactMap(\.self), by: \.name).mapValues(\.count)
    #expect(counts == ["a": 22, "b": 21, "c": 21])
    var older = ShardClusters(shardCount: 3)
    older.settle(among: ["main", "west"], wasOpened: [true, true, false])
    #expect(older.shards.map(\.?.name) == ["main", "main", "west"])
    var alone = ShardClusters(shardCount: 2)
    alone.settle(among: ["main"], wasOpened: [true, false])
    #expect(alone.published == nil)
  }

  @Test func `a request to move stands until the shard is there, and its own cluster takes it back`() {
    var clusters = ShardClusters(shardCount: 2)
    clusters.move(1, to: "west")
    #expect(clusters.published == [ShardCluster(), ShardCluster(target: "west")])
    clusters.note(1, in: "main")
    #expect(clusters.published?[1] == ShardCluster(target: "west"))
    clusters.note(1, in: "west")
    #expect(clusters.published?[1] == ShardCluster(name: "west"))
    clusters.move(1, to: "east")
    clusters.move(1, to: "west")
    #expect(clusters.published?[1] == ShardCluster(name: "west"))
    clusters.forget(1)
    #expect(clusters.published == nil)
  }

  @Test func `planned moves begin as far as their clusters have room, and follow when others end`() {
    var clusters = ShardClusters(shardCount: 8)
    clusters.move(7, to: "west")
    func moving() -> [Int] { clusters.shards.indices.filter { clusters.shards[$0]?.target != nil } }
    clusters.plan((0..<4).map { PlannedMove(shard: $0, from: "main", to: $0 < 2 ? "west" : "east") }, limit: 2)
    #expect(moving() == [0, 7] && clusters.planned?.map(\.shard) == [1, 2, 3])
    // Opened where it was: nothing ends.
    clusters.note(7, in: "main")
    #expect(moving() == [0, 7])
    clusters.note(7, in: "west")
    #expect(moving() == [0, 1] && clusters.planned?.map(\.shard) == [2, 3])
    // Another plan leaves what moves, and a move of a shard that is elsewhere or moves is none.
    clusters.plan(
      [(0, "main", "east"), (7, "main", "east"), (5, "main", "east")].map { PlannedMove(shard: $0, from: $1, to: $2) },
      limit: 3)
    #expect(moving() == [0, 1, 5] && clusters.planned == nil)
    #expect(clusters.shards[0] == ShardCluster(target: "west") && clusters.shards[7] == ShardCluster(name: "west"))
    // Taken back, before and after the beginning.
    clusters.plan([PlannedMove(shard: 6, from: "main", to: "east")], limit: 1)
    #expect(clusters.planned?.map(\.shard) == [6])
    clusters.move(6, to: "main")
    #expect(clusters.planned == nil)
    clusters.plan([PlannedMove(shard: 6, from: "main", to: "east")], limit: 1)
    for shard in [0, 1, 5] { clusters.move(shard, to: "main") }
    #expect(moving() == [6] && clusters.planned == nil)
  }

  @Test func `clusters of an earlier release have no planned moves`() throws {
    struct Earlier: Codable { var shards: [ShardCluster?] }
    let bytes = try MessagePackEncoder().encode(Earlier(shards: [nil, ShardCluster(name: "west", target: "east")]))
    let read = try MessagePackDecoder().decode(ShardClusters.self, from: bytes)
    #expect(read.planned == nil && read.shards[1] == ShardCluster(name: "west", target: "east"))
    var later = ShardClusters(shardCount: 2)
    later.plan((0..<2).map { PlannedMove(shard: $0, from: "main", to: "west") }, limit: 1)
    let earlier = try MessagePackDecoder().decode(Earlier.self, from: try MessagePackEncoder().encode(later))
    #expect(earlier.shards == [ShardCluster(target: "west"), nil])
  }

  @Test func `a worker gets no shard of a cluster that it does not reach`() throws {
    var assignment = ShardAssignment(shardCount: 3, persisted: nil)
    let clusters = [ShardCluster(), ShardCluster(name: "west"), ShardCluster(name: "north")]
    let next = assignment.next(
      peers: [worker("old", nil), worker("new", ["west"])], graceIsOver: true, clusters: clusters)
    let map = try #require(next)
    #expect(map.holders == ["old", "new", nil])
    #expect(map.unreached.map(\.cluster) == ["north"] && map.unreached.map(\.shards) == [[2]])
    #expect(map.namedClusters == ["main", "west", "north"])
    assignment.commit(map)
    let same = assignment.next(peers: map.members, graceIsOver: true, clusters: clusters)
    #expect(same == nil)
    let back = assignment.next(peers: map.members, graceIsOver: true)
    #expect(back?.holders == ["old", "old", "old"])
  }

  @Test func `a shard that moves is held by a worker that reaches both clusters, if there is one`() {
    let clusters = (0..<32).map { _ in ShardCluster(target: "west") }
    var assignment = ShardAssignment(shardCount: 32, persisted: nil)
    let some = [worker("one", ["main"]), worker("both", ["main", "west"])]
    let all = assignment.next(peers: some, graceIsOver: true, clusters: clusters)
    #expect(all?.holders == Array(repeating: "both", count: 32))
    let fewer = assignment.next(peers: [some[0]], graceIsOver: true, clusters: clusters)
    #expect(fewer?.holders == Array(repeating: "one", count: 32))
  }
}
