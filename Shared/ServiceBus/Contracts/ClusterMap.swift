// The processes of the installation and the holders of shards: the share service publishes it, and processes keep it in
// its absence.

public import Records

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
  /// The epoch of the share service that made the map; nil counts as 0. A map of a higher epoch is newer than all of a
  /// lower one.
  public let epoch: Int64?
  /// Where each shard is kept; nil: all in the main cluster.
  public let clusters: [ShardCluster]?
  /// The splits of `ShardLayout`; nil: none.
  public let splits: [Int]?

  public init(
    version: Int64, members: [Peer], holders: [String?], formats: [Int]? = nil, epoch: Int64? = nil,
    clusters: [ShardCluster]? = nil, splits: [Int]? = nil
  ) {
    self.version = version
    self.members = members
    self.holders = holders
    self.formats = formats
    self.epoch = epoch
    self.clusters = clusters
    self.splits = splits
  }

  func isNewer(than other: ClusterMap) -> Bool { (epoch ?? 0, version) > (other.epoch ?? 0, other.version) }

  public var shardCount: Int { holders.count }

  /// nil for a map without shards, and for one whose splits contradict each other. Looks at all splits.
  public var layout: ShardLayout? {
    ShardLayout(createdCount: holders.count - (splits?.count ?? 0), splits: splits ?? [])
  }
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
