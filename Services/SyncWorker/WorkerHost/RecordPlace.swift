// Reads the place of shards: files of the data folder, or clusters of PostgreSQL that workers on every machine reach.

import Assets
import Crypto
import RecordStore
import ServiceKit

/// `--records URL` and `--records-from PLACE`, read once when the process starts.
struct RecordPlace: Sendable {
  private enum Engine: Sendable {
    /// The folder that all workers of the installation share.
    case folder(String)
    /// PostgreSQL. The data folder is the machine's own and holds nothing that others need.
    case clusters([ClusterAddress])
  }

  private let current: Engine
  /// The place that shards leave; nil when all are in `current`.
  private let former: Engine?
  private let allowsAsynchronous: Bool

  /// Shards in files of a data folder.
  static func folder(_ path: String) -> RecordPlace {
    RecordPlace(current: .folder(path), former: nil, allowsAsynchronous: false)
  }

  private static let name = "records"
  private static let formerName = "records-from"
  private static let laxity = "allow-asynchronous"

  static let options = [
    Option(
      name, .secret,
      help: """
        The database of PostgreSQL that keeps the shards, for workers on several machines: \
        postgresql://USER@HOST1,HOST2/DATABASE, or libpq's keywords. Several clusters are NAME=postgresql://… between \
        spaces; one without a name is `main`. Needs --assets. Without it, files in <data>/shards.
        """),
    Option(
      formerName, .secret,
      help: """
        Where the shards have been until now: a data folder if --records is given, else an address as --records has. \
        The worker serves a shard there until it has moved it, one after the other.
        """),
    Option(
      laxity, .flag,
      help: """
        Accept a database whose commits wait for no synchronous standby. The loss of its machine can lose acknowledged \
        saves then.
        """),
  ]

  private init(current: Engine, former: Engine?, allowsAsynchronous: Bool) {
    self.current = current
    self.former = former
    self.allowsAsynchronous = allowsAsynchronous
  }

  /// - Parameter assets: the value of `--assets`; nil when it is not given.
  /// - Throws: `ExitError` when the options don't fit together.
  init(_ context: ServiceContext, data: String, assets: AssetPlace?) throws {
    let former = context.options.text(Self.formerName)
    allowsAsynchronous = context.options.flag(Self.laxity)
    guard let address = context.options.text(Self.name) else {
      if allowsAsynchronous, former == nil {
        throw ExitError(.configuration, "--\(Self.laxity) is about the database of --\(Self.name), which is not given.")
      }
      current = .folder(data)
      self.former = try former.map {
        .clusters(try Self.alone(try Self.clusters($0, of: Self.formerName), of: Self.formerName))
      }
      return
    }
    let clusters = try Self.clusters(address, of: Self.name)
    current = .clusters(clusters)
    if former != nil { _ = try Self.alone(clusters, of: Self.name) }
    if former.map({ ClusterAddress.list($0) != nil }) == true {
      throw ExitError(
        .configuration, "--\(Self.formerName) is a database like --\(Self.name): one of them is a folder.")
    }
    self.former = former.map { .folder($0) }
    if assets == nil {
      throw ExitError(
        .configuration,
        """
        --\(Self.name) is given and --assets is not: a worker on another machine could not read the assets. Give a \
        bucket, or a folder that all machines mount.
        """)
    }
    do throws(AssetError) {
      try Folder.make(data)
    } catch {
      throw ExitError(.io, "The data folder \(data) can't be made: \(error.reason)")
    }
  }

  /// The clusters of `--records-from`, or those that it fills. Before a move all shards are in the main cluster, as a
  /// folder's are.
  private static func alone(_ clusters: [ClusterAddress], of option: String) throws -> [ClusterAddress] {
    if clusters.map(\.name) == [ClusterAddress.main] { return clusters }
    throw ExitError(
      .configuration,
      """
      --\(option) must have one cluster, named \(ClusterAddress.main) or without a name, as long as --\(formerName) is \
      given. Move shards between clusters before or afterwards.
      """)
  }

  private static func clusters(_ text: String, of option: String) throws -> [ClusterAddress] {
    guard let clusters = ClusterAddress.list(text) else {
      throw ExitError(
        .configuration,
        """
        --\(option) is no address of PostgreSQL, such as postgresql://aquifer@db1,db2/aquifer, and no list of clusters \
        of different names, such as main=postgresql://db1/aquifer west=postgresql://db2/aquifer.
        """)
    }
    return clusters
  }

  /// The names of the clusters of `--records`; nil for shards in files.
  static func clusterNames(_ options: Options) -> [String]? {
    options.text(name).flatMap { ClusterAddress.list($0)?.map(\.name) }
  }

  /// The data folder if it belongs to the installation. A machine's own is compared with nothing.
  func claims(keys: KeyRing) -> [(kind: DataFolders.Kind, place: AssetPlace)] {
    if case .folder(let path) = current { [(.data, .folder(path, keys: keys))] } else { [] }
  }

  /// - Parameter log: gets each damaged record that is passed over, and each shard that has moved.
  func store(
    shardCount: Int, assets: any AssetStore, keys: KeyRing, installation: InstallationID, options: StoreOptions,
    log: Log
  ) throws(StoreError) -> any RecordStore {
    func configuration(_ cluster: ClusterAddress) -> PostgreSQLConfiguration {
      var configuration = PostgreSQLConfiguration(
        address: cluster.address, assets: assets, keys: keys, installation: installation, options: options)
      configuration.allowsAsynchronous = allowsAsynchronous
      return configuration
    }
    func place(_ engine: Engine) throws(StoreError) -> ShardPlace {
      switch engine {
      case .folder(let data):
        return .files(
          SQLiteConfiguration(
            directory: data + "/shards", assets: assets, keys: keys, installation: installation, options: options))
      case .clusters(let clusters):
        guard let first = clusters.first, clusters.count == 1 else {
          throw .io("shards move between a folder and one cluster, not \(clusters.count)")
        }
        return .database(configuration(first))
      }
    }
    let problem: @Sendable (String) -> Void = { log.error("a damaged record was skipped", ["problem": .text($0)]) }
    let report: @Sendable (String) -> Void = { log.info("a shard moves", ["news": .text($0)]) }
    if let former {
      return try MovingRecordStore(
        from: place(former), to: place(current), shardCount: shardCount, problem: problem, report: report)
    }
    if case .clusters(let clusters) = current {
      return try ClusteredRecordStore(
        Dictionary(uniqueKeysWithValues: clusters.map { ($0.name, configuration($0)) }), shardCount: shardCount,
        problem: problem, report: report)
    }
    return try place(current).store(shardCount: shardCount, report: problem)
  }
}
