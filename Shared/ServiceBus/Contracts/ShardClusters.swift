// Where shards are kept when an installation has several clusters of PostgreSQL.

/// The cluster of a shard.
public struct ShardCluster: Hashable, Sendable, Codable {
  /// The cluster without a name of its own, and the data folder.
  public static let main = "main"

  public var name: String
  /// The cluster that the shard moves to; nil: it stays.
  public var target: String?
  /// The cluster that gets the new shard when this one is divided; nil: it is not.
  public var split: String?

  public init(name: String = Self.main, target: String? = nil, split: String? = nil) {
    self.name = name
    self.target = target
    self.split = split
  }
}

/// What the share service tells of the shards' places.
public struct ShardPlaces: Hashable, Sendable {
  /// By shard; nil: all are in the main cluster.
  public var clusters: [ShardCluster]?
  /// Those of `ShardLayout`.
  public var splits: [Int]

  public init(clusters: [ShardCluster]? = nil, splits: [Int] = []) {
    self.clusters = clusters
    self.splits = splits
  }
}

/// A move that is to begin when its clusters have few others.
public struct PlannedMove: Hashable, Sendable, Codable {
  public let shard: Int
  /// The names of clusters.
  public let from, to: String

  public init(shard: Int, from: String, to: String) {
    self.shard = shard
    self.from = from
    self.to = to
  }
}

/// The clusters of all shards, without bus, clock or disk.
public struct ShardClusters: Hashable, Sendable, Codable {
  /// By shard; nil for a shard that has not got its cluster yet.
  public private(set) var shards: [ShardCluster?]
  /// The moves that have not begun, in their order; nil: none.
  public private(set) var planned: [PlannedMove]?
  /// The most moves that a cluster takes part in when a planned one begins; nil before the first plan.
  public private(set) var moveLimit: Int?

  public init(shardCount: Int) { shards = Array(repeating: nil, count: shardCount) }

  /// Gives each shard without a cluster one: the main cluster if it was opened before, else the one with the fewest
  /// shards.
  /// - Parameters:
  ///   - known: the clusters that workers reach. Without any, nothing changes.
  ///   - wasOpened: by shard.
  public mutating func settle(among known: Set<String>, wasOpened: [Bool]) {
    guard !known.isEmpty else { return }
    for shard in shards.indices where shards[shard] == nil && wasOpened[shard] { shards[shard] = ShardCluster() }
    var counts = Dictionary(uniqueKeysWithValues: known.map { ($0, 0) })
    for case .some(let cluster) in shards { counts[cluster.name]? += 1 }
    for shard in shards.indices where shards[shard] == nil {
      guard let (name, count) = counts.min(by: { ($0.value, $0.key) < ($1.value, $1.key) }) else { return }
      shards[shard] = ShardCluster(name: name)
      counts[name] = count + 1
    }
  }

  /// Notes where a worker has opened a shard.
  public mutating func note(_ shard: Int, in cluster: String) {
    let earlier = shards[shard]
    shards[shard] = ShardCluster(
      name: cluster, target: earlier?.target == cluster ? nil : earlier?.target, split: earlier?.split)
    begin()
  }

  /// Asks for a move at once. The shard's own cluster takes an earlier request back, and a planned move.
  public mutating func move(_ shard: Int, to cluster: String) {
    let name = shards[shard]?.name ?? ShardCluster.main
    shards[shard] = ShardCluster(name: name, target: name == cluster ? nil : cluster)
    drop { $0.shard == shard }
    begin()
  }

  /// Asks for a division of a shard that stays where it is. nil takes the request back.
  /// - Parameter cluster: gets the new shard.
  public mutating func split(_ shard: Int, to cluster: String?) {
    guard let cluster else {
      shards[shard]?.split = nil
      return begin()
    }
    shards[shard] = ShardCluster(name: shards[shard]?.name ?? ShardCluster.main, split: cluster)
    drop { $0.shard == shard }
    begin()
  }

