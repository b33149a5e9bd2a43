// Where a shard is kept when an engine has several clusters.

/// The cluster of a shard, and its move.
public struct ShardPlacement: Hashable, Sendable {
  public var cluster: String
  /// The cluster that the shard moves to; nil: it stays.
  public var target: String?
  /// The rows that a move has copied or compared; nil: none is under way.
  public var movedRowCount: Int?
  /// Why the last try of a move failed.
  public var problem: String?

  public init(cluster: String, target: String? = nil) {
    self.cluster = cluster
    self.target = target
  }
}
