// Who is there and who holds which shard: published by the share service, kept by everybody through its absence.

/// The installation as the share service sees it.
public struct ClusterMap: Hashable, Sendable, Codable {
  /// Rises with every change, also over restarts of the share service and with an older copy of its directory.
  public let version: Int64
  /// All processes, ascending by name.
  public let members: [Peer]
  /// The worker's name that should hold shard i; nil while there is no worker.
  public let holders: [String?]
  /// The newest stored format that a worker knew which shard i was given to: it may have brought the shard's file to it, and nobody gets the
  /// shard any more who knows only older ones. 0: none of them said. nil: the map is of a release that did not keep this.
  public let formats: [Int]?

  public init(version: Int64, members: [Peer], holders: [String?], formats: [Int]? = nil) {
    self.version = version
    self.members = members
    self.holders = holders
    self.formats = formats
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
