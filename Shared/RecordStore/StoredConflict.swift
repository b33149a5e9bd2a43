// What a conflict cost somebody, as the store keeps it until it is settled or too old: the journal of a database.

/// An entry of the journal, without what was lost.
public struct StoredConflict: Hashable, Sendable {
  /// Ascending within the shard in the order of the commits; 0 before it is stored.
  public var number: Int64
  public let databaseKey: Int64
  public let zoneName: String
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

  /// How many entries a database keeps at most, and how many bytes of what was lost; the oldest go first.
  public static let keptCount = 10_000
  public static let keptByteCount = 268_435_456
  /// Too many are looked for at entries whose number is a multiple of this: looking at each would cost more than storing it.
  static let pruningInterval: Int64 = 64
  /// The state of an entry that waits for somebody's decision.
  static let open = 0

  public init(
    number: Int64 = 0, databaseKey: Int64, zoneName: String, recordName: String, entity: String, kind: Int, state: Int, userRecordName: String, deviceID: String,
    at: Int64, settledAt: Int64? = nil
  ) {
    self.number = number
    self.databaseKey = databaseKey
    self.zoneName = zoneName
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
