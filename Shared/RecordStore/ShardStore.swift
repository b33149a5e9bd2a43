// The store protocol: everything durable of one shard, behind transactions that are committed in groups.

public import Records

/// What a store refuses; `reason` names the shard and what to do.
public enum StoreError: Error, Hashable, Sendable {
  /// Another process took the shard over: forget what is cached, answer "not mine" (design: fencing).
  case fenced(shard: Int, epoch: Int64)
  /// No space left; nothing was stored, reads go on, retry later.
  case full(String)
  /// A page, checksum or file is not what was written; the shard goes out of service.
  case corrupt(String)
  /// The shard was closed, or never opened here.
  case closed(shard: Int)
  /// Too much is waiting for this shard's writer.
  case overloaded(shard: Int)
  /// The file was written by a newer release.
  case newerFormat(found: Int, known: Int)
  case io(String)
}

/// The shards of one installation on this machine or engine.
public protocol RecordStore: Sendable {
  /// How many shards the installation was created with; never changes.
  var shardCount: Int { get }

  /// Takes shard `shard` over: waits until its previous owner has let go, then raises its epoch by one.
  /// - Throws: `StoreError`; nothing is held afterwards. A cancelled task stops waiting.
  func open(shard: Int) async throws -> any ShardStore
}

/// One open shard. All writing goes through one thread that commits what waits in groups (storage.md A2).
public protocol ShardStore: Sendable {
  var shard: Int { get }
  /// The fencing epoch this owner holds; checked in every commit.
  var epoch: Int64 { get }

  /// Queues `body` for the writer and returns at once; bodies run one at a time in the order they were queued.
  ///
  /// The body either returns, and is durable once `value` returns, or throws, and then left nothing behind; its neighbours in the
  /// group don't notice. A commit that fails throws `StoreError` to everybody in the group, and nothing of it is stored.
  func enqueue<Value: Sendable>(_ body: @escaping @Sendable (any ShardTransaction) throws -> Value) -> PendingCommit<Value>

  /// Runs `body` on a consistent snapshot that holds every commit acknowledged before the call.
  func read<Value: Sendable>(_ body: @escaping @Sendable (any ShardSnapshot) throws -> Value) async throws -> Value

  /// Finishes what was queued, checkpoints, and lets go of the shard. Later calls throw `closed`.
  func close() async

  /// Counters and gauges since opening, by metric name (without prefix), e.g. `commits_total`.
  var statistics: [StoreStatistic] { get }
}

/// A number the store reports to `/metrics`.
public struct StoreStatistic: Hashable, Sendable {
  /// With its unit last, e.g. `wal_bytes`; a name that ends in `_total` only ever grows.
  public let name: String
  public let value: Double

  public init(name: String, value: Double) {
    self.name = name
    self.value = value
  }
}

/// A write that has its place in the order, but is not yet durable.
public protocol CommitOutcome<Value>: Sendable {
  associatedtype Value: Sendable
  /// Returns once the write is durable.
  var value: Value { get async throws }
}
public typealias PendingCommit<Value> = any CommitOutcome<Value>

/// A database's row.
public struct StoredDatabase: Hashable, Sendable {
  public let key: Int64
  public let id: DatabaseID
  /// Random, drawn when the row was made; part of every token.
  public let incarnation: UInt64
  /// The last sequence number given out in this database: one ordered sequence over all its zones.
  public let sequence: Int64

  public init(key: Int64, id: DatabaseID, incarnation: UInt64, sequence: Int64) {
    self.key = key
    self.id = id
    self.incarnation = incarnation
    self.sequence = sequence
  }
}

/// A zone's row. A deleted zone keeps its row (and its place in the database feed) until it is made again.
public struct StoredZone: Hashable, Sendable {
  public let key: Int64
  public let databaseKey: Int64
  public let zoneName: String
  /// Random, drawn when the zone was made; a zone made again gets another.
  public let incarnation: UInt64
  /// The sequence number of the last change in this zone, its making and its deletion included.
  public let sequence: Int64
  public let isDeleted: Bool

  public init(key: Int64, databaseKey: Int64, zoneName: String, incarnation: UInt64, sequence: Int64, isDeleted: Bool) {
    self.key = key
    self.databaseKey = databaseKey
    self.zoneName = zoneName
    self.incarnation = incarnation
    self.sequence = sequence
    self.isDeleted = isDeleted
  }
}

/// A record's row: one per record name ever used in the zone, with its latest state (the change log is the index on `sequence`).
public struct StoredRecord: Hashable, Sendable {
  /// For a tombstone: no fields, `recordType` and stamps of the record that was.
  public var record: Record
  public var isDeleted: Bool
  /// The commit that wrote it: the change tag, and its place in the zone's feed.
  public var sequence: Int64
  /// The mirrored store (its `key`) whose export made the latest change; 0 for anybody else (record plane, the server itself).
  public var origin: Int64
  /// The sequence of the latest change by anybody but `origin`; 0 when there was none. With it a store's own echo is told
  /// apart from others' edits to the same record (H9, mirror-api `changes`).
  public var sequenceOfOthers: Int64

