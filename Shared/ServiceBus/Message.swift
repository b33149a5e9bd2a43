// The messages between services: typed, with wire names of their own and stable errors.

import MessagePack

/// A request between services and its reply.
///
/// On the wire a message is MessagePack with string keys. Fields are only added, optional or with a default; any other
/// change is a second name (`…/2`) beside the first for one release. Bulk data (request bodies, record batches) travel
/// as an opaque body in a frame of their own.
public protocol Message: Codable, Sendable {
  associatedtype Reply: Codable & Sendable
  /// The wire name, such as `database.request/1`; it stays when the type is renamed.
  static var name: String { get }
  /// The roles whose processes may send it; others are refused.
  static var senders: Set<Role> { get }
  /// True if the caller may send it again without knowing whether it arrived.
  static var isRepeatable: Bool { get }
  /// The lane in which it waits; `.usual` by default.
  static var lane: Lane { get }
  /// Messages of a lane with equal keys start in the order in which they arrived at the peer; nil: in any order.
  var orderingKey: String? { get }
  /// The party for which it is sent: where messages of several parties wait for a peer, the parties take turns. Empty:
  /// the server itself.
  var party: String { get }

  /// The MessagePack of a message and of its reply. Hand-written where `Codable` is too slow, with the same form.
  func encoded() throws -> [UInt8]
  static func decoded(from bytes: [UInt8]) throws -> Self
  static func encoded(_ reply: Reply) throws -> [UInt8]
  static func decodedReply(from bytes: [UInt8]) throws -> Reply
}

extension Message {
  public static var lane: Lane { .usual }
  public var orderingKey: String? { nil }
  public var party: String { "" }
  public func encoded() throws -> [UInt8] { try MessagePackEncoder().encode(self) }
  public static func decoded(from bytes: [UInt8]) throws -> Self {
    try MessagePackDecoder().decode(Self.self, from: bytes)
  }
  public static func encoded(_ reply: Reply) throws -> [UInt8] { try MessagePackEncoder().encode(reply) }
  public static func decodedReply(from bytes: [UInt8]) throws -> Reply {
    try MessagePackDecoder().decode(Reply.self, from: bytes)
  }
}

/// A separate set of windows, handler places and queues.
///
/// A handler that calls others could wait for ever: their handlers may all wait for calls of the same kind. Handlers
/// therefore call in the lane `nested`, and a handler of a nested message makes no call on either lane to a process
/// that may wait for it.
public enum Lane: Sendable, CaseIterable {
  case usual, nested
}

/// The reply to messages that need only an acknowledgement.
public struct Acknowledgement: Codable, Sendable {
  public init() {}
}

/// A reply and its opaque body.
public struct Answer<Reply: Sendable>: Sendable {
  public let reply: Reply
  public let body: [UInt8]

  public init(_ reply: Reply, body: [UInt8] = []) {
    self.reply = reply
    self.body = body
  }
}

/// A failure of a call: a stable code and a text, never the name of a Swift type.
public struct BusError: Error, Hashable, Sendable {
  /// Codes compare by their text, so that codes of newer peers pass through.
  public struct Code: RawRepresentable, Hashable, Sendable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The deadline passed; it is unknown whether the call was executed.
    public static let timedOut = Code(rawValue: "timedOut")
    public static let cancelled = Code(rawValue: "cancelled")
    /// The peer is not connected, or was lost before it answered; in the second case it is unknown whether the call was
    /// executed.
    public static let unreachable = Code(rawValue: "unreachable")
    /// The window and the backlog are full; not executed.
    public static let overloaded = Code(rawValue: "overloaded")
    /// The peer accepts no new calls; not executed.
    public static let draining = Code(rawValue: "draining")
    public static let unknownMessage = Code(rawValue: "unknownMessage")
    /// The arguments do not decode; not executed.
    public static let badMessage = Code(rawValue: "badMessage")
    /// A body or arguments exceed the limit; not executed if the request does, executed if the reply does.
    public static let tooLarge = Code(rawValue: "tooLarge")
    /// The worker does not hold the shard (any more); not executed. Ask again with the latest map.
    public static let notMine = Code(rawValue: "notMine")
    public static let notFound = Code(rawValue: "notFound")
    public static let refused = Code(rawValue: "refused")
    /// The peer's disk is full; nothing was stored.
    public static let noSpace = Code(rawValue: "noSpace")
    public static let internalError = Code(rawValue: "internalError")
  }

  public let code: Code
  public let reason: String

  public init(_ code: Code, _ reason: String) {
    self.code = code
    self.reason = reason
  }
}

