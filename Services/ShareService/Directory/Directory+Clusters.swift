// Knows in which cluster each shard is kept, and where shards are asked to move.

import MessagePack
import Records
import SQLite
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
    guard (0..<shardCount).contains(shard) else {
      throw RecordError(.badRequest, "there is no shard \(shard): they are 0 to \(shardCount - 1)")
    }
    try change {
      var clusters = try storedClusters()
      if clusters.shards[shard]?.split != nil {
        throw RecordError(.badRequest, "shard \(shard) is being divided, and can't move meanwhile", httpStatus: 409)
      }
      clusters.move(shard, to: cluster)
      try set(clusters)
    }
  }

  /// Asks for the division of a shard. nil takes the request back.
  /// - Parameter cluster: gets the new shard.
  /// - Throws: `badRequest` for a shard that does not exist or can't be divided, and while another one is divided or
  ///   the shard moves.
  func split(_ shard: Int, to cluster: String?) throws {
    try readSplits()
    guard (0..<shardCount).contains(shard) else {
      throw RecordError(.badRequest, "there is no shard \(shard): they are 0 to \(shardCount - 1)")
    }
    try change {
      var clusters = try storedClusters()
      if cluster != nil {
        if let other = clusters.splitting, other != shard {
          throw RecordError(
            .badRequest, "shard \(other) is being divided, and one shard is divided at a time", httpStatus: 409)
        }
        if let target = clusters.shards[shard]?.target {
          throw RecordError(.badRequest, "shard \(shard) moves to the cluster \(target)", httpStatus: 409)
        }
        guard layout.splitting(shard) != nil else {
          throw RecordError(
            .badRequest,
            "shard \(shard) can't be divided: an installation has at most \(ShardLayout.countLimit) shards",
            httpStatus: 409)
        }
      }
      clusters.split(shard, to: cluster)
      try set(clusters)
    }
  }

  /// Notes divisions that workers have carried out, within a change.
  /// - Returns: all splits then; nil: nothing has changed.
  func noteSplits(of opened: [NoteShardEpochs.Opened]) throws -> [Int]? {
    var (clusters, layout) = (try storedClusters(), layout)
    let earlier = layout
    for opened in opened {
      guard let part = opened.part, let next = layout.splitting(opened.shard), next.part(of: opened.shard) == part
      else { continue }
      clusters.noteSplit(of: opened.shard)
      layout = next
      try noteNewShard(layout.count - 1, of: opened.shard, layout)
    }
    if layout == earlier { return nil }
    try set(clusters)
    try DirectoryFormat.set(splits: layout.splits, in: connection)
    return layout.splits
  }

  /// Gives the rows about databases that are in a new shard that shard's number.
  private func noteNewShard(_ shard: Int, of divided: Int, _ layout: ShardLayout) throws {
    try noteOpening(ofShard: shard)
    for table in ["sharedZone", "waitingInvitation"] {
      let databases = try connection.statement(
        SQL(
          "split.\(table)", "SELECT DISTINCT container, environment, owner FROM \(table) WHERE shard = ?1")
      ).binding(Int64(divided)).all { ($0.text(0), $0.text(1), $0.text(2)) }
      for (name, environment, owner) in databases {
        guard let container = ContainerID(rawValue: name), let kind = Environment(rawValue: environment),
          layout.shard(of: DatabaseID(container: container, environment: kind, owner: owner)) == shard
        else { continue }
        try connection.statement(
          SQL(
            "split.note.\(table)",
            "UPDATE \(table) SET shard = ?1 WHERE shard = ?2 AND container = ?3 AND environment = ?4 AND owner = ?5")
        ).binding(Int64(shard), Int64(divided), name, environment, owner).run()
      }
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
