// Maps of installations with divided shards: who gets the new shard, who gets no map, and what a map can't say.

import MessagePack
import Records
import Testing

@testable import ServiceBus

struct DividedShardTests {
  private func worker(_ name: String, knowsSplits: Bool? = true, format: Int = 9) -> Peer {
    Peer(
      name: name, role: .worker, incarnation: 1, endpoint: "memory://" + name, isReady: true, shardFormat: format,
      knowsSplits: knowsSplits)
  }

  @Test func `a split gives a new shard a holder, and leaves the others with theirs`() throws {
    var assignment = ShardAssignment(shardCount: 32, persisted: nil)
    let workers = [worker("one"), worker("two"), worker("three")]
    let made = assignment.next(peers: workers, graceIsOver: true)
    let first = try #require(made)
    #expect(first.splits == nil && first.layout?.count == 32)
    assignment.commit(first)
    let divided = assignment.next(peers: workers, graceIsOver: true, splits: [3, 32])
    let next = try #require(divided)
    #expect(next.splits == [3, 32] && next.shardCount == 34 && next.layout?.createdCount == 32)
    #expect(Array(next.holders.prefix(32)) == first.holders && next.holders[32] != nil && next.holders[33] != nil)
    #expect(next.formats == Array(repeating: 9, count: 34))
    assignment.commit(next)
    let again = assignment.next(peers: workers, graceIsOver: true, splits: [3, 32])
    #expect(again == nil)

    // A share service that starts with a map of before.
    for persisted in [first, next] {
      let restarted = ShardAssignment(shardCount: 32, splits: [3, 32], persisted: persisted)
      #expect(restarted.map.shardCount == 34 && restarted.map.splits == [3, 32])
      #expect(Array(restarted.map.holders.prefix(32)) == first.holders)
      var assignment = restarted
      let map = assignment.next(peers: workers, graceIsOver: true)
      #expect(map?.holders ?? restarted.map.holders == next.holders)
    }
    let other = ShardAssignment(shardCount: 33, splits: [3], persisted: next)
    #expect(other.map.holders == Array(repeating: nil, count: 34) && other.map.version == next.version)
  }