  public init(record: Record, isDeleted: Bool, sequence: Int64, origin: Int64, sequenceOfOthers: Int64) {
    self.record = record
    self.isDeleted = isDeleted
    self.sequence = sequence
    self.origin = origin
    self.sequenceOfOthers = sequenceOfOthers
  }
}

/// A pointer out of a record, kept in an index so that the sources of a target are found without a scan: to-one relationships,
/// both ends of a link record, and (with their action) CloudKit references.
public struct OutgoingReference: Hashable, Sendable {
  /// The field that points, e.g. `CD_photo` or `CD_recordNames`.
  public let field: String
  /// The record name pointed to, in the same zone.
  public let target: String

  public init(field: String, target: String) {
    self.field = field
    self.target = target
  }
}

/// A source found by its target.
public struct IncomingReference: Hashable, Sendable {
  public let field: String
  public let source: String

  public init(field: String, source: String) {
    self.field = field
    self.source = source
  }
}

/// A mirrored store's row: one device's store of one database.
public struct StoredMirror: Hashable, Sendable {
  public let key: Int64
  /// The client-chosen store identifier, unique within the database.
  public let identifier: String
  public let databaseKey: Int64
  /// Random, drawn at setup; part of history tokens.
  public let incarnation: UInt64
  public var userRecordName: String
  public var scope: DatabaseScope
  public var modelHash: String
  public var configuration: String?
  public var deviceName: String?
  /// Milliseconds since 1970.
  public var createdAt: Int64
  /// The number of the last transaction appended; 0 at the start.
  public var lastTransactionNumber: Int64
  /// The number of the last transaction whose export is committed.
  public var exportedTransactionNumber: Int64
  /// Transactions up to this number were purged.
  public var purgedTransactionNumber: Int64

  public init(
    key: Int64, identifier: String, databaseKey: Int64, incarnation: UInt64, userRecordName: String, scope: DatabaseScope, modelHash: String,
    configuration: String?, deviceName: String?, createdAt: Int64, lastTransactionNumber: Int64, exportedTransactionNumber: Int64,
    purgedTransactionNumber: Int64
  ) {
    self.key = key
    self.identifier = identifier
    self.databaseKey = databaseKey
    self.incarnation = incarnation
    self.userRecordName = userRecordName
    self.scope = scope
    self.modelHash = modelHash
    self.configuration = configuration
    self.deviceName = deviceName
    self.createdAt = createdAt
    self.lastTransactionNumber = lastTransactionNumber
    self.exportedTransactionNumber = exportedTransactionNumber
    self.purgedTransactionNumber = purgedTransactionNumber
  }
}

/// A history transaction's row; `payload` is encoded by History (`HistoryTransaction.encoded()`).
public struct StoredTransaction: Hashable, Sendable {
  public let number: Int64
  public let transactionID: String
  public let author: String?
  /// Milliseconds since 1970, the server's clock at the append.
  public let appendedAt: Int64
  public let payload: [UInt8]

  public init(number: Int64, transactionID: String, author: String?, appendedAt: Int64, payload: [UInt8]) {
    self.number = number
    self.transactionID = transactionID
    self.author = author
    self.appendedAt = appendedAt
    self.payload = payload
  }
}

/// A mirroring event's row (semantics section 11).
public struct StoredEvent: Hashable, Sendable {
  public enum Kind: Int, Hashable, Sendable {
    case setup = 0
    case `import` = 1
    case export = 2
  }

  /// Ascending within the shard; the token of `events?after=`. 0 before it is stored.
  public var number: Int64
  public var identifier: String
  public var kind: Kind
  /// Milliseconds since 1970.
  public var startedAt: Int64
  public var endedAt: Int64?
  public var succeeded: Bool
  /// JSON of the error dictionary with its per-record list, or nil.
  public var errorJSON: [UInt8]?
  /// Records saved and deleted (export), or delivered (import).
  public var savedCount: Int
  public var deletedCount: Int

  public init(
    number: Int64 = 0, identifier: String, kind: Kind, startedAt: Int64, endedAt: Int64? = nil, succeeded: Bool = false, errorJSON: [UInt8]? = nil,
    savedCount: Int = 0, deletedCount: Int = 0
  ) {
    self.number = number
    self.identifier = identifier
    self.kind = kind
    self.startedAt = startedAt
    self.endedAt = endedAt
    self.succeeded = succeeded
    self.errorJSON = errorJSON
    self.savedCount = savedCount
    self.deletedCount = deletedCount
  }
}

