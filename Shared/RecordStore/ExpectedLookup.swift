// The rows that a body is going to look up, which an engine can fetch for many bodies at once.

public import Records

/// A row that a body is going to look up. An engine that reaches its rows across a network fetches those of all waiting
/// bodies together, before the bodies run. What a body sees is the same without it.
public enum ExpectedLookup: Hashable, Sendable {
  /// A record by its name.
  case record(String, zone: String, database: DatabaseID)
  /// Whether a name has a record, and of how many bytes (`ShardSnapshot.presence`, `recordByteCount`). Of a record that
  /// is fetched as well, that answers it.
  case presence(String, zone: String, database: DatabaseID)
  /// The answer to an earlier request, by its idempotency key.
  case outcome(String)
  /// The changes of a zone behind a sequence, as many as a read asks for. Fetched for reads only.
  case changes(zone: String, database: DatabaseID, after: Int64, limit: Int, byteLimit: Int = .max)
  /// The number of a transaction in the history of a store.
  case transaction(String, mirror: Int64)
  /// A zone by its name, which nobody may have made yet.
  case zone(String, database: DatabaseID)
  /// The number of a database's live zones.
  case liveZoneCount(DatabaseID)
  /// A user's accesses to a zone. Fetched in a database with shares only.
  case members(String, zone: String, database: DatabaseID)
  /// A share by the name of its record.
  case share(String, zone: String, database: DatabaseID)
  /// The share of a hierarchy by the name of its root. Fetched in a database with shares only.
  case shareOfRoot(String, zone: String, database: DatabaseID)
  /// The record that has a short GUID.
  case shortGUID(String)
}

/// A body for the writer of a shard, and the rows that it is going to look up.
public struct AnnouncedBody<Value: Sendable>: Sendable {
  let lookups: @Sendable () -> [ExpectedLookup]
  let body: @Sendable (any ShardTransaction) throws -> Value

  public init(
    expecting lookups: @escaping @Sendable () -> [ExpectedLookup],
    _ body: @escaping @Sendable (any ShardTransaction) throws -> Value
  ) {
    self.lookups = lookups
    self.body = body
  }
}
