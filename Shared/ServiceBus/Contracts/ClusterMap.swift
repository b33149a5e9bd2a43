// Who is there and who holds which shard: published by the share service, kept by everybody through its absence.

/// The installation as the share service sees it.
public struct ClusterMap: Hashable, Sendable, Codable {
  /// Rises with every change, also over restarts of the share service.
  public let version: Int64
  /// All processes, ascending by name.
  public let members: [Peer]
  /// The worker's name that should hold shard i; nil while there is no worker.
  public let holders: [String?]

  public init(version: Int64, members: [Peer], holders: [String?]) {
    self.version = version
    self.members = members
    self.holders = holders
  }

  public var shardCount: Int { holders.count }
}

/// Pushed by the share service to everybody on every change, and to newcomers.
public struct PublishClusterMap: Message {
  public static let name = "cluster.map/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let map: ClusterMap

  public init(map: ClusterMap) { self.map = map }
}
