// The rows of a shard as values.

public import Records

public struct StoredDatabase: Hashable, Sendable {
  public let key: Int64
  public let id: DatabaseID
  /// Random, drawn when the row was made and at each reset of the database. Part of every token.
  public package(set) var incarnation: UInt64
  /// The last sequence number given out in this database. One sequence orders the changes of all its zones.
  public package(set) var sequence: Int64
  /// 0 until the first subscription to the database. Each change of its subscriptions sets another random number, also
  /// the removal of the last one, so that caches can be checked against it.
  public package(set) var subscriptionEdition: UInt64
  /// The sum of `Record.countedByteCount` over its live records. An asset counts for every use.
  public package(set) var byteCount: Int64
  /// The number of resets of its environment when the database was made or last reset.
  public package(set) var generation: Int64
  /// The state of `placements`; `untracked` until the first mirrored store is made.
  public package(set) var placementState: PlacementState
  /// True when an object of the database may be outside the default zones. If it is false, `placements` need not be
  /// read.
  public var hasPlacements: Bool { placementState == .noted || placementState == .filling }
  /// True when something of the database is or was shared. If it is false, shares need not be read.
  public package(set) var hasShares: Bool
  /// The last numbers given to an event of its stores and to a conflict. They belong to the database, so that they
  /// reveal nothing about other databases.
  package var lastEventNumber: Int64
  package var lastConflictNumber: Int64
  /// Restores from backups skipped the sequences above `lowerBound` up to and including `upperBound`.
  var gap: Range<Int64>

  public init(
    key: Int64, id: DatabaseID, incarnation: UInt64, sequence: Int64, subscriptionEdition: UInt64 = 0,
    byteCount: Int64 = 0, generation: Int64 = 0,
    placementState: PlacementState = .untracked, hasShares: Bool = false
  ) {
    self.init(
      key: key, id: id, incarnation: incarnation, sequence: sequence, subscriptionEdition: subscriptionEdition,
      byteCount: byteCount, generation: generation,
      placementState: placementState, hasShares: hasShares, lastEventNumber: 0, lastConflictNumber: 0, gap: 0..<0)
  }

  /// A database that is made.
  /// - Parameter number: its sequence, and its last number of an event and of a conflict.
  init(key: Int64, id: DatabaseID, incarnation: UInt64, beginningAt number: Int64) {
    self.init(
      key: key, id: id, incarnation: incarnation, sequence: number, subscriptionEdition: 0, byteCount: 0, generation: 0,
      placementState: .untracked, hasShares: false, lastEventNumber: number, lastConflictNumber: number,
      gap: 0..<number)
  }

  init(
    key: Int64, id: DatabaseID, incarnation: UInt64, sequence: Int64, subscriptionEdition: UInt64, byteCount: Int64,
    generation: Int64,
    placementState: PlacementState, hasShares: Bool, lastEventNumber: Int64, lastConflictNumber: Int64,
    gap: Range<Int64>
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

  /// The number of sequences given out up to `sequence`, for the distance between two positions.
  public func stepCount(through sequence: Int64) -> Int64 {
    if sequence <= gap.lowerBound { return sequence }
    return gap.lowerBound + max(sequence - gap.upperBound, 0)
  }
}

/// A zone's row. A deleted zone keeps its row (and its place in the database feed) until it is made again under another
/// `key`.
public struct StoredZone: Hashable, Sendable {
  public let key: Int64
  public let databaseKey: Int64
  public let zoneName: String
  /// Random, drawn when the zone was made. A zone that is made again gets another one.
  public let incarnation: UInt64
  /// The sequence number of the last change in this zone, including its creation and deletion.
  public let sequence: Int64
  public let isDeleted: Bool
  /// The reason and sequence of the latest deletion of a zone of this name, also after it was made again; sequence 0
  /// when there was none.
  public let end: ZoneEnd
  public let endSequence: Int64

