// The state of a mirrored store's imports and recoveries, in rows that saves do not write.

public import Records

/// The progress of a store's client, besides its position.
public struct StoredSyncState: Hashable, Sendable {
  /// Ends of zones up to this sequence do not concern the store, which began or was reset after them.
  public var sinceSequence: Int64 = 0
  /// The time at which the store's first import was complete, in milliseconds since 1970; nil while it is not.
  public var firstImportAt: Int64?
  /// The number of resets since the last one that the client completed.
  public var openResetCount = 0
  /// `ResetReason` of Mirroring for the latest reset.
  public var resetReason = 0
  /// The database's sequence at the latest reset. The client's new copy is complete once it has reached it. 0 when
  /// there was no reset.
  public var resetSequence: Int64 = 0
  /// The number of changes of the store's model.
  public var modelEpoch: Int64 = 0
  /// The model and configuration before the latest such change.
  public var previousModelHash: String?
  public var previousConfiguration: String?
  /// The end of the time in which the store's lease excludes others, in milliseconds since 1970 by the machine's steady
  /// clock.
  public var leaseUntil: Int64 = 0
  /// The client's choices for the store's objects when their zone ends, by reason (`ZonePolicy` of Mirroring).
  public var zonePolicies: [ZoneEnd: Int] = [:]

  public init() {}
}

/// A zone that ended, and the user's pending or given decision about a store's objects in it.
public struct StoredZoneHold: Hashable, Sendable {
  /// Unique within the store.
  public let zoneName: String
  public var end: ZoneEnd
  /// The sequence of the end. A later end needs its own decision.
  public var endSequence: Int64
  /// The beginning of the hold, in milliseconds since 1970.
  public var heldAt: Int64
  /// `ZonePolicy` of Mirroring; nil while the decision is pending.
  public var decision: Int?

  public init(zoneName: String, end: ZoneEnd, endSequence: Int64, heldAt: Int64, decision: Int? = nil) {
    self.zoneName = zoneName
    self.end = end
    self.endSequence = endSequence
    self.heldAt = heldAt
    self.decision = decision
  }
}

/// A record that an import left out because it is unreadable. The store keeps one row for each record of a mirrored
/// store.
public struct StoredUnimported: Hashable, Sendable {
  /// Ascending in the order in which rows were first made; 0 before it is stored.
  public var key: Int64
  public let mirror: Int64
  /// The key of the zone's row.
  public let zone: Int64
  /// Unique within zone and mirror.
  public let name: String
  /// The entity, or the record type when the entity is unknown.
  public var entity: String
  /// The spelling of a `ServerErrorCode`.
  public var code: String
  /// Names the property, never a user's value.
  public var reason: String
  /// The sequence of the change that was left out.
  public var sequence: Int64
  /// The times of the first and the latest import that left it out, and of the next attempt (`StoredQuarantine.never`
  /// for none), in milliseconds since 1970.
  public var firstAt: Int64
  public var lastAt: Int64
  public var attempts: Int
  public var dueAt: Int64

  public init(
    key: Int64 = 0, mirror: Int64, zone: Int64, name: String, entity: String, code: String, reason: String,
    sequence: Int64, firstAt: Int64, lastAt: Int64,
    attempts: Int, dueAt: Int64
  ) {
    self.key = key
    self.mirror = mirror
    self.zone = zone
    self.name = name
    self.entity = entity
    self.code = code
    self.reason = reason
    self.sequence = sequence
    self.firstAt = firstAt
    self.lastAt = lastAt
    self.attempts = attempts
    self.dueAt = dueAt
  }
}

/// A record's row that differs from the written one.
public struct DamagedRecord: Hashable, Sendable {
  /// Read from the damaged row, so they may be wrong.
  public let recordName: String
  public let sequence: Int64
}

/// A page of a zone's changes, in which unreadable rows are separate.
public struct ReadableChanges: Sendable {
  /// Ascending by sequence.
  public var records: [StoredRecord] = []
  /// Ascending by sequence.
  public var damaged: [DamagedRecord] = []
  /// False when a limit ended the page, so that more may follow.
  public var isAtEnd: Bool

  /// The number of rows in the page.
  public var rowCount: Int { records.count + damaged.count }

  package init(records: [StoredRecord] = [], damaged: [DamagedRecord] = [], isAtEnd: Bool = false) {
    self.records = records
    self.damaged = damaged
    self.isAtEnd = isAtEnd
  }
}

/// A change of a record without the record.
public struct ChangeMark: Hashable, Sendable {
  public let sequence: Int64
  /// As in `StoredRecord`.
  public let origin: Int64
  public let sequenceOfOthers: Int64

  public init(sequence: Int64, origin: Int64, sequenceOfOthers: Int64) {
    self.sequence = sequence
    self.origin = origin
    self.sequenceOfOthers = sequenceOfOthers
  }
}

/// Reads of import and recovery state.
public protocol RecoverySnapshot: AnyObject {
  /// As `readChanges`, with damaged rows reported separately.
  func readableChanges(in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws -> ReadableChanges
  /// The changes that `readChanges` reads, without contents. Damaged rows are among them.
  func changeMarks(in zone: Int64, after sequence: Int64, limit: Int) throws -> [ChangeMark]
  /// The sequences of the first changes after `sequence` in a database's zones, by zone. Deleted zones and zones
  /// without such a change have none.
  func firstChanges(in database: Int64, after sequence: Int64) throws -> [Int64: Int64]
  /// The state of a store; the state of a new store when none is stored.
  func syncState(of mirror: Int64) throws -> StoredSyncState
  /// The holds of a store, ascending by zone name.
  func zoneHolds(of mirror: Int64) throws -> [StoredZoneHold]
  /// Holds of zones that ended at `sequence` or earlier, were decided as given, and have no placement of any object,
  /// ascending by the ends. None while the database's placements are being filled in.
  /// - Parameters:
  ///   - decisions: by the reason of the end.
  ///   - zoneName: of a zone that is left out.
  func emptyZoneHolds(
    of mirror: Int64, through sequence: Int64, decidedAs decisions: [ZoneEnd: Int], besides zoneName: String?,
    limit: Int
  ) throws -> [StoredZoneHold]
  /// The records that the store's imports left out, ascending by key.
  func unimported(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredUnimported]
  /// The records to be retried at `time` (milliseconds since 1970) or earlier, ascending by that time and key.
  func unimported(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredUnimported]
}

/// Writes of import and recovery state. Unknown mirrors throw `ContradictingWrite`.
public protocol RecoveryTransaction: RecoverySnapshot {
  func put(_ state: StoredSyncState, of mirror: Int64) throws
  /// Stores a hold, in place of the one of that zone.
  func put(_ hold: StoredZoneHold, of mirror: Int64) throws
  /// Deletes a hold. Does nothing when it does not exist.
  func deleteZoneHold(of zoneName: String, _ mirror: Int64) throws
  /// Stores a row, in place of the one of the same record, whose key stays.
  func putUnimported(_ record: StoredUnimported) throws
  /// Removes a row. Does nothing when it does not exist.
  func removeUnimported(_ name: String, in zone: Int64, of mirror: Int64) throws
  /// Sets the time at which records are retried (nil for all that the store's imports left out). Returns their number.
  func retryUnimported(_ names: [String]?, of mirror: Int64, at time: Int64) throws -> Int
  /// Resets a store under its key: gives it another incarnation and removes its history and consumers, but keeps its
  /// events and held back changes. Changes that were not exported are lost, so export them first.
  /// - Returns: the row after the reset, with nothing imported.
  func resetMirror(_ mirror: Int64) throws -> StoredMirror
}
