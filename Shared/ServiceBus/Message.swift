// What services say to each other: typed messages with names of ours, and stable errors.

import MessagePack

/// A request between services and the answer it gets.
///
/// On the wire a message is MessagePack with string keys: fields are only ever added, optional or defaulted; anything else is a new
/// name (`…/2`) beside the old one for a release. Bulk (request bodies, record batches) travels as an opaque body in a frame of its own.
public protocol Message: Codable, Sendable {
  associatedtype Reply: Codable & Sendable
  /// Ours, stable under refactoring: `database.request/1`.
  static var name: String { get }
  /// Whose processes may send it; others are refused.
  static var senders: Set<Role> { get }
  /// Whether it may be sent again when it is unknown whether it arrived.
  static var isRepeatable: Bool { get }
  /// What it waits behind; `.usual` unless said otherwise.
  static var lane: Lane { get }
  /// Messages of a lane with equal keys start in the order they arrived at the peer; nil: in any order.
  var orderingKey: String? { get }
  /// For whom it is sent: where messages of several parties wait for a peer, these take turns. Empty: for nobody, the server itself.
  var party: String { get }

  /// The MessagePack of a message and of its reply, there and back. Written by hand only where `Codable` is too slow, and of the same form.
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
  public static func decoded(from bytes: [UInt8]) throws -> Self { try MessagePackDecoder().decode(Self.self, from: bytes) }
  public static func encoded(_ reply: Reply) throws -> [UInt8] { try MessagePackEncoder().encode(reply) }
  public static func decodedReply(from bytes: [UInt8]) throws -> Reply { try MessagePackDecoder().decode(Reply.self, from: bytes) }
}

/// What calls wait behind: each lane has windows, places for handlers and queues of its own.
///
/// A handler that calls others would wait for ever where those can't take its call because their handlers wait for calls of the same kind.
/// So what handlers call is `nested`, and a handler of a nested message calls nobody on either lane who might wait for it.
public enum Lane: Sendable, CaseIterable {
  case usual, nested
}

/// The reply of messages that only need an acknowledgement.
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

/// A failure of a call: a stable code and a text, never a Swift type's name.
public struct BusError: Error, Hashable, Sendable {
  /// Codes compare by their text, so that a newer peer's code passes through.
  public struct Code: RawRepresentable, Hashable, Sendable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The deadline passed; it is unknown whether the call was executed.
    public static let timedOut = Code(rawValue: "timedOut")
    public static let cancelled = Code(rawValue: "cancelled")
    /// The peer is not connected, or was lost before it answered; then it is unknown whether the call was executed.
    public static let unreachable = Code(rawValue: "unreachable")
    /// Window and backlog are full; not executed.
    public static let overloaded = Code(rawValue: "overloaded")
    /// The peer takes nothing new; not executed.
    public static let draining = Code(rawValue: "draining")
    public static let unknownMessage = Code(rawValue: "unknownMessage")
    /// Arguments that don't decode; not executed.
    public static let badMessage = Code(rawValue: "badMessage")
    /// A body or arguments over the bus's limit; not executed (of a reply: executed).
    public static let tooLarge = Code(rawValue: "tooLarge")
    /// The shard is not held by that worker (or no longer): ask again with the latest map; not executed.
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

/// The roles of processes.
public enum Role: String, Hashable, Sendable, Codable, CaseIterable {
  case gateway, worker, share, notifier
}

/// A process on the bus.
public struct Peer: Hashable, Sendable, Codable {
  /// Unique among the living processes of the installation and stable over restarts, e.g. `worker-1`.
  public let name: String
  public let role: Role
  /// Drawn at start: tells a restarted process from its predecessor. Of two living processes with one name the greater counts.
  public let incarnation: UInt64
  /// Where others connect to it, e.g. `ipc:///run/aquifer/worker-1.sock` or `tcp://127.0.0.1:21001`.
  public let endpoint: String
  /// Takes new work; false while starting and draining.
  public var isReady: Bool
  /// Where the process serves `/metrics`, e.g. `http://127.0.0.1:9101`; nil when unknown.
  public var adminURL: String?
  /// The newest stored format of shards that the process knows, of workers; nil: of a release that does not say, which is older than any that does.
  public var shardFormat: Int?

  public init(name: String, role: Role, incarnation: UInt64, endpoint: String, isReady: Bool, adminURL: String? = nil, shardFormat: Int? = nil) {
    self.name = name
    self.role = role
    self.incarnation = incarnation
    self.endpoint = endpoint
    self.isReady = isReady
    self.adminURL = adminURL
    self.shardFormat = shardFormat
  }
}

public enum Destination: Hashable, Sendable {
  /// The process of that name.
  case peer(String)
  /// Any ready process of that role.
  case role(Role)
}

/// What a handler knows of the call it serves.
public struct CallContext: Sendable {
  public let caller: Peer
  /// When the caller stops waiting.
  public let deadline: ContinuousClock.Instant
  private let release: @Sendable () -> Void

