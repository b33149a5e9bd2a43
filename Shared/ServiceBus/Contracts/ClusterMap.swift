// The processes of the installation and the holders of shards: the share service publishes it, and processes keep it in
// its absence.

/// The installation as the share service sees it.
public struct ClusterMap: Hashable, Sendable, Codable {
  /// Rises with every change, also across restarts of the share service and with an older copy of its directory.
  public let version: Int64
  /// All processes, ascending by name.
  public let members: [Peer]
  /// The name of the worker that should hold shard i; nil while there is no worker.
  public let holders: [String?]
  /// The newest stored format known to any worker that shard i was given to: the shard's file may have that format, so
  /// no worker that knows only older ones gets the shard. 0: no holder reported its format. nil: the map's release did
  /// not keep formats.
  public let formats: [Int]?

  public init(version: Int64, members: [Peer], holders: [String?], formats: [Int]? = nil) {
    self.version = version
    self.members = members
    self.holders = holders
    self.formats = formats
  }

  public var shardCount: Int { holders.count }
}

/// The share service pushes it to every process on every change, and to newcomers.
public struct PublishClusterMap: Message {
  public static let name = "cluster.map/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let map: ClusterMap

  public init(map: ClusterMap) { self.map = map }
}
