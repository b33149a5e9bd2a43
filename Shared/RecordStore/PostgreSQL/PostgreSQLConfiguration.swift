// The configuration of the PostgreSQL engine: its cluster, its owner and keys.

public import Assets
public import Crypto
import PostgreSQL

/// Says where the engine keeps shards: each in a schema `shard_<n>` of one database.
public struct PostgreSQLConfiguration: Sendable {
  /// libpq's connection string. Can hold a password.
  public var address: String
  /// The keys that open and seal encrypted values.
  public var keys: KeyRing
  /// The store of asset files; nil counts assets without touching files.
  public var assets: (any AssetStore)?
  public var options: StoreOptions
  /// The owner of the shards. Shards of other installations are refused; nil skips the check.
  public var installation: InstallationID?
  /// How long an opening waits for the release of a shard whose owner still has a session. A frozen owner never
  /// releases it; the raised epoch keeps them from writing.
  public var releaseLimit = Duration.seconds(5)
  /// True when commits need no confirmation by a standby. The loss of the server can lose acknowledged ones then.
  public var allowsAsynchronous = false
  /// Begins the names of the schemas, so that several installations can share a database.
  public var schemaPrefix = "shard_"

  public init(
    address: String, assets: (any AssetStore)? = nil, keys: KeyRing = KeyRing(), installation: InstallationID? = nil,
    options: StoreOptions = StoreOptions()
  ) {
    self.address = address
    self.assets = assets
    self.options = options
    self.keys = keys
    self.installation = installation
  }

  /// True for libpq's connection strings and addresses (`postgresql://…`).
  public static func isAddress(_ text: String) -> Bool { SessionConfiguration.isAddress(text) }

  func schema(ofShard shard: Int) -> String { "\(schemaPrefix)\(shard)" }

  /// The server ends a writer's session whose body takes longer, because a hanging writer would keep others out.
  public var bodyLimit = Duration.seconds(5)

  func session(ofShard shard: Int) -> SessionConfiguration {
    var session = SessionConfiguration(
      address: address, schema: schema(ofShard: shard), name: "aquifer shard \(shard)")
    session.idleTransactionLimit = bodyLimit
    return session
  }
}

extension StoreError {
  /// The store's error for an error of PostgreSQL. A lost session damages no shard, and the caller may retry.
  init(_ error: PostgreSQLError, shard: Int) {
    let text = "shard \(shard): \(error.description)"
    switch error.kind {
    case .full: self = .full(text)
    case .cancelled: self = .tooSlow(shard: shard)
    case .crowded: self = .overloaded(shard: shard)
    case .connectionLost, .readOnly, .serialization, .unavailable, .unknownOutcome: self = .unreachable(text)
    default: self = .io(text)
    }
  }
}
