// Questions of gateways to the holder of a shard about short GUIDs that lead there.

public import Records

/// Finds the container of the share that a short GUID leads to, one-time GUIDs included: a share's URL does not name
/// it. The answer is for the gateway only, not for its client.
public struct LocateShortGUID: Message {
  public static let name = "shard.locate/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// nil if there is no such share.
    public let container: ContainerID?
    public let environment: Environment?

    public init(container: ContainerID? = nil, environment: Environment? = nil) {
      self.container = container
      self.environment = environment
    }
  }

  public let shard: Int
  /// The databases that the caller expects in the shard; nil for a shard that was never divided.
  public let part: ShardPart?
  public let shortGUID: String

  public init(shard: Int, part: ShardPart? = nil, shortGUID: String) {
    self.shard = shard
    self.part = part
    self.shortGUID = shortGUID
  }
}

/// Looks records up by their short GUIDs, for `records/resolve`, `records/accept`, requests for access and declined
/// invitations. The answer's body is a JSON array with one element per entry of `items`: an object with the result's
/// members except `shortGUID`, which may be an error, or null if the caller is told that there is no share.
public struct ResolveShortGUIDs: Message {
  public static let name = "shard.resolve/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public enum Purpose: String, Codable, Sendable {
    case resolve, accept
    case requestAccess
    case decline
  }

  public struct Item: Codable, Sendable, Hashable {
    public let shortGUID: String
    public let fetchesRootRecord: Bool
    /// nil for all fields.
    public let desiredKeys: [String]?

    public init(shortGUID: String, fetchesRootRecord: Bool, desiredKeys: [String]?) {
      self.shortGUID = shortGUID
      self.fetchesRootRecord = fetchesRootRecord
      self.desiredKeys = desiredKeys
    }
  }

  public let purpose: Purpose
  public let shard: Int
  /// As in `LocateShortGUID`.
  public let part: ShardPart?
  public let container: ContainerID
  public let environment: Environment
  public let caller: Caller
  public let items: [Item]
  /// Equal to `DatabaseRequest.baseURL`.
  public let baseURL: String

  public init(
    purpose: Purpose, shard: Int, part: ShardPart? = nil, container: ContainerID, environment: Environment,
    caller: Caller, items: [Item],
    baseURL: String
  ) {
    self.purpose = purpose
    self.shard = shard
    self.part = part
    self.container = container
    self.environment = environment
    self.caller = caller
    self.items = items
    self.baseURL = baseURL
  }

  public var party: String { caller.party(in: container) }
}
