// The configuration of the SQLite engine: its files, their owner and keys, and its limits.

public import Assets
public import Crypto

/// Says where and how the engine keeps shards: as files `shard-<n>.sqlite` (with `-wal` while open) and
/// `shard-<n>.lock` in one folder, beside a store of asset files.
public struct SQLiteConfiguration: Sendable {
  /// The folder of the files, made if it is missing. Must be on a local file system.
  public var directory: String
  /// The store of asset files; nil counts assets without touching files.
  public var assets: (any AssetStore)?
  /// The keys that open and seal encrypted values. Without one, such values are refused, and so are shards that contain
  /// some.
  public var keys: KeyRing
  /// The owner of the shards. Files of other installations are refused; nil skips the check.
  public var installation: InstallationID?
  public var options: SQLiteRecordStore.Options

  public init(
    directory: String, assets: (any AssetStore)? = nil, keys: KeyRing = KeyRing(), installation: InstallationID? = nil,
    options: SQLiteRecordStore.Options = SQLiteRecordStore.Options()
  ) {
    self.directory = directory
    self.assets = assets
    self.keys = keys
    self.installation = installation
    self.options = options
  }

  /// The configuration of an installation whose data folder is `data`.
  public init(data: String, keys: KeyRing, installation: InstallationID) {
    self.init(
      directory: data + "/shards", assets: AssetFolder(directory: data + "/assets", keys: keys), keys: keys,
      installation: installation)
  }

  func path(ofShard shard: Int) -> String { "\(directory)/shard-\(shard).sqlite" }
  func lockPath(ofShard shard: Int) -> String { "\(directory)/shard-\(shard).lock" }
}

extension SQLiteRecordStore {
  public typealias Options = StoreOptions
}
