// What a shard keeps of shares: their states beside their records, who may see what by user, and what the share service is to be told of that.

public import Records
public import Sharing

/// A share's row, which stays when the share ends: shared again, it has the URL that it had.
public struct StoredShare: Hashable, Sendable {
  /// The share's record.
  public let name: String
  /// The record on top of the hierarchy that is shared; nil: the zone is.
  public let rootRecordName: String?
  /// What follows the last slash of its URL.
  public let shortGUID: String
  /// nil: it ended.
  public var state: ShareState?

  public init(name: String, rootRecordName: String?, shortGUID: String, state: ShareState?) {
    self.name = name
    self.rootRecordName = rootRecordName
    self.shortGUID = shortGUID
    self.state = state
  }
}

/// That somebody's access to a zone began or ended, to be told to the share service, in the order of the numbers.
public struct StoredShareNews: Hashable, Sendable {
  public let number: Int64
  public let database: DatabaseID
  public let zoneName: String
  public let userRecordName: String
  /// Whether he has access after it, by whichever share.
  public let isActive: Bool
  /// Of the database, when that began or ended.
  public let sequence: Int64

  public init(number: Int64, database: DatabaseID, zoneName: String, userRecordName: String, isActive: Bool, sequence: Int64) {
    self.number = number
    self.database = database
    self.zoneName = zoneName
    self.userRecordName = userRecordName
    self.isActive = isActive
    self.sequence = sequence
  }
}

/// The place of a member's row among all of a shard's.
public struct StoredMemberPlace: Hashable, Sendable {
  public let databaseKey: Int64
  public let userRecordName: String
  public let zoneName: String
  public let shareName: String

  public init(_ member: ShareMember, in database: Int64) {
    databaseKey = database
    userRecordName = member.userRecordName
    zoneName = member.zoneName
    shareName = member.shareName
  }
}

/// Reads about shares. Where a database has none (`StoredDatabase.hasShares`) nobody need ask.
public protocol SharingSnapshot: AnyObject {
  /// The share of that record, also one that ended.
  func share(named name: String, in zone: Int64) throws -> StoredShare?
  /// The share whose hierarchy a record is the top of.
  func share(ofRoot recordName: String, in zone: Int64) throws -> StoredShare?
  /// Shares that have not ended, ascending by name, after `name`.
  func shares(in zone: Int64, afterName name: String?, limit: Int) throws -> [StoredShare]
  /// The share that a one-time URL leads to, whatever database it is in, and its zone's key.
  func share(withOneTimeGUID shortGUID: String) throws -> (zone: Int64, share: StoredShare)?

  /// A user's in a zone, ended ones too, ascending by share.
  func members(_ userRecordName: String, inZone zoneName: String, of database: Int64) throws -> [ShareMember]
  /// A user's in a database, ended ones too, ascending by zone and share.
  func members(_ userRecordName: String, of database: Int64) throws -> [ShareMember]
  /// Whose access to a zone has not ended, each once, ascending.
  func audience(ofZone zoneName: String, of database: Int64) throws -> [String]
  /// All of the shard's, ended ones too, after `place`: ascending by database, user, zone and share.
  func members(after place: StoredMemberPlace?, limit: Int) throws -> [(databaseKey: Int64, member: ShareMember)]
  /// What is still to be told, ascending by number, after `number`.
  func shareNews(after number: Int64, limit: Int) throws -> [StoredShareNews]

  /// The names of records whose pointers say that their `parent` has that name, ascending; tombstones that were given such a pointer are among them. Of
  /// more than `limit` any so many.
  func children(of recordName: String, in zone: Int64, limit: Int) throws -> [String]
  /// When a record that is still there left what hangs below `root`; nil: it never did, or is back.
  func departure(of recordName: String, from root: String, in zone: Int64) throws -> Int64?
}

/// Writes about shares. Unknown zones and databases throw `ContradictingWrite`. A zone that is deleted takes its shares along, and its members'
/// access ends with it.
public protocol SharingTransaction: SharingSnapshot {
  /// Stores a share in the place of the one of that name, if there is one, with the one-time URLs that its state names and no others. From the
  /// first on the database `hasShares`.
  func put(_ share: StoredShare, in zone: Int64) throws
  /// Stores a member's row in the place of the one of that user, zone and share, if there is one, and the news of it where his access to the
  /// zone began or ended.
  func put(_ member: ShareMember, of database: Int64) throws
  /// Forgets what was told.
  func removeShareNews(through number: Int64) throws
  /// Notes when a record left what hangs below `root`, or (nil) that it is back.
  func noteDeparture(of recordName: String, from root: String, in zone: Int64, at sequence: Int64?) throws
}
