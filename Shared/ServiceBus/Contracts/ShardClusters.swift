// Where shards are kept when an installation has several clusters of PostgreSQL.

public import Records

/// The cluster of a shard.
public struct ShardCluster: Hashable, Sendable, Codable {
  /// The cluster without a name of its own, and the data folder.
  public static let main = "main"

  public var name: String
  /// The cluster that the shard moves to; nil: it stays.
  public var target: String?
  /// The cluster that gets the new shard when this one is divided; nil: it is not.
  public var split: String?
  /// The number of the division that the shard came by, in the tables of both shards; nil: the divided shard has told
  /// that this one was opened. Maps have it.
  public var arrival: Int64?
  /// The number of the last request for a division that was taken back; nil: the shard was opened since. Maps have it.
  public var takenBack: Int64?

  public init(
    name: String = Self.main, target: String? = nil, split: String? = nil, arrival: Int64? = nil,
    takenBack: Int64? = nil
  ) {
    self.name = name
    self.target = target
    self.split = split
    self.arrival = arrival
    self.takenBack = takenBack
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

/// A division that was carried out, and whose new shard may not be opened yet.
public struct PendingDivision: Hashable, Sendable, Codable {
  /// The divided shard.
  public let shard: Int
  public let newShard: Int
  /// The number of the division, in the tables of both.
  public let number: Int64

  public init(shard: Int, newShard: Int, number: Int64) {
    self.shard = shard
    self.newShard = newShard
    self.number = number
  }
}

/// A request for a division that was taken back. Its shard may be divided already.
public struct TakenBackSplit: Hashable, Sendable, Codable {
  public let shard: Int
  /// The cluster that was to get the new shard.
  public let cluster: String
  public let number: Int64
}

/// The clusters of all shards, without bus, clock or disk.
public struct ShardClusters: Hashable, Sendable, Codable {
  /// By shard; nil for a shard that has not got its cluster yet.
  public private(set) var shards: [ShardCluster?]
  /// The moves that have not begun, in their order; nil: none.
  public private(set) var planned: [PlannedMove]?
  /// The most moves that a cluster takes part in when a planned one begins; nil before the first plan.
  public private(set) var moveLimit: Int?
  /// nil: none.
  public private(set) var divisions: [PendingDivision]?
  /// Stands until its shard was opened by a worker that knew of it, or was divided; nil: none does.
  public private(set) var takenBack: TakenBackSplit?
  /// The number of the last request that was taken back; nil: none was.
  private var takenBackCount: Int64?

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

  /// Asks for a division of a shard that stays where it is.
  /// - Parameter cluster: gets the new shard.
  public mutating func split(_ shard: Int, to cluster: String) {
    shards[shard] = ShardCluster(name: shards[shard]?.name ?? ShardCluster.main, split: cluster)
    if takenBack?.shard == shard { takenBack = nil }
    drop { $0.shard == shard }
    begin()
  }

  /// Takes the request for a division back. It may have been carried out, so that it counts until it is known.
  /// - Returns: false if there is none.
  public mutating func takeSplitBack(_ shard: Int) -> Bool {
    guard let cluster = shards[shard]?.split else { return false }
    shards[shard]?.split = nil
    let number = (takenBackCount ?? 0) + 1
    takenBackCount = number
    takenBack = TakenBackSplit(shard: shard, cluster: cluster, number: number)
    begin()
    return true
  }

  /// Notes that a worker has opened a shard undivided when it knew that a request was taken back.
  public mutating func noteUndivided(_ shard: Int, knowing number: Int64?) {
    if let takenBack, takenBack.shard == shard, takenBack.number == number { self.takenBack = nil }
  }

  /// Notes that a shard is divided, and that its new shard is the next one.
  /// - Parameters:
  ///   - cluster: has the new shard; nil: the cluster of the request, or the shard's own.
  ///   - number: that of the division; nil: the new shard may be opened.
  public mutating func noteSplit(of shard: Int, in cluster: String?, number: Int64?) {
    let cluster = cluster ?? requestedCluster(ofShard: shard) ?? shards[shard]?.name
    if let number {
      divisions = (divisions ?? []) + [PendingDivision(shard: shard, newShard: shards.count, number: number)]
    }
    if takenBack?.shard == shard { takenBack = nil }
    shards[shard]?.split = nil
    shards.append(cluster.map { ShardCluster(name: $0) })
    begin()
  }

  /// Notes that the new shards of a shard may be opened.
  public mutating func noteDivisionsEnded(of shard: Int) {
    let rest = (divisions ?? []).filter { $0.shard != shard }
    divisions = rest.isEmpty ? nil : rest
  }

  /// The shard that is asked to be divided.
  public var splitting: Int? { shards.firstIndex { $0?.split != nil } }

  /// The cluster that is, or was, to get the new shard of a division which may have been carried out; nil: none was
  /// asked for.
  public func requestedCluster(ofShard shard: Int) -> String? {
    shards[shard]?.split ?? (takenBack?.shard == shard ? takenBack?.cluster : nil)
  }

  /// The division that has begun with a shard, or made it.
  public func division(with shard: Int) -> PendingDivision? {
    divisions?.first { $0.shard == shard || $0.newShard == shard }
  }

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
    let present = self
    drop {
      (present.shards[$0.shard] ?? ShardCluster()) != ShardCluster(name: $0.from)
        || present.division(with: $0.shard) != nil
    }
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
    var all = shards.map { $0 ?? ShardCluster() }
    for division in divisions ?? [] { all[division.newShard].arrival = division.number }
    if let takenBack { all[takenBack.shard].takenBack = takenBack.number }
    return all.allSatisfy { $0 == ShardCluster() } ? nil : all
  }
}

extension ShardPart {
  /// Whether another part has all databases of this one.
  public func isWithin(_ other: ShardPart) -> Bool {
    modulus % other.modulus == 0 && remainder % other.modulus == other.remainder
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
