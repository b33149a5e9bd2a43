// Reads the place of shards: files of the data folder, or a database that workers on every machine reach.

import Assets
import Crypto
import RecordStore
import ServiceKit

/// `--records URL`, read once when the process starts.
enum RecordPlace: Sendable {
  /// The data folder, which all workers of the installation share.
  case folder(String)
  /// PostgreSQL. The data folder is the machine's own and holds nothing that others need.
  case database(address: String, allowsAsynchronous: Bool)

  private static let name = "records"
  private static let laxity = "allow-asynchronous"

  static let options = [
    Option(
      name, .secret,
      help: """
        The database of PostgreSQL that keeps the shards, for workers on several machines: \
        postgresql://USER@HOST1,HOST2/DATABASE, or libpq's keywords. Needs --assets. Without it, files in <data>/shards.
        """),
    Option(
      laxity, .flag,
      help: """
        Accept a database whose commits wait for no synchronous standby. The loss of its machine can lose acknowledged \
        saves then.
        """),
  ]

  /// - Parameter assets: the value of `--assets`; nil when it is not given.
  /// - Throws: `ExitError` when the options don't fit together.
  init(_ context: ServiceContext, data: String, assets: AssetPlace?) throws {
    let allowsAsynchronous = context.options.flag(Self.laxity)
    guard let address = context.options.text(Self.name) else {
      if allowsAsynchronous {
        throw ExitError(.configuration, "--\(Self.laxity) is about the database of --\(Self.name), which is not given.")
      }
      self = .folder(data)
      return
    }
    guard PostgreSQLConfiguration.isAddress(address) else {
      throw ExitError(
        .configuration,
        "--\(Self.name) is no address of PostgreSQL, such as postgresql://aquifer@db1,db2/aquifer."
      )
    }
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
    self = .database(address: address, allowsAsynchronous: allowsAsynchronous)
  }

  /// The data folder if it belongs to the installation. A machine's own is compared with nothing.
  func claims(keys: KeyRing) -> [(kind: DataFolders.Kind, place: AssetPlace)] {
    if case .folder(let path) = self { [(.data, .folder(path, keys: keys))] } else { [] }
  }

  /// - Parameter report: gets each damaged record that is passed over.
  func store(
    shardCount: Int, assets: any AssetStore, keys: KeyRing, installation: InstallationID, options: StoreOptions,
    report: @escaping @Sendable (_ problem: String) -> Void
  ) throws(StoreError) -> any RecordStore {
    switch self {
    case .folder(let data):
      return try SQLiteRecordStore(
        SQLiteConfiguration(
          directory: data + "/shards", assets: assets, keys: keys, installation: installation, options: options),
        shardCount: shardCount, report: report)
    case .database(let address, let allowsAsynchronous):
      var configuration = PostgreSQLConfiguration(
        address: address, assets: assets, keys: keys, installation: installation, options: options)
      configuration.allowsAsynchronous = allowsAsynchronous
      return try PostgreSQLRecordStore(configuration, shardCount: shardCount, report: report)
    }
  }
}
