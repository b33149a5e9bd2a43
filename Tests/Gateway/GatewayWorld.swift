import Assets
import FixedClocks
import HTTPServer
import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

/// A gateway with a scripted share service and scripted workers on an in-memory bus.
final class GatewayWorld: Sendable {
  static let container = "iCloud.org.example.photos"
  static let apiToken = String(repeating: "a", count: 64)
  static let restrictedToken = String(repeating: "b", count: 64)
  static let shardCount = 8
  /// The random byte of a short GUID that no worker knows.
  static let absent: UInt8 = 9
  static let signingKey = [UInt8](repeating: 7, count: 32)

  typealias Worker =
    @Sendable (_ worker: String, DatabaseRequest, _ body: [UInt8]) async throws -> Answer<DatabaseRequest.Reply>

  /// Delays an answer of records/resolve, or refuses it.
  typealias Resolver = @Sendable (ResolveShortGUIDs) async throws -> Void

  /// A shard's JSON for the only item of a question about short GUIDs; nil: the default item.
  typealias Sharing = @Sendable (ResolveShortGUIDs) -> String

  struct Record: Sendable {
    var authentications = 0
    var requests: [(worker: String, request: DatabaseRequest, body: [UInt8])] = []
    var resolutions: [ResolveShortGUIDs] = []
    var operatorRequests: [(request: OperatorRequest, body: [UInt8])] = []
    /// Tokens that the directory no longer knows.
    var revoked: Set<String> = []
    /// Public keys in DER, by key ID.
    var serverKeys: [String: [UInt8]] = [:]
    /// The first request to use each signature.
    var claims: [[UInt8]: String] = [:]
    var signIns: [SignIn] = []
    var rotations = 0
    /// The callback URL of API tokens.
    var callbackURL: String?
    /// The owners whose zones Alice can access; nil: the share service does not answer.
    var sharedZones: [FetchSharedZones.Reply.Owner]? = []
    var sharedZoneQuestions = 0
    /// nil: the share service does not know the question.
    var app: LookUpApp.Reply? = LookUpApp.Reply(displayName: "Photo Book", appURL: "https://photos.example.org")
    var appQuestions = 0
    /// Users disabled during the test.
    var disabled: Set<String> = []
    /// Providers of identities; nil: the share service does not know the question.
    var providers: [IdentityProviderEntry]?
    /// The containers whose providers were asked for.
    var providerQuestions: [ContainerID?] = []
    var identitySignIns: [SignInByIdentity] = []
    var refusedSignIns: [NoteRefusedSignIn] = []
    var accountUses: [UseAccount] = []
    /// Addresses that get no more mail.
    var stoppedMail: [String] = []
    var passkeySignIns: [SignInByPasskey] = []
    var logouts: [EndIdentitySessions] = []
    var deviceBeginnings: [BeginDeviceSignIn] = []
    var devicePoll = PollDeviceSignIn.Reply.pending
    /// nil: the page's sign-in counts no more.
    var account: UseAccount.Account?
    var accountRefusal: UseAccount.Refusal?
    /// Seconds to wait before another guess at codes of devices.
    var accountWait: Int?
    /// The reason for refusing the people of providers; nil: they are signed in.
    var identityRefusal: SignInByIdentity.Refusal?
    /// Answers of the share service to the next sign-ins by identity.
    var identityFailures: [BusError.Code] = []
    /// False for a share service of the release before.
    var claimsWithSession = true
    /// How often each user was signed out everywhere; nil: a share service of the release before does not tell.
    var signOutCount: Int64? = 3
    var pushes = Pushes()
    /// Members of the staff whose roles have changed, by the tokens of their sessions.
    var staff: [String: StaffMember] = [:]
    /// The share service's answer to operators, as JSON.
    var operatorAnswer: String?
    /// The status with which it refuses them.
    var operatorRefusal: Int?
    /// Questions about grants that the share service does not answer from now on.
    var missedGrantCount = 0
    var acts: [NoteAct.Act] = []
    var actStatuses: [Int] = []
  }

  let record = Mutex(Record())
  let network = InMemoryNetwork(time: .stepped)
  let metrics = Metrics()
  let state: GatewayState
  let gateway: Gateway
  private let buses: [InMemoryBus]

