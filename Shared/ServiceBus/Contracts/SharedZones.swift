// Which zones of others a user has access to: an index that the share service keeps and the owners' shards feed. What it says decides nothing:
// the owner's shard does, whenever it is asked.

public import Records

/// A user's access to somebody else's zone: that it began, or that it ended.
public struct SharedZone: Hashable, Sendable, Codable {
  /// Where the zone is; of which user it is told.
  public struct Key: Hashable, Sendable, Codable, Comparable {
    /// The owner's.
    public let database: DatabaseID
    public let zoneName: String
    public let userRecordName: String

    public init(database: DatabaseID, zoneName: String, userRecordName: String) {
      self.database = database
      self.zoneName = zoneName
      self.userRecordName = userRecordName
    }

    /// By container, environment, owner, zone and user, bytes of UTF-8 compared: as SQLite compares them.
    public static func < (left: Key, right: Key) -> Bool {
      for (one, other) in zip(left.parts, right.parts) where one != other { return one.utf8.lexicographicallyPrecedes(other.utf8) }
      return false
    }

    private var parts: [String] { [database.container.rawValue, database.environment.rawValue, database.owner, zoneName, userRecordName] }
  }

  public let key: Key
  /// False: the access ended, which feeds still tell.
  public let isActive: Bool
  /// Of the owner's database, when it began or ended: what is older never replaces what is newer.
  public let sequence: Int64

  public init(key: Key, isActive: Bool, sequence: Int64) {
    self.key = key
    self.isActive = isActive
    self.sequence = sequence
  }
}

/// News of one shard, in the order of its commits. A repetition, and what is older than what is known, changes nothing.
public struct NoteSharedZones: Message {
  public static let name = "sharing.note/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// More are several messages.
  public static let countLimit = 1000

  public let zones: [SharedZone]

  public init(zones: [SharedZone]) { self.zones = zones }
}

/// Begins a comparison of the index with a shard. What the shard is read for it after the answer, it has seen all that the index was told before.
public struct BeginComparison: Message {
  public static let name = "sharing.begin-comparison/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Rises from comparison to comparison, and with everything that is noted.
    public let number: Int64

    public init(number: Int64) { self.number = number }
  }

  public init() {}
}

/// All that a shard knows of who has, or had, access to whose zone, a page at a time: what the index has otherwise is corrected, also where
/// the shard is older than the index because it was restored.
public struct CompareSharedZones: Message {
  public static let name = "sharing.compare/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// How many entries were added, corrected or removed.
    public let correctedCount: Int

    public init(correctedCount: Int) { self.correctedCount = correctedCount }
  }

  /// More are several pages.
  public static let countLimit = 2000

  /// Of `BeginComparison`: what was noted since is newer than the page.
  public let number: Int64
  public let shard: Int
  /// The page has all there is after this one; nil: from the beginning.
  public let after: SharedZone.Key?
  /// As far as this one; nil: to the end.
  public let through: SharedZone.Key?
  /// Ascending.
  public let zones: [SharedZone]

  public init(number: Int64, shard: Int, after: SharedZone.Key?, through: SharedZone.Key?, zones: [SharedZone]) {
    self.number = number
    self.shard = shard
    self.after = after
    self.through = through
    self.zones = zones
  }
}

/// Whose zones a user has, or had, access to in a container's environment.
public struct FetchSharedZones: Message {
  public static let name = "sharing.zones/1"
  public static let senders: Set<Role> = [.gateway, .worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable, Hashable {
    public struct Owner: Codable, Sendable, Hashable {
      public let owner: String
      /// Ascending by name.
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

    /// Ascending by name.
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

/// Who it is that somebody invites or that opens a share: finds also those who do not want to be found, so what it answers is for the services
/// to know. Disabled users are nobody.
public struct IdentifyUsers: Message {
  public static let name = "directory.identify/1"
  public static let senders: Set<Role> = [.gateway, .worker]
  public static let isRepeatable = true

  /// More are several messages.
  public static let countLimit = 1000

  public struct Identity: Codable, Sendable, Hashable {
    public let userRecordName: String
    public let givenName: String?
    public let familyName: String?
    public let emailAddress: String?
    /// As `PhoneNumber` writes it.
    public let phoneNumber: String?
    /// Whether whoever looks for him may be told that he is there, and what he is called. nil: nobody said so, he may not.
    public var isDiscoverable: Bool?

    public init(userRecordName: String, givenName: String?, familyName: String?, emailAddress: String?, phoneNumber: String?) {
      self.userRecordName = userRecordName
      self.givenName = givenName
      self.familyName = familyName
      self.emailAddress = emailAddress
      self.phoneNumber = phoneNumber
    }
  }

  public struct Reply: Codable, Sendable {
    /// As many as were looked up, in their order; nil: nobody.
    public let users: [Identity?]

    public init(users: [Identity?]) { self.users = users }
  }

  public let lookups: [DiscoverUsers.Lookup]

  public init(lookups: [DiscoverUsers.Lookup]) { self.lookups = lookups }
}
