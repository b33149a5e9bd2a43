// The rows about shares: their states beside their records, the access of each user, and the news for the share
// service.

public import Records
public import Sharing

/// A share's row. It stays after the share has ended, so that a share of the same record gets the same URL again.
public struct StoredShare: Hashable, Sendable {
  /// The name of the share's record.
  public let name: String
  /// The record at the top of the shared hierarchy; nil when the whole zone is shared.
  public let rootRecordName: String?
  /// The part of its URL after the last slash.
  public let shortGUID: String
  /// nil after the share has ended.
  public var state: ShareState?

  public init(name: String, rootRecordName: String?, shortGUID: String, state: ShareState?) {
    self.name = name
    self.rootRecordName = rootRecordName
    self.shortGUID = shortGUID
    self.state = state
  }
}

/// A change of a zone's shares. The share service receives such news in the order of the numbers.
public struct StoredShareNews: Hashable, Sendable {
  public enum Subject: Hashable, Sendable {
    /// A user's access to the zone began or ended.
    /// - Parameter isActive: true when the user has access afterwards, through whichever share.
    case access(userRecordName: String, isActive: Bool)
    /// Other people without an account wait in the share of this name.
    case invitations(shareName: String)
  }

  public let number: Int64
  public let database: DatabaseID
  public let zoneName: String
  public let subject: Subject
  /// The database's sequence at the change.
  public let sequence: Int64

  public init(number: Int64, database: DatabaseID, zoneName: String, subject: Subject, sequence: Int64) {
    self.number = number
    self.database = database
    self.zoneName = zoneName
    self.subject = subject
    self.sequence = sequence
  }
}

/// The position of a member's row in the order of all rows of a shard.
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

/// A record's place in a hierarchy.
public struct HierarchyPlace: Hashable, Sendable {
  /// The name that its `parent` pointer names.
  public let parent: String?
  /// A tombstone keeps its place.
  public let isDeleted: Bool

  public init(parent: String?, isDeleted: Bool) {
    self.parent = parent
    self.isDeleted = isDeleted
  }
}

/// Reads about shares. They are unnecessary for a database without shares (`StoredDatabase.hasShares`).
public protocol SharingSnapshot: AnyObject {
  /// The share of that record, also after it has ended.
  func share(named name: String, in zone: Int64) throws -> StoredShare?
  /// The share of the hierarchy below that record; nil when there is none or it has ended.
  func share(ofRoot recordName: String, in zone: Int64) throws -> StoredShare?
  /// Shares that have not ended, ascending by name, after `name`.
  func shares(in zone: Int64, afterName name: String?, limit: Int) throws -> [StoredShare]
  /// The share of a one-time URL, in whatever database, and its zone's key.
  func share(withOneTimeGUID shortGUID: String) throws -> (zone: Int64, share: StoredShare)?

  /// A user's rows in a zone, including ended ones, ascending by share.
  func members(_ userRecordName: String, inZone zoneName: String, of database: Int64) throws -> [ShareMember]
  /// A user's rows in a database, including ended ones, ascending by zone and share.
  func members(_ userRecordName: String, of database: Int64) throws -> [ShareMember]
  /// The users whose access to a zone has not ended, each once, ascending.
  func audience(ofZone zoneName: String, of database: Int64) throws -> [String]
  /// All rows of the shard, including ended ones, after `place`, ascending by database, user, zone and share.
  func members(after place: StoredMemberPlace?, limit: Int) throws -> [(databaseKey: Int64, member: ShareMember)]
  /// The news that the share service has not received, ascending by number, after `number`.
  func shareNews(after number: Int64, limit: Int) throws -> [StoredShareNews]

  /// Where that record or tombstone hangs; nil when there is none. Reads nothing of the record's fields.
  func place(of recordName: String, in zone: Int64) throws -> HierarchyPlace?
  /// The names of records whose `parent` pointer names that record, ascending. Includes tombstones with such a pointer.
  /// If there are more than `limit`, any `limit` of them.
  func children(of recordName: String, in zone: Int64, limit: Int) throws -> [String]
  /// The sequence at which an existing record left the hierarchy below `root`; nil when it never did, or is back.
  func departure(of recordName: String, from root: String, in zone: Int64) throws -> Int64?
}

/// Writes about shares. Unknown zones and databases throw `ContradictingWrite`. Deleting a zone deletes its shares and
/// ends its members' access.
public protocol SharingTransaction: SharingSnapshot {
  /// Stores a share, in place of the one of that name, with exactly the one-time URLs in its state. Sets the database's
  /// `hasShares`.
  func put(_ share: StoredShare, in zone: Int64) throws
  /// Stores a member's row, in place of the one of that user, zone and share. If the user's access to the zone begins
  /// or ends, stores news of it.
  func put(_ member: ShareMember, of database: Int64) throws
  /// Stores news of the people who wait in a share.
  func noteInvitations(toShare shareName: String, inZone zoneName: String, of database: Int64, at sequence: Int64)
    throws
  /// Removes news that the share service has received.
  func removeShareNews(through number: Int64) throws
  /// Notes the sequence at which a record left the hierarchy below `root`, or (nil) that it is back.
  func noteDeparture(of recordName: String, from root: String, in zone: Int64, at sequence: Int64?) throws
}
