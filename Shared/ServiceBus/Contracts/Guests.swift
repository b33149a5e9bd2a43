// Messages between workers for stores of the shared database: their objects lie in the owners' shards.

import Records

/// A `DatabaseRequest` that a handler makes of another shard's holder, in the nested lane because the handler's own
/// caller waits. The process that asks may hold that shard itself.
public struct GuestRequest: Message {
  public static let name = "guest.request/1"
  public static let senders: Set<Role> = [.worker]
  /// Repeatable like `DatabaseRequest`.
  public static let isRepeatable = true
  public static let lane = Lane.nested
  public typealias Reply = DatabaseRequest.Reply

  /// The store that asks, as its home shard knows it; the owner's shard knows only what it is told.
  public struct Store: Codable, Sendable, Hashable {
    public let modelHash: String
    public let configuration: String?
    public let deviceName: String?

    public init(modelHash: String, configuration: String?, deviceName: String?) {
      self.modelHash = modelHash
      self.configuration = configuration
      self.deviceName = deviceName
    }
  }

  public let request: DatabaseRequest
  /// nil for a request outside the object plane.
  public let store: Store?

  public init(_ request: DatabaseRequest, of store: Store? = nil) {
    self.request = request
    self.store = store
  }

  /// Writes of one store to one database start in their order.
  public var orderingKey: String? {
    request.orderingKey.map { "guest \(request.caller.userRecordName ?? "") of \(request.database.owner) \($0)" }
  }

  public var party: String { request.party }

  public static func encoded(_ reply: Reply) throws -> [UInt8] { try DatabaseRequest.encoded(reply) }
  public static func decodedReply(from bytes: [UInt8]) throws -> Reply { try DatabaseRequest.decodedReply(from: bytes) }
}

/// `ResolveShortGUIDs` in the nested lane, for a share that a store of the shared database accepts.
public struct GuestResolve: Message {
  public static let name = "guest.resolve/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public static let lane = Lane.nested
  public typealias Reply = Acknowledgement

  public let message: ResolveShortGUIDs

  public init(_ message: ResolveShortGUIDs) { self.message = message }

  public var party: String { message.party }
}