  /// - Parameters:
  ///   - isMapped: true: the gateway has a map; false: it waits for one.
  ///   - spool: the folder for uploads.
  ///   - uploadStore: the store for uploads in place of a folder.
  ///   - worker: answers database requests; nil: always with an empty object.
  init(
    workers: [String] = ["worker-1"], limit: Duration = .seconds(10), isMapped: Bool = true, servesAssets: Bool = false,
    directAddress: String? = nil, assets: (any AssetStore)? = nil, spool: String? = nil,
    uploadStore: (any AssetStore)? = nil, rate: TokenBucket.Rate? = nil,
    places: PlaceBook.Limits = PlaceBook.Limits(), timing: Timing = .system,
    uploadLimits: AssetUploads.Limits = AssetUploads.Limits(),
    worker: Worker? = nil, resolver: Resolver? = nil, sharing: Sharing? = nil,
    publicURL: String = "http://gateway", console: ConsoleSite? = nil,
    freeByteCount: @escaping @Sendable () -> Int64? = { nil }, waiterLimit: Int = 2
  ) async throws {
    let cluster = Cluster(name: "gateway", role: .gateway)
    state = GatewayState(cluster: cluster, timing: timing, waiterLimit: waiterLimit)
    let relay = Relay()
    var share = BusHandlers()
    share.on(Authenticate.self) { message, _, _ in Answer(relay.world.authenticate(message)) }
    share.on(LookUpUser.self) { message, _, _ in
      guard message.userRecordName == "_alice" else { throw BusError(.notFound, "There is no such user") }
      return Answer(
        LookUpUser.Reply(
          userRecordName: "_alice", givenName: "Alice", familyName: nil, emailAddress: "alice@example.org"))
    }
    share.on(LookUpApp.self) { _, _, _ in
      let app = relay.world.record.withLock { record in
        record.appQuestions += 1
        return record.app
      }
      guard let app else { throw BusError(.unknownMessage, "no such message") }
      return Answer(app)
    }
    share.on(DiscoverUsers.self) { message, _, _ in
      Answer(
        DiscoverUsers.Reply(
          users: message.lookups.map { lookup in
            let isAlice = lookup.userRecordName == "_alice" || lookup.emailAddress == "alice@example.org"
            guard isAlice else { return nil }
            return LookUpUser.Reply(
              userRecordName: "_alice", givenName: "Alice", familyName: nil, emailAddress: lookup.emailAddress)
          }))
    }
    share.on(FetchSharedZones.self) { message, _, _ in
      let owners = relay.world.record.withLock { record in
        record.sharedZoneQuestions += 1
        return record.sharedZones
      }
      guard let owners else { throw BusError(.draining, "the share service is about to stop") }
      return Answer(FetchSharedZones.Reply(owners: message.userRecordName == "_alice" ? owners : []))
    }
    share.on(CheckPassword.self) { message, _, _ in
      switch message.password {
      case "right":
        let signOutCount = relay.world.record.withLock(\.signOutCount)
        return Answer(CheckPassword.Reply(userRecordName: "_" + message.userName, signOutCount: signOutCount))
      case "often": return Answer(CheckPassword.Reply(retryAfter: 120))
      default: return Answer(CheckPassword.Reply())
      }
    }
    share.on(IdentifyUsers.self) { message, _, _ in
      let disabled = relay.world.record.withLock(\.disabled)
      return Answer(
        IdentifyUsers.Reply(
          users: message.lookups.map { lookup in
            guard let name = lookup.userRecordName, !disabled.contains(name) else { return nil }
            return IdentifyUsers.Identity(
              userRecordName: name, givenName: nil, familyName: nil, emailAddress: nil, phoneNumber: nil)
          }))
    }
    share.on(SignIn.self) { message, _, _ in
      relay.world.record.withLock { $0.signIns.append(message) }
      switch message.password {
      case "right": return Answer(SignIn.Reply(webAuthToken: "ses_new"))
      case "late": return Answer(SignIn.Reply(isOver: true))
      case "often": return Answer(SignIn.Reply(retryAfter: 120))
      default: return Answer(SignIn.Reply())
      }
    }
    share.on(RotateSession.self) { message, _, _ in
      relay.world.record.withLock { $0.rotations += 1 }
      return Answer(RotateSession.Reply(successor: message.token + "_next"))
    }
    share.on(ClaimSignature.self) { message, _, _ in
      Answer(
        ClaimSignature.Reply(
          isFresh: relay.world.record.withLock { record in
            let owner = record.claims[message.digest] ?? message.requestID
            record.claims[message.digest] = owner
            return owner == message.requestID
          }))
    }
    Self.serveStaff(in: &share, relay)
    Self.serveGrants(in: &share, relay)
    Self.serveIdentities(in: &share, relay)
    Self.serveSignInAudit(in: &share, relay)
    Self.serveAccounts(in: &share, relay)
    Self.servePasskeys(in: &share, relay)
    Self.serveLogouts(in: &share, relay)
    Self.serveDevices(in: &share, relay)
    Self.servePushes(in: &share, relay)
    share.on(FetchSecrets.self) { _, _, _ in Answer(FetchSecrets.Reply(signingKey: Self.signingKey)) }
    var own = BusHandlers()
    state.serve(on: &own)
    cluster.register(in: &own)
    let bus = InMemoryBus(name: "gateway", role: .gateway, network: network, handlers: own, isReady: true)
    var buses = [InMemoryBus(name: "share", role: .share, network: network, handlers: share, isReady: true)]
    for name in workers {
      var handlers = BusHandlers()
      handlers.on(DatabaseRequest.self) { message, body, _ in
        relay.world.record.withLock { $0.requests.append((name, message, body)) }
        return try await worker?(name, message, body)
          ?? Answer(DatabaseRequest.Reply(status: 200), body: Array("{}".utf8))
      }
      handlers.on(ResolveShortGUIDs.self) { message, _, _ in
        relay.world.record.withLock { $0.resolutions.append(message) }
        try await resolver?(message)
        if let sharing { return Answer(Acknowledgement(), body: Array("[\(sharing(message))]".utf8)) }
        let results = message.items.map { item in
          item.shortGUID.last == "9" ? "null" : #"{"from":"\#(name)","user":"\#(message.caller.userRecordName ?? "")"}"#
        }
        return Answer(Acknowledgement(), body: Array("[\(results.joined(separator: ","))]".utf8))
      }
      handlers.on(LocateShortGUID.self) { message, _, _ in
        if message.shortGUID.last == "9" { return Answer(LocateShortGUID.Reply()) }
        return Answer(LocateShortGUID.Reply(container: ContainerID(rawValue: Self.container), environment: .production))
      }
      buses.append(InMemoryBus(name: name, role: .worker, network: network, handlers: handlers, isReady: true))
    }
    self.buses = buses + [bus]
    let publicAddress = PublicAddress(configured: publicURL)
    var options = Gateway.Options(
      publicAddress: publicAddress, notifierURL: "http://notifier", requestLimit: limit, rate: rate)
    options.places = places
    var gateway = Gateway(
      options: options, state: state, bus: bus, wallClock: FixedClock(), random: CountingRandom(),
      metrics: GatewayMetrics(metrics),
      uploads: AssetUploads(
        store: uploadStore ?? spool.map { AssetFolder(directory: $0) }, byteLimit: 1_000_000, limits: uploadLimits,
        freeByteCount: freeByteCount, log: .silent, metrics: metrics),
      findAsset: assets.map { ServedContent.finder(in: $0, timing: timing, log: .silent) }
        ?? (servesAssets
          ? { @Sendable hash, shard, _ in
            ServedContent(byteCount: 1000, address: directAddress) { offset, byteCount in
              .content(FoundContent(hash, shard), offset: offset, byteCount: byteCount)
            }
          } : nil))
    gateway.consoleSite = console
    self.gateway = gateway
    relay.set(self)
    cluster.start(on: bus, shareEndpoints: [buses[0].endpoint])
    _ = await bus.waitForPeers { !$0.isEmpty }
    if isMapped { try await map(holders: workers) }
  }