public enum Role: String, Hashable, Sendable, Codable, CaseIterable {
  case gateway, worker, share, notifier
}

/// A process on the bus.
public struct Peer: Hashable, Sendable, Codable {
  /// Unique among the living processes of the installation and stable over restarts, e.g. `worker-1`.
  public let name: String
  public let role: Role
  /// Drawn at start: it tells a restarted process from its predecessor. Of two living processes with one name the
  /// greater one counts.
  public let incarnation: UInt64
  /// The endpoint for others to connect to, such as `ipc:///run/aquifer/worker-1.sock` or `tcp://127.0.0.1:21001`.
  public let endpoint: String
  /// True if the process accepts new work; false while it starts or drains.
  public var isReady: Bool
  /// The base URL of the process's `/metrics`, such as `http://127.0.0.1:9101`; nil if unknown.
  public var adminURL: String?
  /// The newest stored format of shards that a worker knows; nil for a release that does not report it and is older
  /// than any that does.
  public var shardFormat: Int?
  /// Of share services, the one with the highest epoch leads. Other processes announce the epoch that they follow. nil
  /// counts as 0.
  public var epoch: Int64?
  /// The clusters that a worker reaches (`ShardCluster`); nil: the main one.
  public var clusters: [String]?
  /// True for a process that finds databases in shards that were divided (`ShardLayout`); nil for one of an earlier
  /// release, which would look for them elsewhere.
  public var knowsSplits: Bool?

  public init(
    name: String, role: Role, incarnation: UInt64, endpoint: String, isReady: Bool, adminURL: String? = nil,
    shardFormat: Int? = nil, epoch: Int64? = nil, clusters: [String]? = nil,
    knowsSplits: Bool? = true
  ) {
    self.name = name
    self.role = role
    self.incarnation = incarnation
    self.endpoint = endpoint
    self.isReady = isReady
    self.adminURL = adminURL
    self.shardFormat = shardFormat
    self.epoch = epoch
    self.clusters = clusters
    self.knowsSplits = knowsSplits
  }

  /// Whether the process finds all databases after these splits.
  func knows(_ splits: [Int]) -> Bool { splits.isEmpty || knowsSplits == true }
}

public enum Destination: Hashable, Sendable {
  /// The process of that name.
  case peer(String)
  /// Any ready process of that role; of share services, one of the highest known epoch.
  case role(Role)
}

/// The circumstances of a call, for its handler.
public struct CallContext: Sendable {
  public let caller: Peer
  /// The time when the caller stops waiting.
  public let deadline: ContinuousClock.Instant
  private let release: @Sendable () -> Void

  public init(caller: Peer, deadline: ContinuousClock.Instant, release: @escaping @Sendable () -> Void) {
    self.caller = caller
    self.deadline = deadline
    self.release = release
  }

  /// Lets the next message with the same ordering key start while this call goes on. A handler calls it once the call
  /// has its place in another order, such as a shard's writer queue. Returning has the same effect.
  public func startNext() { release() }
}