  /// Notes that a shard is divided, and that its new shard is the next one.
  public mutating func noteSplit(of shard: Int) {
    let cluster = shards[shard]?.split ?? shards[shard]?.name
    shards[shard]?.split = nil
    shards.append(cluster.map { ShardCluster(name: $0) })
    begin()
  }

  /// The shard that is asked to be divided.
  public var splitting: Int? { shards.firstIndex { $0?.split != nil } }

  public mutating func forget(_ shard: Int) {
    shards[shard] = nil
    begin()
  }

  /// Replaces the moves that have not begun. Those under way go on.
  /// - Parameters:
  ///   - moves: in the order in which they are to begin. One whose shard is elsewhere by now, or moves, is dropped.
  ///   - limit: the most moves that a cluster takes part in when one of these begins, at least 1.
  public mutating func plan(_ moves: [PlannedMove], limit: Int) {
    planned = moves.isEmpty ? nil : moves
    moveLimit = max(limit, 1)
    begin()
  }

  private mutating func drop(_ isDropped: (PlannedMove) -> Bool) {
    let rest = (planned ?? []).filter { !isDropped($0) }
    planned = rest.isEmpty ? nil : rest
  }

  /// Turns planned moves into requests as far as their clusters have room.
  private mutating func begin() {
    guard let waiting = planned else { return }
    let present = shards
    drop { (present[$0.shard] ?? ShardCluster()) != ShardCluster(name: $0.from) }
    var counts: [String: Int] = [:]
    for case .some(let cluster) in shards {
      guard let target = cluster.target else { continue }
      for name in [cluster.name, target] { counts[name, default: 0] += 1 }
    }
    let limit = moveLimit ?? 1
    for move in waiting where planned?.contains(move) == true {
      guard [move.from, move.to].allSatisfy({ counts[$0] ?? 0 < limit }) else { continue }
      shards[move.shard] = ShardCluster(name: move.from, target: move.to)
      for name in [move.from, move.to] { counts[name, default: 0] += 1 }
      drop { $0 == move }
    }
  }

  /// As maps have them; nil when all are in the main cluster and stay there.
  public var published: [ShardCluster]? {
    let all = shards.map { $0 ?? ShardCluster() }
    return all.allSatisfy { $0 == ShardCluster() } ? nil : all
  }
}

extension Peer {
  /// The clusters whose shards a worker can open.
  var reachedClusters: [String] { clusters ?? [ShardCluster.main] }

  func reaches(_ cluster: String) -> Bool { reachedClusters.contains(cluster) }
}

extension ClusterMap {
  /// The cluster of a shard.
  public func cluster(ofShard shard: Int) -> ShardCluster {
    guard let clusters, clusters.indices.contains(shard) else { return ShardCluster() }
    return clusters[shard]
  }

  private var readyWorkers: [Peer] { members.filter { $0.role == .worker && $0.isReady } }

  /// The clusters that ready workers reach.
  public var reachedClusters: Set<String> { Set(readyWorkers.flatMap(\.reachedClusters)) }

  /// The clusters that ready workers reach, or that have shards.
  public var namedClusters: Set<String> {
    reachedClusters.union(holders.indices.map { cluster(ofShard: $0).name })
  }

  /// Whether a ready worker reaches all of these clusters.
  public func isReached(_ clusters: [String]) -> Bool { readyWorkers.contains { clusters.allSatisfy($0.reaches) } }

  /// The clusters of the shards that no worker holds, although workers are ready, with these shards.
  public var unreached: [(cluster: String, shards: [Int])] {
    let workers = readyWorkers
    if workers.isEmpty { return [] }
    let shards = holders.indices.filter { shard in
      holders[shard] == nil && !workers.contains { $0.reaches(cluster(ofShard: shard).name) }
    }
    return Dictionary(grouping: shards) { cluster(ofShard: $0).name }.sorted { $0.key < $1.key }
      .map { (cluster: $0.key, shards: $0.value) }
  }
}
