// The rows of a shard as values.

public import Records

/// A database's row.
public struct StoredDatabase: Hashable, Sendable {
  public let key: Int64
  public let id: DatabaseID
  /// Random, drawn when the row was made, and again when the database began anew; part of every token.
  public internal(set) var incarnation: UInt64
  /// The last sequence number given out in this database: one ordered sequence over all its zones.
  public internal(set) var sequence: Int64
  /// 0 until somebody subscribes to something of the database, then another random number at every change of its subscriptions, also
  /// when none is left: tells whether what is known of them still holds.
  public internal(set) var subscriptionEdition: UInt64
  /// What its live records count for (`Record.countedByteCount`), the assets they use included: an asset counts for every use.
  public internal(set) var byteCount: Int64
  /// How often its environment had been reset when the database was made or last began anew.
  public internal(set) var generation: Int64
  /// What `placements` knows; `untracked` until the first mirrored store is made.
  public internal(set) var placementState: PlacementState
  /// Whether an object of it may be in another zone than the default ones: where none is nobody need ask.
  public var hasPlacements: Bool { placementState == .noted || placementState == .filling }
  /// Whether something of it is or was ever shared: where nothing was nobody need ask.
  public internal(set) var hasShares: Bool
  /// The last number given to an event of one of its stores, and to a conflict: nobody learns from his own how busy other databases are.
  var lastEventNumber: Int64
  var lastConflictNumber: Int64
  /// Sequences after the lower bound and up to the upper one were never given out: restores from backups went past them.
  var gap: Range<Int64>

  public init(
    key: Int64, id: DatabaseID, incarnation: UInt64, sequence: Int64, subscriptionEdition: UInt64 = 0, byteCount: Int64 = 0, generation: Int64 = 0,
    placementState: PlacementState = .untracked, hasShares: Bool = false
  ) {
    self.init(
      key: key, id: id, incarnation: incarnation, sequence: sequence, subscriptionEdition: subscriptionEdition, byteCount: byteCount, generation: generation,
      placementState: placementState, hasShares: hasShares, lastEventNumber: 0, lastConflictNumber: 0, gap: 0..<0)
  }

  init(
    key: Int64, id: DatabaseID, incarnation: UInt64, sequence: Int64, subscriptionEdition: UInt64, byteCount: Int64, generation: Int64,
    placementState: PlacementState, hasShares: Bool, lastEventNumber: Int64, lastConflictNumber: Int64, gap: Range<Int64>
  ) {
    self.gap = gap
    self.lastEventNumber = lastEventNumber
    self.lastConflictNumber = lastConflictNumber
    self.generation = generation
    self.placementState = placementState
    self.hasShares = hasShares
    self.key = key
    self.id = id
    self.incarnation = incarnation
    self.sequence = sequence
    self.subscriptionEdition = subscriptionEdition
    self.byteCount = byteCount
  }

  /// How many sequences were given out up to one: what is ahead of somebody is counted in these.
  public func stepCount(through sequence: Int64) -> Int64 {
    if sequence <= gap.lowerBound { return sequence }
    return gap.lowerBound + max(sequence - gap.upperBound, 0)
  }
}

/// A zone's row. A deleted zone keeps its row (and its place in the database feed) until it is made again, which gives it a new `key`.
public struct StoredZone: Hashable, Sendable {
  public let key: Int64
  public let databaseKey: Int64
  public let zoneName: String
  /// Random, drawn when the zone was made; a zone made again gets another.
  public let incarnation: UInt64
  /// The sequence number of the last change in this zone, its making and its deletion included.
  public let sequence: Int64
  public let isDeleted: Bool
  /// Why a zone of this name was deleted last, and at which sequence, also when it was made again since; 0: none ever was.
  public let end: ZoneEnd
  public let endSequence: Int64

  public init(
    key: Int64, databaseKey: Int64, zoneName: String, incarnation: UInt64, sequence: Int64, isDeleted: Bool, end: ZoneEnd = .deleted, endSequence: Int64 = 0
  ) {
    self.key = key
    self.databaseKey = databaseKey
    self.zoneName = zoneName
    self.incarnation = incarnation
    self.sequence = sequence
    self.isDeleted = isDeleted
    self.end = end
    self.endSequence = endSequence
  }

