// Where a shard is kept when an engine has several clusters.

public import Records

/// A division that a shard is asked for.
public struct RequestedSplit: Hashable, Sendable {
  /// The new shard.
  public let shard: Int
  /// The cluster of the new shard.
  public let cluster: String
  /// The part that is to be divided. A shard with another one is divided already.
  public let part: ShardPart

  public init(shard: Int, cluster: String, part: ShardPart) {
    self.shard = shard
    self.cluster = cluster
    self.part = part
  }
}

/// The cluster of a shard, its move and its division.
public struct ShardPlacement: Hashable, Sendable {
  public var cluster: String
  /// The cluster that the shard moves to; nil: it stays.
  public var target: String?
  /// nil: the shard is not asked to be divided.
  public var split: RequestedSplit?
  /// The number of the division that the shard came by, until it was opened; nil: none.
  public var arrival: Int64?
  /// The rows that a move or a division has copied or compared; nil: none is under way.
  public var movedRowCount: Int?
  /// Why the last try of it failed.
  public var problem: String?

  public init(cluster: String, target: String? = nil, split: RequestedSplit? = nil, arrival: Int64? = nil) {
    self.cluster = cluster
    self.target = target
    self.split = split
    self.arrival = arrival
  }
}