  public init(
    key: Int64, databaseKey: Int64, zoneName: String, incarnation: UInt64, sequence: Int64, isDeleted: Bool,
    end: ZoneEnd = .deleted, endSequence: Int64 = 0
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

  /// The row after a change in the zone at `sequence`.
  public func advanced(to sequence: Int64) -> StoredZone {
    StoredZone(
      key: key, databaseKey: databaseKey, zoneName: zoneName, incarnation: incarnation,
      sequence: max(self.sequence, sequence), isDeleted: isDeleted,
      end: end, endSequence: endSequence)
  }

  /// The row after the zone's deletion at `sequence`.
  package func ended(as end: ZoneEnd, at sequence: Int64) -> StoredZone {
    StoredZone(
      key: key, databaseKey: databaseKey, zoneName: zoneName, incarnation: incarnation, sequence: sequence,
      isDeleted: true, end: end, endSequence: sequence)
  }
}

/// A record's row: one for each record name ever used in the zone, in its latest state. The index on `sequence` is the
/// change log.
public struct StoredRecord: Hashable, Sendable {
  /// A tombstone has the `recordType` and stamps of the deleted record, and the fields that its writer left
  /// (`ZoneWriter`).
  public var record: Record
  public var isDeleted: Bool
  /// The sequence of the change that wrote it: its change tag, and its place in the zone's feed.
  public var sequence: Int64
  /// The key of the mirrored store whose export made the latest change; 0 for other writers (record plane, the server
  /// itself).
  public var origin: Int64
  /// The sequence of the latest change by anybody but `origin`; 0 when there was none. With it a store's own echo is
  /// told apart from others' edits to the same record (H9, docs/protocol/mirror-api.md#changes).
  public var sequenceOfOthers: Int64

  public init(record: Record, isDeleted: Bool, sequence: Int64, origin: Int64, sequenceOfOthers: Int64) {
    self.record = record
    self.isDeleted = isDeleted
    self.sequence = sequence
    self.origin = origin
    self.sequenceOfOthers = sequenceOfOthers
  }
}

/// What a record's name stands for.
public enum RecordPresence: Hashable, Sendable {
  /// The name was never used.
  case unused
  case alive, tombstone
}

/// A pointer out of a record, indexed so that the sources of a target are found without a scan. To-one relationships,
/// both ends of a link record, and CloudKit references (with their action) have one.
public struct OutgoingReference: Hashable, Sendable {
  /// The field that points, e.g. `CD_photo` or `CD_recordNames`.
  public let field: String
  /// The name of the target record, in the same zone.
  public let target: String
  /// The action of the reference; `none` also for relationships and link records.
  public let action: Reference.Action

  public init(field: String, target: String, action: Reference.Action = .none) {
    self.field = field
    self.target = target
    self.action = action
  }

  /// True when tombstones keep the pointer as well, because the children of a deleted record stay below its parent.
  package var isOfTombstones: Bool { field == ReservedName.parentReference }
}

/// A pointer to a record, found through its target.
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
  package func precedes(_ other: IncomingReference) -> Bool {
    if field != other.field { return field.precedes(other.field) }
    if source != other.source { return source.precedes(other.source) }
    return action.rawValue < other.action.rawValue
  }
}

/// A mirrored store's row: one device's store of one database.
public struct StoredMirror: Hashable, Sendable {
  public let key: Int64
  /// The identifier that the client chose, unique within the database.
  public let identifier: String
  public let databaseKey: Int64
  /// Random, drawn when the store was made and at each reset. Part of history tokens.
  public let incarnation: UInt64
  public var userRecordName: String
  public var scope: DatabaseScope
  public var modelHash: String
  public var configuration: String?
  public var deviceName: String?
  /// Milliseconds since 1970.
  public var createdAt: Int64
  /// The number of the last transaction appended; 0 at first.
  public var lastTransactionNumber: Int64
  /// The number of the last transaction whose export is committed.
  public var exportedTransactionNumber: Int64
  /// Transactions up to this number were purged.
  public var purgedTransactionNumber: Int64
  /// The number of objects with held back changes (`StoredQuarantine`).
  public package(set) var quarantinedCount: Int
  /// The number of steps of the transaction after `exportedTransactionNumber` that are exported already (`ExportSteps`
  /// of Mirroring).
  public var exportedStepCount: Int
  /// The position of the import token that the client presented last. The client has everything up to it. 0 when it
  /// presented none.
  public var importedSequence: Int64
  /// The number of the store's lease, which its holder's calls name; 0 when no lease was ever taken.
  public var lease: Int64
  /// The key of the first store with this identifier and user. The identifiers of purged transactions are stored under
  /// it (`SettledTransaction`).
  public package(set) var lineage: Int64
  /// Identifiers of transactions up to this number are forgotten, and the time at which the last of them was appended
  /// (milliseconds since 1970); 0 when none is forgotten.
  public package(set) var forgottenTransactionNumber: Int64
  public package(set) var forgottenAt: Int64