  /// Publishes a map in which worker i modulo their count holds shard i.
  func map(version: Int64 = 1, holders: [String], splits: [Int]? = nil) async throws {
    let count = Self.shardCount + (splits?.count ?? 0)
    let map = ClusterMap(
      version: version, members: buses.map(\.own).filter { $0.role == .worker },
      holders: (0..<count).map { holders.isEmpty ? nil : holders[$0 % holders.count] }, splits: splits)
    _ = try await buses[0].call(PublishClusterMap(map: map), to: .peer("gateway"), within: .seconds(10))
  }

  private func authenticate(_ message: Authenticate) -> Authenticate.Reply {
    record.withLock { $0.authentications += 1 }
    if let token = message.userToken, record.withLock({ $0.revoked.contains(token) }) {
      return Authenticate.Reply(refusal: .userToken)
    }
    if message.container == nil {
      if let reply = staff(message.userToken) { return reply }
      return message.userToken == "operator" ? Authenticate.Reply(isOperator: true) : user(message.userToken)
    }
    guard message.container?.rawValue == Self.container else { return Authenticate.Reply(refusal: .container) }
    if let keyID = message.keyID {
      guard let key = record.withLock({ $0.serverKeys[keyID] }) else { return Authenticate.Reply(refusal: .userToken) }
      var reply = Authenticate.Reply(userRecordName: "_server")
      reply.publicKey = key
      return reply
    }
    if let token = message.apiToken, ![Self.apiToken, Self.restrictedToken].contains(token) {
      return Authenticate.Reply(refusal: .apiToken)
    }
    var reply = user(
      message.userToken, origins: message.apiToken == Self.restrictedToken ? ["https://app.example"] : [])
    reply.grant = "grant-\(message.userToken ?? message.apiToken ?? "")"
    reply.callbackURL = record.withLock { message.apiToken == nil ? nil : $0.callbackURL }
    return reply
  }