  public init(caller: Peer, deadline: ContinuousClock.Instant, release: @escaping @Sendable () -> Void) {
    self.caller = caller
    self.deadline = deadline
    self.release = release
  }

  /// Lets the next message with the same ordering key start, although this call goes on: called once this one has its place in an
  /// order of its own (a shard's writer queue). Returning has the same effect.
  public func startNext() { release() }
}

/// A process's end of the bus. Two implementations with one contract: ZeroMQ, and in memory for tests.
public protocol Bus: AnyObject, Sendable {
  /// Calls one peer and waits for its answer. Calls of one actor leave in the order in which it makes them.
  /// - Throws: `BusError`: `timedOut` after `deadline`, `cancelled` with the task, `unreachable`, `overloaded`, or what the handler threw.
  func call<M: Message>(_ message: M, body: [UInt8], to destination: Destination, within deadline: Duration) async throws(BusError) -> Answer<M.Reply>
  /// This process as its peers see it.
  var own: Peer { get }
  /// The peers that are connected, ascending by name; this process is not among them.
  var peers: [Peer] { get }
  /// A fresh stream of membership changes, beginning with the present peers, and renewed when this process's own readiness changes; a
  /// slow reader finds only the newest list. Ends when the bus is closed.
  func peerChanges() -> AsyncStream<[Peer]>
  /// Connects to an endpoint and stays connected through its restarts; a second call for the same endpoint does nothing.
  /// - Parameter peer: who is to be found there: on a bus with keys nobody else's key is accepted, and without a `peer` nobody's.
  func connect(to endpoint: String, of peer: Destination?)
  /// Gives up a connection.
  func disconnect(from endpoint: String)
  /// On a bus with keys: whose are admitted from here on. Who is no longer listed is lost at once, and what he still sends is dropped.
  func admit(_ known: KnownPeers)
  /// Announces readiness to all peers.
  func setReady(_ isReady: Bool)
  /// Announces draining, waits until peers know and what runs is finished (at most `limit`), says goodbye.
  func drain(within limit: Duration) async
  /// Fails what is under way, cancels handlers, ends streams. Must be called before the bus is let go; a second call does nothing.
  func close()
  /// Counts since the start; zeros once the bus is closed.
  func statistics() async -> BusStatistics
  /// Runs the steps of a task on the thread where answers to calls arrive, so that an answer needs no further thread to be taken on. For
  /// tasks whose steps are short and never block; nil: the bus has no such thread.
  var executor: (any TaskExecutor)? { get }
}

extension Bus {
  public var executor: (any TaskExecutor)? { nil }
  /// A bus without keys admits everybody.
  public func admit(_ known: KnownPeers) {}
  public func connect(to endpoint: String) { connect(to: endpoint, of: nil) }

  public func call<M: Message>(_ message: M, to destination: Destination, within deadline: Duration) async throws(BusError) -> M.Reply {
    try await call(message, body: [], to: destination, within: deadline).reply
  }
}

/// What is known of a message before anything of it is read.
struct ServedMessage: Sendable {
  var lane = Lane.usual
  var senders: Set<Role>
}

/// A table of handlers by message name; given to a bus before it starts.
public struct BusHandlers: Sendable {
  /// Decodes arguments, runs the handler, encodes the reply.
  public typealias Handler = @Sendable (_ arguments: [UInt8], _ body: [UInt8], _ context: CallContext) async throws -> (reply: [UInt8], body: [UInt8])

  public struct Entry: Sendable {
    public let handler: Handler
    let rule: ServedMessage
    let isBrief: @Sendable (_ key: String, _ byteCount: Int) -> Bool

    public init(
      handler: @escaping Handler, senders: Set<Role>, lane: Lane = .usual, isBrief: @escaping @Sendable (_ key: String, _ byteCount: Int) -> Bool = { _, _ in false }
    ) {
      self.handler = handler
      rule = ServedMessage(lane: lane, senders: senders)
      self.isBrief = isBrief
    }
  }

  public private(set) var entries: [String: Entry] = [:]
  /// Told what callers are not: the description of an error that became `internalError`, of arguments that did not decode.
  let report: @Sendable (_ message: String, _ description: String) -> Void

  /// - Parameter report: for logs; a description may quote what a peer sent, so it belongs into debug output only.
  public init(report: @escaping @Sendable (_ message: String, _ description: String) -> Void = { _, _ in }) {
    self.report = report
  }

  var served: [String: ServedMessage] { entries.mapValues(\.rule) }

  mutating func set(_ entry: Entry, for name: String) {
    precondition(entries[name] == nil, "two handlers for \(name)")
    entries[name] = entry
  }
}