  public init(
    key: Int64, identifier: String, databaseKey: Int64, incarnation: UInt64, userRecordName: String,
    scope: DatabaseScope, modelHash: String,
    configuration: String?, deviceName: String?, createdAt: Int64, lastTransactionNumber: Int64,
    exportedTransactionNumber: Int64,
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

  /// The row with the variable columns of `other`.
  package func updated(to other: StoredMirror) -> StoredMirror {
    StoredMirror(
      key: key, identifier: identifier, databaseKey: databaseKey, incarnation: incarnation,
      userRecordName: other.userRecordName, scope: other.scope,
      modelHash: other.modelHash, configuration: other.configuration, deviceName: other.deviceName,
      createdAt: other.createdAt,
      lastTransactionNumber: other.lastTransactionNumber, exportedTransactionNumber: other.exportedTransactionNumber,
      purgedTransactionNumber: other.purgedTransactionNumber, quarantinedCount: quarantinedCount,
      exportedStepCount: other.exportedStepCount,
      importedSequence: other.importedSequence, lease: other.lease, lineage: lineage,
      forgottenTransactionNumber: forgottenTransactionNumber,
      forgottenAt: forgottenAt)
  }

  /// The row of a store after a reset: without history, and with nothing imported.
  package func renewed(incarnation: UInt64) -> StoredMirror {
    StoredMirror(
      key: key, identifier: identifier, databaseKey: databaseKey, incarnation: incarnation,
      userRecordName: userRecordName, scope: scope,
      modelHash: modelHash, configuration: configuration, deviceName: deviceName, createdAt: createdAt,
      lastTransactionNumber: lastTransactionNumber,
      exportedTransactionNumber: lastTransactionNumber, purgedTransactionNumber: lastTransactionNumber,
      quarantinedCount: quarantinedCount, lease: lease,
      lineage: lineage, forgottenTransactionNumber: forgottenTransactionNumber, forgottenAt: forgottenAt)
  }
}

/// A history transaction's row. History encodes `payload` (`HistoryTransaction.encoded()`).
public struct StoredTransaction: Hashable, Sendable {
  public let number: Int64
  public let transactionID: String
  public let author: String?
  /// The server's clock at the append, in milliseconds since 1970.
  public let appendedAt: Int64
  public let payload: [UInt8]
  /// True if it has values of encrypted attributes: then it rests sealed (R7).
  public let isEncrypted: Bool

  public init(
    number: Int64, transactionID: String, author: String?, appendedAt: Int64, payload: [UInt8],
    isEncrypted: Bool = false
  ) {
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

  /// The least number of events that a mirror keeps.
  public static let keptCount = 1000
  /// Old events are removed only when an event's number is a multiple of this, because each removal costs more than
  /// storing an event.
  package static let pruningInterval: Int64 = 64

  /// Ascending within the database; the token of `events?after=`. 0 before the event is stored. It changes when the
  /// event ends.
  public var number: Int64
  public var identifier: String
  public var kind: Kind
  /// Milliseconds since 1970.
  public var startedAt: Int64
  public var endedAt: Int64?
  public var succeeded: Bool
  /// The error dictionary with its per-record list as JSON; nil without an error.
  public var errorJSON: [UInt8]?
  /// The numbers of records saved and deleted (export) or delivered (import).
  public var savedCount: Int
  public var deletedCount: Int

  public init(
    number: Int64 = 0, identifier: String, kind: Kind, startedAt: Int64, endedAt: Int64? = nil, succeeded: Bool = false,
    errorJSON: [UInt8]? = nil,
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
