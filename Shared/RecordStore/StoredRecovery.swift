// What a shard keeps of a mirrored store's imports and recoveries: rows that no save writes.

public import Records

/// How far a store's client has come with what it was told, beside its position.
public struct StoredSyncState: Hashable, Sendable {
  /// Ends of zones up to this sequence are none of the store's: it began, or was reset, after them.
  public var sinceSequence: Int64 = 0
  /// Milliseconds since 1970: when the store's first import was complete; nil: it never was.
  public var firstImportAt: Int64?
  /// Resets since the last one that the client saw to its end.
  public var openResetCount = 0
  /// `ResetReason` of Mirroring, of the last reset.
  public var resetReason = 0
  /// Where the database stood at the last reset: the client's new copy is whole when it has come so far. 0: it was never reset.
  public var resetSequence: Int64 = 0
  /// How often the store's model was changed.
  public var modelEpoch: Int64 = 0
  /// The model and configuration before the last such change.
  public var previousModelHash: String?
  public var previousConfiguration: String?
  /// Until when the store's lease keeps others out: milliseconds since 1970 by the machine's steady clock, which nobody sets.
  public var leaseUntil: Int64 = 0
  /// What becomes of the store's objects when their zone ends, by reason, where the client asked for something (`ZonePolicy` of Mirroring).
  public var zonePolicies: [ZoneEnd: Int] = [:]

  public init() {}
}

/// A zone that ended, and with which a store waits for its user's decision, or has it.
public struct StoredZoneHold: Hashable, Sendable {
  /// Unique within the store.
  public let zoneName: String
  public var end: ZoneEnd
  /// The sequence of the end: a later one is another matter.
  public var endSequence: Int64
  /// Milliseconds since 1970.
  public var heldAt: Int64
  /// `ZonePolicy` of Mirroring; nil: nobody has decided.
  public var decision: Int?

  public init(zoneName: String, end: ZoneEnd, endSequence: Int64, heldAt: Int64, decision: Int? = nil) {
    self.zoneName = zoneName
    self.end = end
    self.endSequence = endSequence
    self.heldAt = heldAt
    self.decision = decision
  }
}

/// A record that an import left out because it can't be read: one row a record of a mirrored store.
public struct StoredUnimported: Hashable, Sendable {
  /// Ascending in the order rows were first made; 0 before it is stored.
  public var key: Int64
  public let mirror: Int64
  /// Of the zone's row.
  public let zone: Int64
  /// Unique within zone and mirror.
  public let name: String
  /// The entity, or the record type where no entity is known.
  public var entity: String
  /// `ServerErrorCode` as it is spelled.
  public var code: String
  /// Names the property; never a user's value.
  public var reason: String
  /// The change of the record that was left out.
  public var sequence: Int64
  /// Milliseconds since 1970: when it was first and last left out, and when it is tried again (`StoredQuarantine.never`: not by itself).
  public var firstAt: Int64
  public var lastAt: Int64
  public var attempts: Int
  public var dueAt: Int64

  public init(
    key: Int64 = 0, mirror: Int64, zone: Int64, name: String, entity: String, code: String, reason: String, sequence: Int64, firstAt: Int64, lastAt: Int64,
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

/// A record's row that is not what was written.
public struct DamagedRecord: Hashable, Sendable {
  /// As far as the row says it; it is not vouched for.
  public let recordName: String
  public let sequence: Int64
}

/// A page of a zone's changes with those that can't be read apart.
public struct ReadableChanges: Sendable {
  /// Ascending by sequence.
  public var records: [StoredRecord] = []
  /// As `records`.
  public var damaged: [DamagedRecord] = []

  /// How many rows were looked at.
  public var rowCount: Int { records.count + damaged.count }
}

/// Reads about imports and recoveries.
public protocol RecoverySnapshot: AnyObject {
  /// As `changes(in:after:limit:)`, passing over rows that are not what was written.
  func readableChanges(in zone: Int64, after sequence: Int64, limit: Int) throws -> ReadableChanges
  /// A new store's for one of which nothing was stored yet.
  func syncState(of mirror: Int64) throws -> StoredSyncState
  /// Ascending by zone name.
  func zoneHolds(of mirror: Int64) throws -> [StoredZoneHold]
  /// Records that the store's imports left out, ascending by key.
  func unimported(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredUnimported]
  /// Those that are to be tried again by then (milliseconds since 1970), ascending by that time and key.
  func unimported(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredUnimported]
}

/// Writes about imports and recoveries. Unknown mirrors throw `ContradictingWrite`.
public protocol RecoveryTransaction: RecoverySnapshot {
  func put(_ state: StoredSyncState, of mirror: Int64) throws
  /// Stores a hold in the place of the one of that zone, if there is one.
  func put(_ hold: StoredZoneHold, of mirror: Int64) throws
  /// Deleting what is not there changes nothing.
  func deleteZoneHold(of zoneName: String, _ mirror: Int64) throws
  /// Stores it in the place of the row of the same record, if there is one, whose key stays.
  func putUnimported(_ record: StoredUnimported) throws
  /// Does nothing for a record that was not left out.
  func removeUnimported(_ name: String, in zone: Int64, of mirror: Int64) throws
  /// Sets when records are to be tried again (nil: all that the store's imports left out); returns how many there are.
  func retryUnimported(_ names: [String]?, of mirror: Int64, at time: Int64) throws -> Int
  /// Lets a store begin anew under its key: with another incarnation, without history and consumers, and with its events and what is held
  /// back. What was not exported is gone with the history: export it first.
  /// - Returns: the row as it is now, with nothing imported.
  func resetMirror(_ mirror: Int64) throws -> StoredMirror
}
