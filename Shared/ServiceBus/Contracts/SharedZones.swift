// The index of zones that other users share with a user: the share service keeps it, and the owners' shards feed it. It
// grants nothing: the owner's shard checks every access.

public import Records

/// A user's access to another user's zone: it began, or it ended.
public struct SharedZone: Hashable, Sendable, Codable {
  /// The zone, and the user with access to it.
  public struct Key: Hashable, Sendable, Codable, Comparable {
    /// The owner's database.
    public let database: DatabaseID
    public let zoneName: String
    public let userRecordName: String

    public init(database: DatabaseID, zoneName: String, userRecordName: String) {
      self.database = database
      self.zoneName = zoneName
      self.userRecordName = userRecordName
    }

    /// Orders by container, environment, owner, zone and user, comparing UTF-8 bytes as SQLite does.
    public static func < (left: Key, right: Key) -> Bool {
      for (one, other) in zip(left.parts, right.parts) where one != other {
        return one.utf8.lexicographicallyPrecedes(other.utf8)
      }
      return false
    }

    private var parts: [String] {
      [database.container.rawValue, database.environment.rawValue, database.owner, zoneName, userRecordName]
    }
  }

  public let key: Key
  /// False: the access has ended; feeds still report it.
  public let isActive: Bool
  /// The sequence number of the owner's database when the access began or ended: an older entry never replaces a newer
  /// one.
  public let sequence: Int64

  public init(key: Key, isActive: Bool, sequence: Int64) {
    self.key = key
    self.isActive = isActive
    self.sequence = sequence
  }
}

/// News of one shard, in the order of its commits. A repetition, or an entry older than the known one, changes nothing.
public struct NoteSharedZones: Message {
  public static let name = "sharing.note/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// The most entries that one message holds.
  public static let countLimit = 1000

  public let zones: [SharedZone]

  public init(zones: [SharedZone]) { self.zones = zones }
}

/// Begins a comparison of the index with a shard. Pages read from the shard after the answer contain everything the
/// index was told before it.
public struct BeginComparison: Message {
  public static let name = "sharing.begin-comparison/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Rises from comparison to comparison, and with every note.
    public let number: Int64

    public init(number: Int64) { self.number = number }
  }

  public init() {}
}

/// A page of everything that a shard knows about present and past access to its zones. The index is corrected where it
/// differs, even if the shard is older because it was restored.
public struct CompareSharedZones: Message {
  public static let name = "sharing.compare/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// The number of entries that were added, corrected or removed.
    public let correctedCount: Int

    public init(correctedCount: Int) { self.correctedCount = correctedCount }
  }

  /// The most entries that one page holds.
  public static let countLimit = 2000

  /// The number of `BeginComparison`: entries noted since are newer than the page.
  public let number: Int64
  public let shard: Int
  /// The page begins after this key; nil: at the beginning.
  public let after: SharedZone.Key?
  /// The page ends with this key; nil: at the end.
  public let through: SharedZone.Key?
  /// By ascending key.
  public let zones: [SharedZone]
  /// The databases of the shard; nil for a shard that was never divided.
  public let part: ShardPart?

  public init(
    number: Int64, shard: Int, after: SharedZone.Key?, through: SharedZone.Key?, zones: [SharedZone],
    part: ShardPart? = nil
  ) {
    self.number = number
    self.shard = shard
    self.after = after
    self.through = through
    self.zones = zones
    self.part = part
  }
}

/// The zones that a user has, or had, access to in a container's environment, by owner.
public struct FetchSharedZones: Message {
  public static let name = "sharing.zones/1"
  public static let senders: Set<Role> = [.gateway, .worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable, Hashable {
    public struct Owner: Codable, Sendable, Hashable {
      public let owner: String
      /// By ascending name.
      public let zones: [Zone]

      public init(owner: String, zones: [Zone]) {
        self.owner = owner
        self.zones = zones
      }
    }

    public struct Zone: Codable, Sendable, Hashable {
      public let zoneName: String
      public let isActive: Bool
      public let sequence: Int64

      public init(zoneName: String, isActive: Bool, sequence: Int64) {
        self.zoneName = zoneName
        self.isActive = isActive
        self.sequence = sequence
      }
    }

    /// By ascending owner.
    public let owners: [Owner]

    public init(owners: [Owner]) { self.owners = owners }
  }

  public let userRecordName: String
  public let container: ContainerID
  public let environment: Environment

  public init(userRecordName: String, container: ContainerID, environment: Environment) {
    self.userRecordName = userRecordName
    self.container = container
    self.environment = environment
  }
}

/// Finds the users behind invitations and share URLs. It also finds users who are not discoverable, so the answer is
/// for services only. Disabled users are not found.
public struct IdentifyUsers: Message {
  public static let name = "directory.identify/1"
  public static let senders: Set<Role> = [.gateway, .worker]
  public static let isRepeatable = true

  /// The most lookups that one message holds.
  public static let countLimit = 1000

  public struct Identity: Codable, Sendable, Hashable {
    public let userRecordName: String
    public let givenName: String?
    public let familyName: String?
    public let emailAddress: String?
    /// In the form that `PhoneNumber` writes.
    public let phoneNumber: String?
    /// True if other people may find this user and see their name; nil counts as false.
    public var isDiscoverable: Bool?

    public init(
      userRecordName: String, givenName: String?, familyName: String?, emailAddress: String?, phoneNumber: String?
    ) {
      self.userRecordName = userRecordName
      self.givenName = givenName
      self.familyName = familyName
      self.emailAddress = emailAddress
      self.phoneNumber = phoneNumber
    }
  }

  public struct Reply: Codable, Sendable {
    /// One entry per lookup, in their order; nil if no user was found.
    public let users: [Identity?]

    public init(users: [Identity?]) { self.users = users }
  }

  public let lookups: [DiscoverUsers.Lookup]

  public init(lookups: [DiscoverUsers.Lookup]) { self.lookups = lookups }
}
