// What gateways ask the holder of a shard about the short GUIDs that lead there.

public import Records

/// Asks which database's share a short GUID leads to, a one-time one too: the address of a share names no container. Told to nobody as it is.
public struct LocateShortGUID: Message {
  public static let name = "shard.locate/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// nil: none.
    public let container: ContainerID?
    public let environment: Environment?

    public init(container: ContainerID? = nil, environment: Environment? = nil) {
      self.container = container
      self.environment = environment
    }
  }

  public let shard: Int
  public let shortGUID: String

  public init(shard: Int, shortGUID: String) {
    self.shard = shard
    self.shortGUID = shortGUID
  }
}

/// Looks records up by their short GUIDs, for `records/resolve`, `records/accept` and what else one does who comes by a URL. The answer's body is a JSON
/// array with an element for each of `items`: the members of its result beside `shortGUID` as an object, which may be an error's, or null where the
/// caller is told that there is none.
public struct ResolveShortGUIDs: Message {
  public static let name = "shard.resolve/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public enum Purpose: String, Codable, Sendable {
    case resolve, accept
    /// Asks the owner for access.
    case requestAccess
    /// Turns an invitation down.
    case decline
  }

  public struct Item: Codable, Sendable, Hashable {
    public let shortGUID: String
    public let fetchesRootRecord: Bool
    /// nil: all.
    public let desiredKeys: [String]?

    public init(shortGUID: String, fetchesRootRecord: Bool, desiredKeys: [String]?) {
      self.shortGUID = shortGUID
      self.fetchesRootRecord = fetchesRootRecord
      self.desiredKeys = desiredKeys
    }
  }

  public let purpose: Purpose
  public let shard: Int
  public let container: ContainerID
  public let environment: Environment
  public let caller: Caller
  public let items: [Item]
  /// As in `DatabaseRequest`.
  public let baseURL: String

  public init(
    purpose: Purpose, shard: Int, container: ContainerID, environment: Environment, caller: Caller, items: [Item], baseURL: String
  ) {
    self.purpose = purpose
    self.shard = shard
    self.container = container
    self.environment = environment
    self.caller = caller
    self.items = items
    self.baseURL = baseURL
  }

  public var party: String { caller.party(in: container) }
}