  /// The row after something of the zone was stored at `sequence`.
  public func advanced(to sequence: Int64) -> StoredZone {
    StoredZone(
      key: key, databaseKey: databaseKey, zoneName: zoneName, incarnation: incarnation, sequence: max(self.sequence, sequence), isDeleted: isDeleted,
      end: end, endSequence: endSequence)
  }

  /// The row after the zone was deleted at `sequence`.
  func ended(as end: ZoneEnd, at sequence: Int64) -> StoredZone {
    StoredZone(
      key: key, databaseKey: databaseKey, zoneName: zoneName, incarnation: incarnation, sequence: sequence, isDeleted: true, end: end, endSequence: sequence)
  }
}

/// A record's row: one per record name ever used in the zone, with its latest state (the change log is the index on `sequence`).
public struct StoredRecord: Hashable, Sendable {
  /// For a tombstone: `recordType` and stamps of the record that was, and those of its fields that its writer left (`ZoneWriter`).
  public var record: Record
  public var isDeleted: Bool
  /// The commit that wrote it: the change tag, and its place in the zone's feed.
  public var sequence: Int64
  /// The mirrored store (its `key`) whose export made the latest change; 0 for anybody else (record plane, the server itself).
  public var origin: Int64
  /// The sequence of the latest change by anybody but `origin`; 0 when there was none. With it a store's own echo is told
  /// apart from others' edits to the same record (H9, docs/protocol/mirror-api.md#changes).
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
  /// What binds the two: `none` for relationships and link records, too.
  public let action: Reference.Action

  public init(field: String, target: String, action: Reference.Action = .none) {
    self.field = field
    self.target = target
    self.action = action
  }

  /// Whether tombstones have it, too: what hangs from a deleted record hangs from its parent.
  var isOfTombstones: Bool { field == ReservedName.parentReference }
}

/// A source found by its target.
public struct IncomingReference: Hashable, Sendable {
  public let field: String
  public let source: String
  public let action: Reference.Action

  public init(field: String, source: String, action: Reference.Action = .none) {
    self.field = field
    self.source = source
    self.action = action
  }

