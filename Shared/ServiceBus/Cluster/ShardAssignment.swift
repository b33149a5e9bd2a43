// Decides which worker should hold which shard: rendezvous hashing over the present workers, so that few shards move.

/// The share service's decisions about the cluster, without bus, clock or disk.
public struct ShardAssignment: Sendable {
  /// The latest stored map, which peers get.
  public private(set) var map: ClusterMap
  /// Members of the map from before a restart of the share service that are not back yet. They count as present until
  /// the grace period ends, so that restarting the share service alone moves no shard and disconnects nobody.
  private var awaited: [String: Peer]
  private let leastVersion: Int64
  /// The number of shards that the installation was created with.
  private let shardCount: Int

  /// - Parameters:
  ///   - shardCount: fixed with the installation, at least 1.
  ///   - splits: those that there have been.
  ///   - persisted: the last map that was stored; nil in a new installation.
  ///   - epoch: that of the share service; 0 when it has none.
  ///   - startVersion: maps get greater versions than this and than `persisted`'s.
  ///   - leastVersion: the lowest version that later maps may have.
  public init(
    shardCount: Int, splits: [Int] = [], persisted: ClusterMap?, epoch: Int64 = 0, startVersion: Int64 = 0,
    leastVersion: Int64 = 0
  ) {
    precondition(shardCount > 0, "an installation has at least one shard, not \(shardCount)")
    self.shardCount = shardCount
    let count = shardCount + splits.count
    let former = persisted?.grown(to: count, from: shardCount)
    map = ClusterMap(
      version: max(startVersion, persisted?.version ?? 0), members: persisted?.members ?? [],
      holders: former?.holders ?? Array(repeating: nil, count: count), formats: former?.formats,
      epoch: epoch == 0 ? nil : epoch, clusters: former?.clusters, splits: splits.isEmpty ? nil : splits)
    self.leastVersion = leastVersion
    awaited = Dictionary((persisted?.members ?? []).map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
  }

  /// The next map, which the caller stores and passes to `commit`; nil if the present one still holds.
  /// - Parameters:
  ///   - peers: all connected processes and the share service itself.
  ///   - clusters: where each shard is kept; nil: all in the main cluster. A worker that does not reach a shard's
  ///     cluster does not get the shard. Of a shard that moves or is being divided, one that reaches both clusters is
  ///     the holder if there is any.
  ///   - splits: all that there have been; nil: no further ones. A worker that does not know splits gets no shard then.
  public mutating func next(
    peers: [Peer], graceIsOver: Bool, clusters: [ShardCluster]? = nil, splits: [Int]? = nil
  ) -> ClusterMap? {
    var members = Dictionary(peers.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    if graceIsOver { awaited = [:] }
    for (name, former) in awaited {
      guard let present = members[name] else {
        members[name] = former
        continue
      }
      // Still awaited: a process that was restarted and is not ready yet. No longer awaited: the same process, not
      // ready, which is leaving.
      if present.isReady || present.incarnation == former.incarnation { awaited[name] = nil }
    }
    let sorted = members.values.sorted { $0.name < $1.name }
    let splits = splits ?? map.splits ?? []
    let workers = sorted.filter {
      $0.role == .worker && ($0.isReady || awaited[$0.name]?.isReady == true) && $0.knows(splits)
    }
    let known = Dictionary(uniqueKeysWithValues: members.values.map { ($0.name, $0.shardFormat ?? 0) })
    var formats = map.formats ?? Array(repeating: 0, count: map.shardCount)
    // A new shard has the rows of the one that was divided.
    for number in formats.count - shardCount..<max(splits.count, formats.count - shardCount) {
      formats.append(formats[splits[number]])
    }
    let leavingTo = Self.newClusters(clusters ?? [], splits, shardCount)
    let holders = formats.indices.map { shard in
      let former = map.holders.indices.contains(shard) ? map.holders[shard] : nil
      // The present holder may have brought the shard to its format, even if another release made the map.
      formats[shard] = max(formats[shard], former.flatMap { known[$0] } ?? 0)
      let able = Self.reaching(
        clusters.flatMap { $0.indices.contains(shard) ? $0[shard] : nil } ?? ShardCluster(), and: leavingTo[shard],
        among: workers.filter { $0.shardFormat ?? 0 >= formats[shard] })
      let holder = Self.holder(ofShard: shard, among: able.map(\.name))
      formats[shard] = max(formats[shard], holder.flatMap { known[$0] } ?? 0)
      return holder
    }
    guard
      sorted != map.members || holders != map.holders || formats != map.formats || clusters != map.clusters
        || splits != map.splits ?? []
    else { return nil }
    return ClusterMap(
      version: max(map.version + 1, leastVersion), members: sorted, holders: holders, formats: formats,
      epoch: map.epoch, clusters: clusters, splits: splits.isEmpty ? nil : splits)
  }

  /// The clusters of the new shards that may not be opened yet, by the divided shard, whose worker lets them be opened.
  private static func newClusters(_ clusters: [ShardCluster], _ splits: [Int], _ shardCount: Int) -> [Int: String] {
    var found: [Int: String] = [:]
    for (number, divided) in splits.enumerated() where clusters.indices.contains(shardCount + number) {
      let cluster = clusters[shardCount + number]
      if cluster.arrival != nil { found[divided] = cluster.name }
    }
    return found
  }

  private static func reaching(
    _ cluster: ShardCluster, and newCluster: String?, among workers: [Peer]
  ) -> [Peer] {
    let able = workers.filter { $0.reaches(cluster.name) }
    guard let target = cluster.target ?? cluster.split ?? newCluster else { return able }
    let both = able.filter { $0.reaches(target) }
    return both.isEmpty ? able : both
  }

  /// Takes a map that was stored and may be published.
  public mutating func commit(_ map: ClusterMap) {
    precondition(map.version > self.map.version, "version \(map.version) follows \(self.map.version)")
    self.map = map
  }

  /// The worker whose hash with the shard is greatest. A worker that joins takes only its own shards; one that leaves
  /// gives up only its own.
  static func holder(ofShard shard: Int, among workers: [String]) -> String? {
    workers.map { (score: score(of: $0, shard), name: $0) }.max { ($0.score, $1.name) < ($1.score, $0.name) }?.name
  }

  /// FNV-1a over the name and the shard's number, mixed: `Hasher` would differ between processes.
  private static func score(of worker: String, _ shard: Int) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    func add(_ byte: UInt8) {
      hash ^= UInt64(byte)
      hash &*= 0x0000_0100_0000_01b3
    }
    for byte in worker.utf8 { add(byte) }
    add(0)
    for shift in stride(from: 0, to: 32, by: 8) { add(UInt8(truncatingIfNeeded: shard >> shift)) }
    hash ^= hash >> 33
    hash &*= 0xff51_afd7_ed55_8ccd
    hash ^= hash >> 33
    hash &*= 0xc4ce_b9fe_1a85_ec53
    return hash ^ hash >> 33
  }
}

extension ClusterMap {
  /// The same with room for shards that have come since; nil for a map of an installation of another size.
  fileprivate func grown(to count: Int, from createdCount: Int) -> ClusterMap? {
    guard holders.count - (splits?.count ?? 0) == createdCount, holders.count <= count else { return nil }
    return ClusterMap(
      version: version, members: members,
      holders: holders + Array(repeating: nil, count: count - holders.count),
      formats: formats?.count == shardCount ? formats : nil, epoch: epoch,
      clusters: clusters?.count == shardCount ? clusters : nil)
  }
}
