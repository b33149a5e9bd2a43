// What a conflict cost somebody, as the store keeps it until it is settled or too old: the journal of a database.

/// An entry of the journal, without what was lost.
public struct StoredConflict: Hashable, Sendable {
  /// Ascending within the shard in the order of the commits; 0 before it is stored.
  public var number: Int64
  public let databaseKey: Int64
  public let zoneName: String
  /// Of the zone, when it was written down: one of the same name that was made later is another one.
  public let zoneIncarnation: UInt64
  /// The object's ID.
  public let recordName: String
  public let entity: String
  /// `ConflictKind` of Mirroring.
  public let kind: Int
  /// `ConflictState` of Mirroring.
  public var state: Int
  /// Whose edit was lost, and the device it came from; empty where that is not known.
  public let userRecordName: String
  public let deviceID: String
  /// Milliseconds since 1970: when it was written down, and when somebody settled it.
  public let at: Int64
  public var settledAt: Int64?

  /// How many entries a database keeps of one user's at most, and how many bytes of what he lost, assets included. Those that are settled go
  /// first, and those that wait for a decision last; of each the oldest.
  public static let keptCount = 5000
  public static let keptByteCount = 268_435_456
  /// The state of an entry that waits for somebody's decision: no time takes it away.
  static let open = 0

  public init(
    number: Int64 = 0, databaseKey: Int64, zoneName: String, zoneIncarnation: UInt64 = 0, recordName: String, entity: String, kind: Int, state: Int,
    userRecordName: String, deviceID: String,
    at: Int64, settledAt: Int64? = nil
  ) {
    self.number = number
    self.databaseKey = databaseKey
    self.zoneName = zoneName
    self.zoneIncarnation = zoneIncarnation
    self.recordName = recordName
    self.entity = entity
    self.kind = kind
    self.state = state
    self.userRecordName = userRecordName
    self.deviceID = deviceID
    self.at = at
    self.settledAt = settledAt
  }
}

/// What a database keeps of one user's losses.
public struct ConflictUse: Hashable, Sendable {
  public var count: Int
  /// Of what was lost, its assets included.
  public var byteCount: Int64
  /// Entries that went because there were too many.
  public var evictedCount: Int

  public init(count: Int = 0, byteCount: Int64 = 0, evictedCount: Int = 0) {
    self.count = count
    self.byteCount = byteCount
    self.evictedCount = evictedCount
  }

  var isTooMuch: Bool { count > StoredConflict.keptCount || byteCount > StoredConflict.keptByteCount && count > 1 }
}

/// Which entries of a journal are meant; what is nil leaves all of them.
public struct ConflictFilter: Hashable, Sendable {
  public var recordName: String?
  public var state: Int?
  public var userRecordName: String?

  public init(recordName: String? = nil, state: Int? = nil, userRecordName: String? = nil) {
    self.recordName = recordName
    self.state = state
    self.userRecordName = userRecordName
  }
}