  /// The order of `references(to:in:)`.
  func precedes(_ other: IncomingReference) -> Bool {
    if field != other.field { return field.precedes(other.field) }
    if source != other.source { return source.precedes(other.source) }
    return action.rawValue < other.action.rawValue
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
  /// Objects whose changes are held back (`StoredQuarantine`).
  public internal(set) var quarantinedCount: Int
  /// Steps of the transaction after `exportedTransactionNumber` that are exported, too (`ExportSteps` of Mirroring).
  public var exportedStepCount: Int
  /// Where the import token stood that the client presented last: it has everything up to there. 0: it presented none.
  public var importedSequence: Int64
  /// The number of the store's lease, which its holder's calls name; 0: nobody ever took one.
  public var lease: Int64
  /// Where the identifiers of its purged transactions are (`SettledTransaction`): the key of the first store of this identifier and user.
  public internal(set) var lineage: Int64
  /// Identifiers of transactions up to this number are forgotten, and when the last of them was appended (milliseconds since 1970); 0: none is.
  public internal(set) var forgottenTransactionNumber: Int64
  public internal(set) var forgottenAt: Int64

  public init(
    key: Int64, identifier: String, databaseKey: Int64, incarnation: UInt64, userRecordName: String, scope: DatabaseScope, modelHash: String,
    configuration: String?, deviceName: String?, createdAt: Int64, lastTransactionNumber: Int64, exportedTransactionNumber: Int64,
    purgedTransactionNumber: Int64, quarantinedCount: Int = 0, exportedStepCount: Int = 0, importedSequence: Int64 = 0,
    lease: Int64 = 0, lineage: Int64? = nil, forgottenTransactionNumber: Int64 = 0, forgottenAt: Int64 = 0
  ) {
    self.key = key
    self.lineage = lineage ?? key
    self.forgottenTransactionNumber = forgottenTransactionNumber
    self.forgottenAt = forgottenAt
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
    self.quarantinedCount = quarantinedCount
    self.exportedStepCount = exportedStepCount
    self.importedSequence = importedSequence
    self.lease = lease
  }

  /// The row with what may vary as `other` has it.
  func updated(to other: StoredMirror) -> StoredMirror {
    StoredMirror(
      key: key, identifier: identifier, databaseKey: databaseKey, incarnation: incarnation, userRecordName: other.userRecordName, scope: other.scope,
      modelHash: other.modelHash, configuration: other.configuration, deviceName: other.deviceName, createdAt: other.createdAt,
      lastTransactionNumber: other.lastTransactionNumber, exportedTransactionNumber: other.exportedTransactionNumber,
      purgedTransactionNumber: other.purgedTransactionNumber, quarantinedCount: quarantinedCount, exportedStepCount: other.exportedStepCount,
      importedSequence: other.importedSequence, lease: other.lease, lineage: lineage, forgottenTransactionNumber: forgottenTransactionNumber,
      forgottenAt: forgottenAt)
  }

  /// The row of a store that begins anew: nothing of its history is kept, and nothing is imported.
  func renewed(incarnation: UInt64) -> StoredMirror {
    StoredMirror(
      key: key, identifier: identifier, databaseKey: databaseKey, incarnation: incarnation, userRecordName: userRecordName, scope: scope,
      modelHash: modelHash, configuration: configuration, deviceName: deviceName, createdAt: createdAt, lastTransactionNumber: lastTransactionNumber,
      exportedTransactionNumber: lastTransactionNumber, purgedTransactionNumber: lastTransactionNumber, quarantinedCount: quarantinedCount, lease: lease,
      lineage: lineage, forgottenTransactionNumber: forgottenTransactionNumber, forgottenAt: forgottenAt)
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
  /// Whether it has values of encrypted attributes: then it rests sealed (R7).
  public let isEncrypted: Bool

  public init(number: Int64, transactionID: String, author: String?, appendedAt: Int64, payload: [UInt8], isEncrypted: Bool = false) {
    self.number = number
    self.transactionID = transactionID
    self.author = author
    self.appendedAt = appendedAt
    self.payload = payload
    self.isEncrypted = isEncrypted
  }
}

/// A mirroring event's row (V1).
public struct StoredEvent: Hashable, Sendable {
  public enum Kind: Int, Hashable, Sendable {
    case setup = 0
    case `import` = 1
    case export = 2
  }

  /// How many events of a mirror a store keeps at least.
  public static let keptCount = 1000
  /// Old ones are looked for at events whose number is a multiple of this: looking at each would cost more than storing it.
  static let pruningInterval: Int64 = 64

  /// Ascending within the database; the token of `events?after=`. 0 before it is stored, another one when it is stored again (its end).
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

/// How much a shard holds, for `status`: live records, live zones.
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

/// How often a figure that the store reports to `/metrics` fell into each of some ranges.
public struct StoreDistribution: Hashable, Sendable {
  /// With its unit last, e.g. `commit_duration_seconds`.
  public let name: String
  /// Upper bounds, ascending.
  public let bounds: [Double]
  /// One more than bounds: the last is for what is larger than all. Not accumulated.
  public private(set) var counts: [UInt64]
  /// Of all values.
  public private(set) var sum = 0.0

  public init(name: String, bounds: [Double]) {
    self.name = name
    self.bounds = bounds
    counts = Array(repeating: 0, count: bounds.count + 1)
  }

  mutating func note(_ value: Double) {
    counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += 1
    sum += value
  }

  /// Adds another shard's; both have the same bounds.
  public mutating func add(_ other: StoreDistribution) {
    precondition(bounds == other.bounds, "\(name) and \(other.name) have different bounds")
    for index in counts.indices { counts[index] += other.counts[index] }
    sum += other.sum
  }
}
