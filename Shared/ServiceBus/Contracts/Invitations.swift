// People without an account who are invited to shares: the share service keeps an index of them, and the owners' shards
// feed it. It lets people sign up; it grants nothing.

public import Records

/// The people who wait in a share: invited by an address or number that was no user's.
public struct WaitingInvitations: Hashable, Sendable, Codable {
  public struct Invitation: Hashable, Sendable, Codable {
    public let participantID: String
    /// In lower case; nil for a person who was invited by telephone number.
    public let emailAddress: String?
    /// In the form that `PhoneNumber` writes.
    public let phoneNumber: String?
    /// Milliseconds since 1970.
    public let added: Int64

    public init(participantID: String, emailAddress: String?, phoneNumber: String?, added: Int64) {
      self.participantID = participantID
      self.emailAddress = emailAddress
      self.phoneNumber = phoneNumber
      self.added = added
    }
  }

  /// The owner's database.
  public let database: DatabaseID
  public let zoneName: String
  public let shareName: String
  /// All of the share.
  public let invitations: [Invitation]

  public init(database: DatabaseID, zoneName: String, shareName: String, invitations: [Invitation]) {
    self.database = database
    self.zoneName = zoneName
    self.shareName = shareName
    self.invitations = invitations
  }
}

/// The people who wait in some shares of a shard, in place of those noted before. A repetition changes nothing.
public struct NoteInvitations: Message {
  public static let name = "sharing.note-invitations/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// A message ends with the share that reaches this number of invitations.
  public static let countLimit = 1000

  /// A comparison of the index with a whole shard.
  public struct Comparison: Hashable, Sendable, Codable {
    /// Of `BeginComparison`: shares noted since are newer than the list.
    public let number: Int64
    /// True for the last part: nobody waits in any other share of the shard.
    public let isLast: Bool

    public init(number: Int64, isLast: Bool) {
      self.number = number
      self.isLast = isLast
    }
  }

  public let shard: Int
  public let shares: [WaitingInvitations]
  /// nil for news.
  public let comparison: Comparison?
  /// The databases of the shard; nil for a shard that was never divided.
  public let part: ShardPart?

  public init(shard: Int, shares: [WaitingInvitations], comparison: Comparison? = nil, part: ShardPart? = nil) {
    self.shard = shard
    self.shares = shares
    self.comparison = comparison
    self.part = part
  }
}

/// What a mail says about an invitation, from the owner's shard.
public struct DescribeInvitation: Message {
  public static let name = "shard.describe-invitation/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable, Hashable {
    /// Leads to the share; nil when the person waits no more.
    public let shortGUID: String?
    /// nil for a share without one.
    public let title: String?

    public init(shortGUID: String? = nil, title: String? = nil) {
      self.shortGUID = shortGUID
      self.title = title
    }
  }

  public let shard: Int
  public let database: DatabaseID
  public let zoneName: String
  public let shareName: String
  public let participantID: String

  public init(shard: Int, database: DatabaseID, zoneName: String, shareName: String, participantID: String) {
    self.shard = shard
    self.database = database
    self.zoneName = zoneName
    self.shareName = shareName
    self.participantID = participantID
  }
}

/// An address gets no more mail, because its owner said so by the link of a mail.
public struct StopMail: Message {
  public static let name = "directory.stop-mail/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let emailAddress: String

  public init(emailAddress: String) { self.emailAddress = emailAddress }
}