  private func user(_ token: String?, origins: [String] = []) -> Authenticate.Reply {
    switch token {
    case nil: Authenticate.Reply(allowedOrigins: origins)
    case "alice", "bob": Authenticate.Reply(userRecordName: "_\(token ?? "")", allowedOrigins: origins)
    case "operator": Authenticate.Reply(isOperator: true)
    case "ses_alice": session("_alice", rotationDelay: 0)
    case "ses_young", "ses_new": session("_alice", rotationDelay: 100_000)
    default: Authenticate.Reply(refusal: .userToken, allowedOrigins: origins)
    }
  }

  private func session(_ name: String, rotationDelay: Int64) -> Authenticate.Reply {
    var reply = Authenticate.Reply(userRecordName: name)
    reply.session = .init(rotationDelay: rotationDelay, validity: 300_000)
    return reply
  }

  func respond(
    _ method: HTTPMethod, _ path: String, query: [(String, String)] = [], headers: [(String, String)] = [],
    body: String = "", target: String? = nil, isHead: Bool = false,
    address: String = "127.0.0.1"
  ) async -> HTTPResponse {
    await gateway.respond(
      to: HTTPRequest(
        method: method, isHead: isHead, target: target ?? path,
        pathSegments: path.split(separator: "/").map(String.init),
        query: query.map { (name: $0.0, value: $0.1) },
        headers: headers.map { (name: $0.0, value: $0.1) }, body: Array(body.utf8), remoteAddress: address))
  }

  /// A request of Alice's with credentials in the query.
  func alice(
    _ method: HTTPMethod, _ path: String, query: [(String, String)] = [], headers: [(String, String)] = [],
    body: String = ""
  ) async -> HTTPResponse {
    await respond(
      method, path, query: [("ckAPIToken", Self.apiToken), ("ckWebAuthToken", "alice")] + query, headers: headers,
      body: body)
  }

  var requests: [(worker: String, request: DatabaseRequest, body: [UInt8])] { record.withLock(\.requests) }
  static let records = "/database/1/\(container)/development/private"
  static let stores = "/mirror/1/\(container)/development/private/stores"
}

/// Passes calls to the world, which is made after its handlers.
final class Relay: Sendable {
  private let held = Mutex<GatewayWorld?>(nil)
  func set(_ world: GatewayWorld) { held.withLock { $0 = world } }
  var world: GatewayWorld {
    guard let world = held.withLock({ $0 }) else { preconditionFailure("a call came before the world was made") }
    return world
  }
}

/// Different bytes with every call, but the same in every run.
private final class CountingRandom: RandomSource {
  private let count = Mutex<UInt8>(0)
  func bytes(_ count: Int) -> [UInt8] {
    let first = self.count.withLock {
      $0 &+= 1; return $0
    }
    return (0..<count).map { first &+ UInt8(truncatingIfNeeded: $0) }
  }
}

extension HTTPResponse {
  func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
  var bytes: [UInt8] { if case .bytes(let bytes) = body { bytes } else { [] } }
  var text: String { String(decoding: bytes, as: UTF8.self) }
  var json: JSONValue { get throws { try JSONValue(parsing: bytes) } }
  var code: String? { get throws { try json["serverErrorCode"]?.string } }
}
