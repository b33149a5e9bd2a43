// A division whose new shard was not opened yet.

/// The note of a division in the tables of the divided shard, until the new shard may be opened.
public struct PendingSplit: Codable, Hashable, Sendable {
  /// The new shard.
  public let shard: Int
  /// The number of the division, which the tables of the new shard have as well.
  public let number: Int64
  /// The cluster of the new shard; nil: unknown.
  public let cluster: String?

  public init(shard: Int, number: Int64, cluster: String?) {
    self.shard = shard
    self.number = number
    self.cluster = cluster
  }
}