/// A process's end of the bus. Two implementations share the contract: ZeroMQ, and an in-memory one for tests.
public protocol Bus: AnyObject, Sendable {
  /// Calls one peer and waits for its answer. Calls of one actor leave in the order in which it makes them.
  /// - Throws: `BusError`: `timedOut` after `deadline`, `cancelled` with the task, `unreachable`, `overloaded`, or the
  ///   error of the handler.
  func call<M: Message>(_ message: M, body: [UInt8], to destination: Destination, within deadline: Duration)
    async throws(BusError) -> Answer<M.Reply>
  /// This process as its peers see it.
  var own: Peer { get }
  /// The connected peers, ascending by name; this process is not among them.
  var peers: [Peer] { get }
  /// A stream of membership changes, beginning with the present peers; also yields when this process's readiness
  /// changes. A slow reader gets only the newest list. It ends when the bus closes.
  func peerChanges() -> AsyncStream<[Peer]>
  /// Connects to an endpoint and stays connected through its restarts; a second call for the same endpoint has no
  /// effect.
  /// - Parameter peer: the process expected there. A bus with keys accepts only its key, and no key at all without a
  ///   `peer`.
  func connect(to endpoint: String, of peer: Destination?)
  /// Gives up a connection.
  func disconnect(from endpoint: String)
  /// Sets the keys that a bus with keys admits. A process whose key is no longer listed is lost at once, and its frames
  /// are dropped.
  func admit(_ known: KnownPeers)
  /// Announces readiness to all peers.
  func setReady(_ isReady: Bool)
  /// Announces the epoch in which this process leads, or which it follows.
  func setEpoch(_ epoch: Int64)
  /// Announces draining, waits at most `limit` until peers know it and running handlers end, then says goodbye.
  func drain(within limit: Duration) async
  /// Fails calls under way, cancels handlers, ends streams. Must be called before the bus is released; a second call
  /// has no effect.
  func close()
  /// Counts since the start; zeros after the bus is closed.
  func statistics() async -> BusStatistics
  /// Runs steps of a task on the thread on which answers arrive, which saves a change of threads for each answer. Only
  /// for tasks whose steps are short and never block; nil if the bus has no such thread.
  var executor: (any TaskExecutor)? { get }
}

extension Bus {
  public var executor: (any TaskExecutor)? { nil }
  /// A bus without keys admits everybody.
  public func admit(_ known: KnownPeers) {}
  public func connect(to endpoint: String) { connect(to: endpoint, of: nil) }

  public func call<M: Message>(_ message: M, to destination: Destination, within deadline: Duration)
    async throws(BusError) -> M.Reply
  {
    try await call(message, body: [], to: destination, within: deadline).reply
  }
}

/// The rules for a message that apply before its content is read.
package struct ServedMessage: Sendable {
  var lane = Lane.usual
  var senders: Set<Role>
}

/// A table of handlers by message name; the bus gets it before it starts.
public struct BusHandlers: Sendable {
  /// Decodes the arguments, runs the handler and encodes the reply.
  public typealias Handler =
    @Sendable (_ arguments: [UInt8], _ body: [UInt8], _ context: CallContext) async throws -> (
      reply: [UInt8], body: [UInt8]
    )

  public struct Entry: Sendable {
    public let handler: Handler
    let rule: ServedMessage
    let isBrief: @Sendable (_ key: String, _ byteCount: Int) -> Bool

    public init(
      handler: @escaping Handler, senders: Set<Role>, lane: Lane = .usual,
      isBrief: @escaping @Sendable (_ key: String, _ byteCount: Int) -> Bool = { _, _ in false }
    ) {
      self.handler = handler
      rule = ServedMessage(lane: lane, senders: senders)
      self.isBrief = isBrief
    }
  }

  public private(set) var entries: [String: Entry] = [:]
  /// Gets descriptions that callers must not see: of errors that became `internalError`, and of arguments that did not
  /// decode.
  let report: @Sendable (_ message: String, _ description: String) -> Void

  /// - Parameter report: for logs. A description may quote a peer's bytes, so it belongs into debug output only.
  public init(report: @escaping @Sendable (_ message: String, _ description: String) -> Void = { _, _ in }) {
    self.report = report
  }

  package var served: [String: ServedMessage] { entries.mapValues(\.rule) }

  mutating func set(_ entry: Entry, for name: String) {
    precondition(entries[name] == nil, "two handlers for \(name)")
    entries[name] = entry
  }
}
