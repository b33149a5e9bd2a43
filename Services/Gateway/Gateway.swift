// Answers one HTTP request: finds the route, checks the credentials, asks a service, and adds the common headers.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

/// The HTTP face of an installation. It stores nothing: everything it remembers can be asked for again.
struct Gateway: HTTPHandler {
  /// Addresses and limits.
  struct Options: Sendable {
    let publicAddress: PublicAddress
    /// The address at which clients reach the notifier, without a final slash.
    let notifierURL: String
    /// How long the gateway retries a client's request before it answers `tryAgainLater`.
    let requestLimit: Duration
    /// nil: no limit.
    var rate: TokenBucket.Rate?
    /// Limits for requests under way.
    var places = PlaceBook.Limits()
    /// Limits for requests of the shared database that go to several owners.
    var parts = PartBudget.Limits()
  }

  static let longestWaitSeconds = 60

  let options: Options
  let state: GatewayState
  let forwarding: Forwarding
  let share: ShareCalls
  let sharedOwners: SharedOwners
  let couriers: Couriers
  let secrets: Secrets
  let assets: AssetDownloads
  let uploads: AssetUploads
  let wallClock: any WallClock
  let random: any RandomSource
  let metrics: GatewayMetrics
  let limiter: RateLimiter
  let places: RequestPlaces
  let parts: PartBudget
  private let compression: AnswerCompression
  private let requestLog: RequestLog
  let log: Log
  let table = RouteTable()
  /// The console's pages; nil: this server has no console.
  var consoleSite: ConsoleSite?
  /// True for a server that serves nothing but the console.
  var isConsoleOnly = false
  let live: LiveFeed

