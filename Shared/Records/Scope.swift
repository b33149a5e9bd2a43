// The place of a record: container, environment, database, owner. Every request, row and token names its scope with
// these values.

/// An app's container, such as `iCloud.org.example.photos`: 1 to 255 characters of `[A-Za-z0-9._-]`, the first no dot.
/// Clients may leave the prefix `iCloud.` out.
public struct ContainerID: Hashable, Sendable, Codable, RawRepresentable {
  public let rawValue: String

  public init?(rawValue: String) {
    var text = rawValue
    let isValid = text.withUTF8 { bytes in
      (1...255).contains(bytes.count) && bytes[0] != UInt8(ascii: ".") && bytes.allSatisfy(Self.isAllowed)
    }
    guard isValid else { return nil }
    self.rawValue = rawValue
  }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
}

/// A container's environment. Saves extend the schema of `development`; only a deployment changes that of `production`.
public enum Environment: String, Hashable, Sendable, Codable, CaseIterable {
  case development, production
}

/// The database that a client addresses, as it stands in a request's path.
public enum DatabaseScope: String, Hashable, Sendable, Codable, CaseIterable {
  case `public`, `private`, shared

  /// The number that pings carry (`dbs`, docs/protocol/record-plane.md#web-courier).
  public var wireNumber: Int {
    switch self {
    case .public: 0
    case .private: 1
    case .shared: 2
    }
  }
}

/// A stored database: one owner's zones in one container and environment.
///
/// A participant's shared database has no storage of its own: its zones live in their owners' private databases.
public struct DatabaseID: Hashable, Sendable, Codable {
  public let container: ContainerID
  public let environment: Environment
  /// The owner's user record name, or `DatabaseID.publicOwner` for the public database.
  public let owner: String

  /// No user record name starts with two underscores, so no user can be this owner.
  public static let publicOwner = "__public__"

  public init(container: ContainerID, environment: Environment, owner: String) {
    self.container = container
    self.environment = environment
    self.owner = owner
  }

  public var isPublic: Bool { owner == Self.publicOwner }

  /// Decides by `ShardLayout` which shard holds this database. The same in every process and release (FNV-1a, never
  /// `Hasher`).
  public var placeHash: UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for var part in [container.rawValue, environment.rawValue, owner] {
      part.withUTF8 { bytes in
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
      }
      hash = (hash ^ 0) &* 0x100_0000_01b3
    }
    hash ^= hash >> 33
    hash = hash &* 0xff51_afd7_ed55_8ccd
    return hash ^ hash >> 33
  }
}
