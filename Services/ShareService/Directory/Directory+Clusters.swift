// Knows in which cluster each shard is kept, and where shards are asked to move.

import MessagePack
import Records
import SQLite
import ServiceBus

extension Directory {
  private static let clustersName = "shardClusters"

  /// As they are stored.
  func storedClusters() throws -> ShardClusters {
    guard let bytes = try DirectoryFormat.value(Self.clustersName, in: connection) else {
      return ShardClusters(shardCount: shardCount)
    }
    return try MessagePackDecoder().decode(ShardClusters.self, from: bytes)
  }

  func set(_ clusters: ShardClusters) throws {
    try DirectoryFormat.set(Self.clustersName, try MessagePackEncoder().encode(clusters), in: connection)
  }

  /// The cluster of each shard, and the splits. New shards are spread over the known clusters first.
  /// - Parameter known: the clusters that ready workers reach.
  func places(known: Set<String>) throws -> ShardPlaces {
    try readSplits()
    var clusters = try storedClusters()
    if !known.isEmpty, clusters.shards.contains(nil) {
      clusters.settle(among: known, wasOpened: try shardEpochs(FetchShardEpochs()).epochs.map { $0 > 0 })
      try change { try set(clusters) }
    }
    return ShardPlaces(clusters: clusters.published, splits: layout.splits)
  }

  /// Asks for a move of a shard to a cluster. The present cluster takes an earlier request back.
  /// - Throws: `badRequest` for a shard that does not exist.
  func move(_ shard: Int, to cluster: String) throws {
    try checkExists(shard)
    try change {
      var clusters = try storedClusters()
      if clusters.shards[shard]?.split != nil || clusters.division(with: shard) != nil {
        throw RecordError(.badRequest, "shard \(shard) is being divided, and can't move meanwhile", httpStatus: 409)
      }
      clusters.move(shard, to: cluster)
      try set(clusters)
    }
  }

  /// - Throws: `badRequest` for a shard that does not exist.
  func checkExists(_ shard: Int) throws {
    guard (0..<shardCount).contains(shard) else {
      throw RecordError(.badRequest, "there is no shard \(shard): they are 0 to \(shardCount - 1)")
    }
  }

  /// Refuses a list of a shard that was made before or after a division that the directory does not know of, or knows
  /// already.
  /// - Throws: `tryAgainLater`.
  func check(_ part: ShardPart?, ofShard shard: Int) throws {
    guard part == layout.dividedPart(of: shard) else {
      throw RecordError(.tryAgainLater, "shard \(shard) is being divided", retryAfter: 1)
    }
  }

  /// The clusters of all shards, and the moves that wait for others.
  func shardClusters() throws -> ShardClusters { try storedClusters() }

  /// Replaces the moves that have not begun.
  /// - Returns: the clusters of all shards after that.
  func plan(_ moves: [PlannedMove], limit: Int) throws -> ShardClusters {
    try change {
      var clusters = try storedClusters()
      clusters.plan(moves, limit: limit)
      try set(clusters)
      return clusters
    }
  }

  /// Forgets the clusters that are gone, within a change. Their shards are looked for, or made anew, in any cluster
  /// then. A shard of another cluster stays there: a worker that does not reach it could make the shard elsewhere.
  /// - Parameter known: the clusters that ready workers reach.
  func forgetClusters(of shards: [Int], known: Set<String>) throws {
    var clusters = try storedClusters()
    let earlier = clusters
    for shard in shards {
      if let cluster = clusters.shards[shard], !known.contains(cluster.name) { clusters.forget(shard) }
    }
    if clusters != earlier { try set(clusters) }
  }
}