  /// - Parameters:
  ///   - bus: the bus that has the handlers of `state`.
  ///   - uploads: takes the content that clients send.
  ///   - findAsset: finds a shard's content; nil: this gateway serves no assets.
  init(
    options: Options, state: GatewayState, bus: any Bus, wallClock: any WallClock, random: any RandomSource,
    metrics: GatewayMetrics, uploads: AssetUploads,
    log: Log = .silent, findAsset: AssetDownloads.Find?
  ) {
    self.options = options
    self.state = state
    share = ShareCalls(bus: bus, timing: state.timing, limit: options.requestLimit)
    sharedOwners = SharedOwners(share: share, timing: state.timing)
    couriers = Couriers(bus: bus)
    forwarding = Forwarding(
      bus: bus, cluster: state.cluster, waiters: state.waiters, timing: state.timing, limit: options.requestLimit)
    secrets = Secrets(share: share)
    assets = AssetDownloads(find: findAsset)
    self.uploads = uploads
    self.wallClock = wallClock
    self.random = random
    self.metrics = metrics
    self.log = log
    requestLog = RequestLog(log: log, metrics: metrics, clock: wallClock)
    limiter = RateLimiter(rate: options.rate, timing: state.timing)
    places = RequestPlaces(options.places)
    parts = PartBudget(options.parts)
    compression = AnswerCompression(metrics)
    live = LiveFeed(share: share, timing: state.timing)
  }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    if request.method == .options { return Self.preflight(request) }
    let uuid = random.uuid()
    let exchange = IncomingRequest(request: request, uuid: uuid, traceID: request.clientTraceID ?? uuid)
    return await RequestTrace.$id.withValue(exchange.traceID) { await respond(in: exchange) }
  }

  private func respond(in exchange: IncomingRequest) async -> HTTPResponse {
    var exchange = exchange
    let request = exchange.request
    let start = state.timing.now()
    var response: HTTPResponse
    do throws(RecordError) {
      response = try await answer(&exchange)
    } catch {
      response = ErrorAnswer.response(error, uuid: exchange.traceID, showsCKErrorCode: exchange.isMirror)
      if let allowed = exchange.allowedMethods { response.headers.append(("Allow", allowed)) }
      // The server has handed the content over, so nobody else discards it.
      (request.sink as? AssetUploadSink)?.abort()
    }
    response.headers.append(("X-Apple-Request-UUID", exchange.traceID))
    response.party = exchange.party
    if exchange.isConsole {
      response.headers += ConsoleSite.protection
      // Only the pages' own files may be kept: other answers are what this person may see now.
      if !response.headers.contains(where: { $0.name == "Cache-Control" }) {
        response.headers.append(("Cache-Control", "no-store"))
      }
    } else if !exchange.isPage {
      response.headers += CORS.headers(origin: request.header("origin"), allowed: exchange.allowedOrigins)
    }
    if let successor = await successor(exchange, response) {
      response.headers.append(("X-Apple-CloudKit-Web-Auth-Token", successor))
    }
    if !exchange.isPage, response.isCompressible {
      // Caches must not give a client the answer of another one that accepts other codings.
      response.headers.append(("Vary", "Accept-Encoding"))
      if ContentCoding.prefersGzip(request.headers) {
        await compression.compress(&response, party: exchange.party ?? request.clientNetwork.description)
      }
    }
    requestLog.tell(of: exchange, status: response.status, took: state.timing.now() - start)
    return response
  }

  /// Database requests run on the bus's executor if the gateway only passes them on: it makes one call for them.
  func executor(for request: HTTPRequest) -> (any TaskExecutor)? {
    Self.isPassedOn(request.pathSegments) ? forwarding.bus.executor : nil
  }

  /// True for the path of a database request whose body and answer the gateway passes on unread. It reads those of the
  /// shared database and of short GUIDs, and asks several workers for them.
  static func isPassedOn(_ path: [String]) -> Bool {
    switch path.first {
    case "mirror": true
    case "database":
      path.count < 7
        || path[4] != DatabaseScope.shared.rawValue && !(path[5] == "records" && readCalls.contains(path[6]))
    default: false
    }
  }

  private static let readCalls: Set = ["resolve", "accept", "decline", "requestAccess"]

  func intake(of request: HTTPRequest) -> HTTPBodyIntake {
    guard request.method == .post, request.pathSegments.starts(with: AssetUploadURL.prefix) else {
      return bodyIntake(of: request)
    }
    if isConsoleOnly { return .refuse(refusal(Self.unknownPath)) }
    do throws(RecordError) {
      return .stream(
        try uploads.sink(
          for: request.pathSegments, byteCount: request.header("content-length").flatMap { Int($0) },
          key: secrets.knownSigningKey, wallClock: wallClock
        ) { user throws(RecordError) in
          try take(.uploads(user: user))
        })
    } catch {
      return .refuse(refusal(error))
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse {
    refusal(RecordError(refusedWith: status, reason: reason))
  }

  /// The answer to a request that is refused before any service is asked.
  func refusal(_ error: RecordError, showsCKErrorCode: Bool = false) -> HTTPResponse {
    let uuid = random.uuid()
    var response = ErrorAnswer.response(error, uuid: uuid, showsCKErrorCode: showsCKErrorCode)
    response.headers.append(("X-Apple-Request-UUID", uuid))
    response.headers += CORS.headers(origin: nil, allowed: [])
    metrics.countRefusal(status: response.status)
    return response
  }

  private func answer(_ exchange: inout IncomingRequest) async throws(RecordError) -> HTTPResponse {
    if let answer = try await enterConsole(&exchange) { return answer }
    let request = exchange.request
    let match: RouteMatch
    switch table.outcome(of: request.method, request.pathSegments) {
    case .match(let found): match = found
    case .wrongMethod(let found):
      exchange.route = found.pattern
      exchange.allowedMethods = found.allowed.map(\.rawValue).joined(separator: ", ")
      throw Self.wrongMethod(found)
    case .unknown: throw Self.unknownPath
    }
    exchange.route = match.route.pattern
    let address = try Address(match)
    exchange.isPage = match.route.target.isPage
    let need = match.route.target.need(in: address.scope)
    let credentials = exchange.credentials
    let question = try Access.question(
      need: need, takesServerKeys: match.route.target.takesServerKeys(in: address.scope), address: address,
      credentials: credentials)
    let caller = try await authenticate(question, credentials, need, &exchange)
    exchange.party = Self.party(of: caller, in: address)
    exchange.wait = Self.wait(of: request, match)
    exchange.place = try place(for: caller, exchange, address)
    let response = try await respond(exchange, match, address, caller)
    // A caller whose credentials ended while the answer was held must not get it. Without changes this asks nobody.
    if let question, exchange.wait == .change {
      let present = try await check(question, credentials, need, &exchange)
      if let member = present.member, let container = address.container {
        try Self.expect(member, toSee: container)
      }
    }
    return response
  }

  private func respond(_ exchange: IncomingRequest, _ match: RouteMatch, _ address: Address, _ caller: Caller)
    async throws(RecordError) -> HTTPResponse
  {
    let request = exchange.request
    let user = caller.userRecordName ?? ""
    switch match.route.target {
    case .record, .store, .zone: return try await database(exchange, match, address, caller)
    case .resolveShares: return try await resolve(exchange, .resolve, address, caller)
    case .acceptShares: return try await resolve(exchange, .accept, address, caller)
    case .declineShares: return try await resolve(exchange, .decline, address, caller)
    case .requestShareAccess: return try await resolve(exchange, .requestAccess, address, caller)
    case .operatorCall: return try await operatorCall(exchange, caller)
    case .operatorZone: return try await operatorZone(exchange, match, address, caller)
    case .operatorUnshare: return try await unshare(exchange, match, address, caller)
    case .operatorRecord, .operatorStore: return try await operatorDatabase(exchange, match, address, caller)
    case .live: return try await live(exchange, caller)
    case .livePings: return try await livePings(exchange, caller)
    case .consoleSession: return try await consoleSession(exchange)
    case .userCaller: return Self.json(UserAnswer.caller(try await People(share: share).user(user)))
    case .userCurrent: return Self.json(UserAnswer.current(try await People(share: share).user(user)))
    case .userDiscovery: return Self.json(try await People(share: share).discover(request, caller: user))
    case .userLookup: return Self.json(try await People(share: share).lookUp(request, caller: user))
    case .createPushToken, .registerPushToken:
      return try await pushToken(exchange, isNew: match.route.target == .createPushToken, address, user: user)
    case .unregisterPushToken: return try await unregisterPush(exchange, address, user: user)
    case .pushKey: return try await pushKey(address)
    case .assetTokens: return try await uploadTokens(exchange, address, user: user)
    case .assetUpload: return try await upload(request)
    case .asset:
      try uploads.checkFolder()
      let url = try AssetDownloads.url(of: request, key: try await secrets.signingKey(), now: wallClock.now / 1000)
      try take(.downloads(party: AssetDownloads.party(request, url)))
      if let reader = url.reader { try await check(reader) }
      // Contents of databases that were split off have moved to another shard's part.
      let places = forwarding.cluster.layout?.heirs(of: url.shard) ?? [url.shard]
      return try await assets.response(to: request, of: url, in: places)
    case .signIn: return try await signIn(request, to: .app)
    case .account: return try await account(request)
    case .verifyDevice: return try await verifyDevice(request)
    case .beginDevice: return try await beginDevice(exchange, address)
    case .deviceToken: return try await deviceToken(exchange, address)
    case .beginLink: return try await beginLink(request, provider: match.names[0])
    case .beginIdentity: return try await beginIdentity(request, provider: match.names[0])
    case .finishIdentity: return try await finishIdentity(request, provider: match.names[0])
    case .providerIcon: return try await providerIcon(request, provider: match.names[0])
    case .endIdentitySessions: return try await endIdentitySessions(request, provider: match.names[0])
    case .exchangeIdentity: return try await exchangeIdentity(exchange, address)
    case .sharePage: return try await visitShare(request)
    case .stopMail: return try await stopMail(request, match.names[0])
    case .welcome: return Self.welcome
    case .openAPI: return Self.openAPIResponse
    }
  }

  static func json(_ bytes: [UInt8]) -> HTTPResponse {
    HTTPResponse(status: 200, headers: [ErrorAnswer.jsonHeader], body: .bytes(bytes))
  }
}
