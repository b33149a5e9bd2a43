// The stores under test, and the rows that tests write.

import Assets
import Crypto
import InMemoryRecordStore
import Indexing
import PrivateCluster
import RecordStore
import Records
import Synchronization
import Testing

/// The implementations of the store protocol.
enum StoreKind: String, CaseIterable, Sendable {
  case inMemory, sqlite, postgreSQL

  /// The engines whose writer is a thread of its own.
  static let queued: [StoreKind] = [.sqlite, .postgreSQL]
}

/// A store with its folder and assets.
struct World: Sendable {
  let store: any RecordStore
  private let folder: TemporaryFolder?
  /// The configuration of the PostgreSQL engine; nil for the others.
  private(set) var postgreSQL: PostgreSQLConfiguration?
  var path: String { folder?.path ?? "" }

  init(_ kind: StoreKind, shardCount: Int = 2, options: SQLiteRecordStore.Options = .init()) throws {
    let incarnations = Counter(1000)
    switch kind {
    case .inMemory:
      folder = nil
      store = InMemoryRecordStore(
        shardCount: shardCount, makeIncarnation: { incarnations.next() }, now: { 1000 },
        keepsPastStates: options.keepsPastStates)
    case .sqlite:
      let folder = try TemporaryFolder()
      self.folder = folder
      store = try SQLiteRecordStore(
        SQLiteConfiguration(
          directory: folder.path, keys: try KeyRing(parsing: String(repeating: "a", count: 64)), options: options),
        shardCount: shardCount,
        makeIncarnation: { incarnations.next() }, now: { 1000 })
    case .postgreSQL:
      folder = nil
      let configuration = try Self.postgreSQL(
        keys: try KeyRing(parsing: String(repeating: "a", count: 64)), options: options)
      postgreSQL = configuration
      store = try PostgreSQLRecordStore(
        configuration, shardCount: shardCount, makeIncarnation: { incarnations.next() }, now: { 1000 })
    }
  }

  /// Shards in schemas of their own, in the cluster of all tests.
  static func postgreSQL(
    assets: (any AssetStore)? = nil, keys: KeyRing = KeyRing(), options: StoreOptions = .init()
  ) throws -> PostgreSQLConfiguration {
    var configuration = PostgreSQLConfiguration(
      address: try PrivateCluster.shared.get().address, assets: assets, keys: keys, options: options)
    configuration.schemaPrefix = "world_\(schemas.next())_"
    // Tests hold writers up, and machines that run them are busy.
    configuration.releaseLimit = .seconds(60)
    configuration.bodyLimit = .seconds(60)
    configuration.allowsAsynchronous = true
    return configuration
  }

  private static let schemas = Counter(0)
}

/// Runs `body` with shard 0 of a new store, and closes it.
func withShard(
  _ kind: StoreKind, options: SQLiteRecordStore.Options = .init(), _ body: (any ShardStore) async throws -> Void
) async throws {
  let world = try World(kind, options: options)
  let shard = try await world.store.open(shard: 0)
  do {
    try await body(shard)
  } catch {
    await shard.close()
    throw error
  }
  await shard.close()
}

final class Counter: Sendable {
  private let value: Mutex<UInt64>
  init(_ start: UInt64) { value = Mutex(start) }
  func next() -> UInt64 {
    value.withLock {
      $0 += 1
      return $0
    }
  }
}

extension ShardStore {
  /// Runs one body and waits until it is durable.
  func write<Value: Sendable>(_ body: @escaping @Sendable (any ShardTransaction) throws -> Value) async throws -> Value
  {
    try await enqueue(body).value
  }

  /// Makes empty commits until every index is ready and every object noted: a slice of the fill follows each commit.
  func settleIndexes() async throws {
    for _ in 0..<100_000 {
      let isSettled = try await read { snapshot in
        try snapshot.indexes(afterKey: 0, limit: 1000).allSatisfy(\.isReady)
          && snapshot.databases(afterKey: 0, limit: 1000).allSatisfy { $0.placementState != .filling }
      }
      if isSettled { return }
      try await write { _ in }
    }
    Issue.record("an index was never ready, or an object never noted")
  }
}

/// A database and a zone to write to.
struct Place: Sendable {
  let database: Int64
  let zone: Int64

  init(database: Int64, zone: Int64) {
    self.database = database
    self.zone = zone
  }

  init(in shard: any ShardStore, zone zoneName: String = "notes", owner: String = "ada") async throws {
    let (database, zone) = try await shard.write { transaction in
      let database = try transaction.makeDatabase(Sample.database(owner)).key
      return (database, try transaction.makeZone(named: zoneName, in: database).key)
    }
    self.database = database
    self.zone = zone
  }
}

enum Sample {
  static let titles = FieldIndex(recordType: "CD_Note", key: .field("CD_title"), kind: .value)

  static func database(_ owner: String) -> DatabaseID {
    guard let container = ContainerID(rawValue: "iCloud.org.example.notes") else {
      fatalError("the sample container's name is valid")
    }
    return DatabaseID(container: container, environment: .development, owner: owner)
  }

  static func note(_ name: String, type: String = "CD_Note", title: String = "a title", at timestamp: Int64 = 1)
    -> Record
  {
    Record(
      recordName: name, recordType: type, fields: ["CD_entityName": .string("Note"), "CD_title": .string(title)],
      created: Stamp(timestamp: timestamp, userRecordName: "ada", deviceID: "phone"),
      modified: Stamp(timestamp: timestamp + 1, userRecordName: "bob"))
  }

  static func uuid(_ number: Int) -> String {
    let digits = String(number, radix: 16, uppercase: true)
    return "6F0C2E61-4B7D-4C5E-8E1B-" + String(repeating: "0", count: 12 - digits.count) + digits
  }
}

extension ShardTransaction {
  /// Stores a live record at the next sequence number.
  @discardableResult func save(
    _ record: Record, in place: Place, references: [OutgoingReference] = [], origin: Int64 = 0, others: Int64 = 0
  ) throws -> StoredRecord {
    let stored = StoredRecord(
      record: record, isDeleted: false, sequence: try nextSequence(in: place.database), origin: origin,
      sequenceOfOthers: others)
    try put(
      stored, in: place.zone, references: references,
      isNew: try self.record(named: record.recordName, in: place.zone) == nil)
    return stored
  }

  /// Replaces a record by a tombstone.
  @discardableResult func delete(_ recordName: String, in place: Place) throws -> StoredRecord? {
    guard var stored = try record(named: recordName, in: place.zone) else { return nil }
    stored.record.fields = Fields()
    stored.isDeleted = true
    stored.sequence = try nextSequence(in: place.database)
    try put(stored, in: place.zone, references: [], isNew: false)
    return stored
  }
}
