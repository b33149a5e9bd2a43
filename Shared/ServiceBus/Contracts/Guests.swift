// What workers ask of one another for stores of the shared database: their objects are in their owners' shards.

import Records

/// A request that a handler makes of a shard's holder while somebody waits for itself: the same body and answer as `DatabaseRequest`, on the
/// nested lane. The shard may be held by the process that asks.
public struct GuestRequest: Message {
  public static let name = "guest.request/1"
  public static let senders: Set<Role> = [.worker]
  /// As `DatabaseRequest`.
  public static let isRepeatable = true
  public static let lane = Lane.nested
  public typealias Reply = DatabaseRequest.Reply

  /// The store for which it is asked, as its home has it: the owner's shard knows it as far as it was told.
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
  /// nil: the request is none of the object plane.
  public let store: Store?

  public init(_ request: DatabaseRequest, of store: Store? = nil) {
    self.request = request
    self.store = store
  }

  /// Writes of one store in one database start in their order.
  public var orderingKey: String? {
    request.method == "GET" ? nil : request.orderingKey.map { "guest \(request.caller.userRecordName ?? "") of \(request.database.owner) \($0)" }
  }

  public var party: String { request.party }

  public static func encoded(_ reply: Reply) throws -> [UInt8] { try DatabaseRequest.encoded(reply) }
  public static func decodedReply(from bytes: [UInt8]) throws -> Reply { try DatabaseRequest.decodedReply(from: bytes) }
}

/// `ResolveShortGUIDs` on the nested lane: what a store of the shared database accepts.
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
