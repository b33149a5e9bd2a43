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
    let stored = try storedClusters()
    var settled = stored
    settled.settle(among: known, wasOpened: try shardEpochs(FetchShardEpochs()).epochs.map { $0 > 0 })
    if settled != stored { try change { try set(settled) } }
    return settled.published
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

  /// Notes the clusters of opened shards, within a change.
  func noteClusters(of opened: [NoteShardEpochs.Opened]) throws {
    var clusters = try storedClusters()
    let earlier = clusters
    for opened in opened {
      if let cluster = opened.cluster { clusters.note(opened.shard, in: cluster) }
    }
    if clusters != earlier { try set(clusters) }
  }

  /// Forgets the clusters of shards, within a change. They are looked for, or made anew, in any cluster then.
  func forgetClusters(of shards: [Int]) throws {
    var clusters = try storedClusters()
    let earlier = clusters
    for shard in shards { clusters.forget(shard) }
    if clusters != earlier { try set(clusters) }
  }
}