/// Reads of one consistent state. Lists are bounded by `limit` and in the order their comments give.
public protocol ShardSnapshot: AnyObject {
  func database(_ id: DatabaseID) throws -> StoredDatabase?
  func database(key: Int64) throws -> StoredDatabase?

  func zone(named zoneName: String, in database: Int64) throws -> StoredZone?
  func zone(key: Int64) throws -> StoredZone?
  /// Zones with a change after `sequence`, deleted ones included, ascending by sequence.
  func zones(in database: Int64, after sequence: Int64, limit: Int) throws -> [StoredZone]

  /// The record, or its tombstone.
  func record(named recordName: String, in zone: Int64) throws -> StoredRecord?
  /// Records and tombstones changed after `sequence`, ascending by sequence, each once with its latest state.
  func changes(in zone: Int64, after sequence: Int64, limit: Int) throws -> [StoredRecord]
  /// Live records of a type with names after `recordName`, ascending by record name.
  func records(ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRecord]
  /// Pointers to `target` from live records, ascending by (field, source).
  func references(to target: String, in zone: Int64) throws -> [IncomingReference]

  func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror?
  func mirror(key: Int64) throws -> StoredMirror?
  /// Stores with keys after `key`, ascending: for listings.
  func mirrors(afterKey key: Int64, limit: Int) throws -> [StoredMirror]
  /// Keys of stores with transactions that are not exported, ascending, after `key`.
  func mirrorsAwaitingExport(afterKey key: Int64, limit: Int) throws -> [Int64]

  func transaction(withID transactionID: String, of mirror: Int64) throws -> StoredTransaction?
  /// Ascending by number.
  func transactions(of mirror: Int64, after number: Int64, limit: Int) throws -> [StoredTransaction]
  /// Ascending by number.
  func events(of mirror: Int64, after number: Int64, kind: StoredEvent.Kind?, limit: Int) throws -> [StoredEvent]

  /// What an earlier request with this idempotency key was answered.
  func outcome(of idempotencyKey: String) throws -> [UInt8]?
  /// Live records and databases, zones, stores: for `status`.
  func counts() throws -> ShardCounts
}

public struct ShardCounts: Hashable, Sendable {
  public var databases: Int
  public var zones: Int
  public var records: Int
  public var mirrors: Int

  public init(databases: Int, zones: Int, records: Int, mirrors: Int) {
    self.databases = databases
    self.zones = zones
    self.records = records
    self.mirrors = mirrors
  }
}

/// Writes of one body; sees its own writes. A body that throws leaves nothing behind.
public protocol ShardTransaction: ShardSnapshot {
  /// The database, made with a random incarnation if it is new.
  func makeDatabase(_ id: DatabaseID) throws -> StoredDatabase
  /// Gives out the database's next sequence number (> all before it).
  func nextSequence(in database: Int64) throws -> Int64

  /// Makes a zone (or makes a deleted one again, with another incarnation and none of its records), at a new sequence number.
  /// An existing one is returned unchanged.
  func makeZone(named zoneName: String, in database: Int64) throws -> StoredZone
  /// Deletes a zone with all its records, at a new sequence number; the row stays for the database feed.
  func deleteZone(_ zone: Int64) throws

  /// Stores a record or tombstone under its name and sequence, replacing what was there, with the pointers out of it (none for a
  /// tombstone), and raises the zone's sequence. `isNew`: the caller has just seen that no row of that name exists.
  func put(_ record: StoredRecord, in zone: Int64, references: [OutgoingReference], isNew: Bool) throws

  func makeMirror(
    _ identifier: String, in database: Int64, userRecordName: String, scope: DatabaseScope, modelHash: String, configuration: String?,
    deviceName: String?, createdAt: Int64
  ) throws -> StoredMirror
  /// Stores everything of the row that can vary.
  func update(_ mirror: StoredMirror) throws
  /// Forgets the store with its history and events.
  func deleteMirror(_ mirror: Int64) throws
  /// Appends a transaction and raises the store's `lastTransactionNumber` to its number, which must be the next one.
  func append(_ transaction: StoredTransaction, to mirror: Int64) throws
  /// Deletes transactions up to `number` and records it; returns how many.
  func purgeTransactions(of mirror: Int64, through number: Int64) throws -> Int

  /// Stores a new event (`number` 0) or the end of an earlier one; returns its number.
  func put(_ event: StoredEvent, of mirror: Int64) throws -> Int64

  /// Remembers an answer under its idempotency key; `at`: milliseconds since 1970.
  func putOutcome(_ payload: [UInt8], of idempotencyKey: String, at: Int64) throws
  /// Forgets outcomes older than `cutoff` (milliseconds since 1970), at most `limit`; returns how many.
  func forgetOutcomes(before cutoff: Int64, limit: Int) throws -> Int
}
