// Knows in which cluster each shard is kept, and where shards are asked to move.

import MessagePack
import Records
import ServiceBus

extension Directory {
  private static let clustersName = "shardClusters"

  private func storedClusters() throws -> ShardClusters {
    guard let bytes = try DirectoryFormat.value(Self.clustersName, in: connection) else {
      return ShardClusters(shardCount: shardCount)
    }
    return try MessagePackDecoder().decode(ShardClusters.self, from: bytes)
  }

  private func set(_ clusters: ShardClusters) throws {
    try DirectoryFormat.set(Self.clustersName, try MessagePackEncoder().encode(clusters), in: connection)
  }

  /// The cluster of each shard; nil: all are in the main one. New shards are spread over the known clusters first.
  /// - Parameter known: the clusters that ready workers reach.
  func clusters(known: Set<String>) throws -> [ShardCluster]? {
    var clusters = try storedClusters()
    if !known.isEmpty, clusters.shards.contains(nil) {
      clusters.settle(among: known, wasOpened: try shardEpochs(FetchShardEpochs()).epochs.map { $0 > 0 })
      try change { try set(clusters) }
    }
    return clusters.published
  }

  /// Asks for a move of a shard to a cluster. The present cluster takes an earlier request back.
  /// - Throws: `badRequest` for a shard that does not exist.
  func move(_ shard: Int, to cluster: String) throws {
    guard (0..<shardCount).contains(shard) else {
      throw RecordError(.badRequest, "there is no shard \(shard): they are 0 to \(shardCount - 1)")
    }
    try change {
      var clusters = try storedClusters()
      clusters.move(shard, to: cluster)
      try set(clusters)
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

  /// Notes the clusters of opened shards, within a change.
  /// - Returns: whether one was another before.
  func noteClusters(of opened: [NoteShardEpochs.Opened]) throws -> Bool {
    var clusters = try storedClusters()
    let earlier = clusters
    for opened in opened {
      if let cluster = opened.cluster { clusters.note(opened.shard, in: cluster) }
    }
    if clusters == earlier { return false }
    try set(clusters)
    return true
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
