// What gateways ask the holder of a shard about the short GUIDs that lead there.

public import Records

/// Looks records up by their short GUIDs, for `records/resolve` and `records/accept`. The answer's body is a JSON array with an element
/// for each of `items`: the members of its result beside `shortGUID` as an object, or null where the caller is told that there is none.
public struct ResolveShortGUIDs: Message {
  public static let name = "shard.resolve/1"
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public enum Purpose: String, Codable, Sendable {
    case resolve, accept
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
}
