// The journal of conflicts of a database. It keeps the lost values until the conflict is settled or too old.

package import Records

/// An entry of the journal, without the lost values.
public struct StoredConflict: Hashable, Sendable {
  /// Ascending within the database in the order of the commits; 0 before it is stored.
  public var number: Int64
  public let databaseKey: Int64
  public let zoneName: String
  /// The zone's incarnation at the time of the entry. A later zone of the same name has another one.
  public let zoneIncarnation: UInt64
  /// The object's ID.
  public let recordName: String
  public let entity: String
  /// `ConflictKind` of Mirroring.
  public let kind: Int
  /// `ConflictState` of Mirroring.
  public var state: Int
  /// The user whose edit was lost, and the device that sent it; empty when unknown.
  public let userRecordName: String
  public let deviceID: String
  /// The times of the entry and of its settlement, in milliseconds since 1970.
  public let at: Int64
  public var settledAt: Int64?

  /// The most entries of one user that a database keeps, and the most bytes of their lost values, assets included.
  /// Settled entries are removed first and open ones last; of each kind the oldest first.
  public static let keptCount = 5000
  public static let keptByteCount = 268_435_456
  /// The state of an entry that waits for a decision. Such an entry never becomes too old.
  package static let open = 0
  /// The most bytes that one commit forgets.
  package static let sliceByteCount: Int64 = 8_388_608

  public init(
    number: Int64 = 0, databaseKey: Int64, zoneName: String, zoneIncarnation: UInt64 = 0, recordName: String,
    entity: String, kind: Int, state: Int,
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

  /// The bytes that an entry counts for in its user's limit.
  package func byteCount(_ content: [UInt8], _ assets: Set<Asset>) -> Int64 {
    assets.reduce(Int64(content.count)) { $0 + $1.byteCount }
  }
}

/// The size of one user's part of a database's journal.
public struct ConflictUse: Hashable, Sendable {
  public var count: Int
  /// The bytes of the lost values, including their assets.
  public var byteCount: Int64
  /// The number of entries that were removed because there were too many.
  public var evictedCount: Int

  public init(count: Int = 0, byteCount: Int64 = 0, evictedCount: Int = 0) {
    self.count = count
    self.byteCount = byteCount
    self.evictedCount = evictedCount
  }

  package var isTooMuch: Bool {
    count > StoredConflict.keptCount || byteCount > StoredConflict.keptByteCount && count > 1
  }
}

/// Selects entries of a journal. A nil property selects all.
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