  @Test
  func `a worker of a release that knows no splits gets no shard once there is one, and a new shard needs its format`()
    throws
  {
    var assignment = ShardAssignment(shardCount: 2, persisted: nil)
    let (old, new) = (worker("old", knowsSplits: nil), worker("new"))
    let made = assignment.next(peers: [old, new], graceIsOver: true)
    assignment.commit(try #require(made))
    let divided = assignment.next(peers: [old, new], graceIsOver: true, splits: [0])
    let next = try #require(divided)
    #expect(next.holders == ["new", "new", "new"])
    assignment.commit(next)
    let behind = assignment.next(peers: [worker("behind", format: 8)], graceIsOver: true)
    #expect(behind?.holders == [nil, nil, nil])
  }

  @Test func `a map is read as it was written, and one of before splits has none`() throws {
    let map = ClusterMap(version: 1, members: [], holders: ["a", "b", "a"], splits: [1])
    let bytes = try MessagePackEncoder().encode(map)
    #expect(try MessagePackDecoder().decode(ClusterMap.self, from: bytes) == map)
    let earlier = ClusterMap(version: 1, members: [], holders: ["a", "b"])
    let read = try MessagePackDecoder().decode(ClusterMap.self, from: MessagePackEncoder().encode(earlier))
    #expect(read.splits == nil && read.layout == ShardLayout(createdCount: 2))
  }

  @Test func `a process ignores a map whose splits contradict each other, and finds databases by the last good one`()
    throws
  {
    let cluster = Cluster(name: "gateway", role: .gateway)
    let container = try #require(ContainerID(rawValue: "iCloud.org.example.photos"))
    let databases = (0..<40).map { DatabaseID(container: container, environment: .production, owner: "_\($0)") }
    #expect(cluster.layout == nil && cluster.holder(of: databases[0]) == nil)
    cluster.accept(ClusterMap(version: 1, members: [], holders: ["0", "1", "2"], splits: [1]))
    for wrong in [[5], [0, 0, 0], [-1], [0, 0, 0, 0, 0]] {
      cluster.accept(ClusterMap(version: 2, members: [], holders: ["x", "x", "x"], splits: wrong))
    }
    let layout = try #require(ShardLayout(createdCount: 2, splits: [1]))
    #expect(cluster.layout == layout && cluster.current?.version == 1)
    for database in databases { #expect(cluster.holder(of: database) == "\(layout.shard(of: database))") }
    #expect(Set(databases.compactMap(cluster.holder(of:))) == ["0", "1", "2"])
  }

  @Test func `clusters of shards remember a wish to divide one, and give the new shard its cluster`() {
    var clusters = ShardClusters(shardCount: 2)
    clusters.settle(among: ["main", "west"], wasOpened: [true, true])
    clusters.plan([PlannedMove(shard: 1, from: "main", to: "west")], limit: 1)
    clusters.split(0, to: "west")
    #expect(clusters.splitting == 0 && clusters.shards[0] == ShardCluster(split: "west"))
    clusters.note(0, in: "main")
    #expect(clusters.splitting == 0)
    let isTakenBack = clusters.takeSplitBack(0)
    #expect(isTakenBack && clusters.splitting == nil && clusters.shards[1] == ShardCluster(target: "west"))
    let isTakenBackTwice = clusters.takeSplitBack(0) || clusters.takeSplitBack(1)
    #expect(!isTakenBackTwice && clusters.shards[1]?.target == "west")
    #expect(clusters.published?.first?.takenBack == 1 && clusters.requestedCluster(ofShard: 0) == "west")
    clusters.noteUndivided(0, knowing: nil)
    clusters.noteUndivided(1, knowing: 1)
    #expect(clusters.takenBack?.number == 1)
    clusters.noteUndivided(0, knowing: 1)
    #expect(clusters.takenBack == nil && clusters.requestedCluster(ofShard: 0) == nil)
    clusters.split(0, to: "west")
    clusters.noteSplit(of: 0, in: nil, number: 8)
    #expect(clusters.shards == [ShardCluster(), ShardCluster(target: "west"), ShardCluster(name: "west")])
    #expect(clusters.published?.last == ShardCluster(name: "west", arrival: 8))
    // The request was taken back when it was carried out already, and the tables tell another cluster.
    clusters.split(2, to: "main")
    _ = clusters.takeSplitBack(2)
    clusters.noteSplit(of: 2, in: "north", number: nil)
    #expect(clusters.shards.last == ShardCluster(name: "north") && clusters.takenBack == nil)
    clusters.noteDivisionsEnded(of: 2)
    #expect(clusters.division(with: 0) != nil && clusters.division(with: 2) != nil)
    clusters.noteDivisionsEnded(of: 0)
    #expect(clusters.divisions == nil)
  }

  @Test func `a planned move of a shard that is being divided is dropped`() {
    var clusters = ShardClusters(shardCount: 3)
    clusters.settle(among: ["main"], wasOpened: [true, true, true])
    clusters.noteSplit(of: 0, in: "main", number: 8)
    clusters.plan([0, 3, 1].map { PlannedMove(shard: $0, from: "main", to: "west") }, limit: 1)
    #expect(clusters.planned == nil && clusters.shards.map { $0?.target } == [nil, "west", nil, nil])
  }

  @Test func `an opening that an earlier release tells of has neither a part nor a division`() throws {
    struct Earlier: Codable {
      var shard: Int
      var epoch: Int64
    }
    let bytes = try MessagePackEncoder().encode(Earlier(shard: 3, epoch: 4))
    let read = try MessagePackDecoder().decode(NoteShardEpochs.Opened.self, from: bytes)
    #expect(read == NoteShardEpochs.Opened(shard: 3, epoch: 4))
    let opened = NoteShardEpochs.Opened(
      shard: 3, epoch: 4, cluster: "main", part: ShardPart(modulus: 8, remainder: 3),
      pending: PendingSplit(shard: 4, number: 9, cluster: nil), takenBack: 2)
    let again = try MessagePackDecoder().decode(
      NoteShardEpochs.Opened.self, from: MessagePackEncoder().encode(opened))
    #expect(again == opened)
  }

  @Test func `a divided shard whose new shard may not be opened yet is held by a worker that reaches both`() {
    func worker(_ name: String, _ clusters: [String]) -> Peer {
      Peer(
        name: name, role: .worker, incarnation: 1, endpoint: "memory://" + name, isReady: true, shardFormat: 9,
        clusters: clusters, knowsSplits: true)
    }
    let (both, main, west) = (
      worker("both", ["main", "west"]), worker("main", ["main"]), worker("west", ["west"])
    )
    let splits = Array(0..<32)
    func holders(_ peers: [Peer], arrival: Int64?) -> [String?] {
      var assignment = ShardAssignment(shardCount: 32, splits: splits, persisted: nil)
      let clusters = (0..<64).map {
        $0 < 32 ? ShardCluster() : ShardCluster(name: "west", arrival: arrival)
      }
      return assignment.next(peers: peers, graceIsOver: true, clusters: clusters)?.holders ?? []
    }
    let pending = holders([both, main, west], arrival: 7)
    #expect(pending.prefix(32).allSatisfy { $0 == "both" } && Set(pending.suffix(32)) == ["both", "west"])
    // A worker that reaches the new shard's cluster alone opens it by the number.
    let apart = holders([main, west], arrival: 7)
    #expect(apart.prefix(32).allSatisfy { $0 == "main" } && apart.suffix(32).allSatisfy { $0 == "west" })
    #expect(Set(holders([both, main, west], arrival: nil).prefix(32)) == ["both", "main"])
  }
}
