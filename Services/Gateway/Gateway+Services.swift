// Requests that other services answer: workers answer both planes, the share service answers operators.

import Authentication
import Crypto
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  func database(_ exchange: IncomingRequest, _ match: RouteMatch, _ address: Address, _ caller: Caller)
    async throws(RecordError) -> HTTPResponse
  {
    guard let route = match.databaseRoute, let container = address.container, let environment = address.environment,
      let scope = address.scope
    else {
      throw RecordError(.internalError, "The route has no database")
    }
    guard route.hasPossibleName else { throw Self.unknownPath }
    // The caller's own shard answers for the object plane of the shared database: it knows the caller's stores, and
    // asks the owners' shards for their zones. Record requests go to the owners' workers, which hold the records.
    let owner = scope == .public ? DatabaseID.publicOwner : caller.userRecordName ?? DatabaseID.publicOwner
    let request = DatabaseRequest(
      route, query: Self.query(of: exchange.request),
      database: DatabaseID(container: container, environment: environment, owner: owner), scope: scope, caller: caller,
      requestID: try Self.requestID(exchange, caller), baseURL: options.publicAddress.url(for: exchange.request))
    if case .record(let call) = route, scope == .shared {
      let shared = SharedDatabase(
        call: call, request: request, body: exchange.request.body, caller: owner, forwarding: forwarding,
        owners: sharedOwners,
        holding: PartBudget.Holding(parts, of: owner))
      return Self.response(try await shared.answer())
    }
    let answer: Answer<DatabaseRequest.Reply>
    if case .store(.fetchEvents, of: let store, item: _) = route, Self.wantsStream(exchange.request) {
      let (target, scope) = (match.route.target, address.scope)
      return try await eventStream(request, ofStore: store, exchange) {
        [self, asked = exchange.withoutPlace] () async throws(RecordError) in
        var exchange = asked
        guard let question = exchange.authentication?.question else { return }
        let present = try await check(question, exchange.credentials, target.need(in: scope), &exchange)
        if let member = present.member { try Self.expect(member, toSee: container) }
      }
    }
    if let subject = Self.waitingSubject(of: request), let wait = try Self.wait(request.query["wait"]) {
      answer = try await forwarding.forward(request, body: exchange.request.body, waiting: wait, for: subject)
    } else {
      answer = try await forwarding.forward(request, body: exchange.request.body)
    }
    return Self.response(answer)
  }

  /// `/admin/1/zone/{container}/{environment}/{owner}/{zone}/{call}`: asks the worker that holds the owner's shard. The
  /// owner `public` stands for the public database.
  func operatorZone(_ exchange: IncomingRequest, _ match: RouteMatch, _ address: Address, _ caller: Caller)
    async throws(RecordError) -> HTTPResponse
  {
    guard let route = match.databaseRoute, let container = address.container, let environment = address.environment,
      let owner = match.names.first
    else {
      throw RecordError(.internalError, "The route has no zone")
    }
    guard route.hasPossibleName else { throw Self.unknownPath }
    let isPublic = owner == DatabaseScope.public.rawValue
    let act = try await begin(exchange, caller, in: container, isChange: route.method != "GET")
    let request = DatabaseRequest(
      route, query: Self.query(of: exchange.request),
      database: DatabaseID(
        container: container, environment: environment, owner: isPublic ? DatabaseID.publicOwner : owner),
      scope: isPublic ? .public : .private,
      caller: Caller(userRecordName: nil, isOperator: true, member: caller.member),
      requestID: try Self.requestID(exchange, caller),
      baseURL: options.publicAddress.url(for: exchange.request))
    return try await carryOut(act) { () async throws(RecordError) in
      Self.response(try await forwarding.forward(request, body: exchange.request.body))
    }
  }

  /// `POST /admin/1/zone/{container}/{environment}/{owner}/{zone}/unshare`: deletes a share as its owner would. The
  /// body names the share's record; `{}` stands for the share of the whole zone.
  func unshare(_ exchange: IncomingRequest, _ match: RouteMatch, _ address: Address, _ caller: Caller)
    async throws(RecordError) -> HTTPResponse
  {
    guard let container = address.container, let environment = address.environment, match.names.count == 2,
      match.names[0] != DatabaseScope.public.rawValue
    else {
      throw RecordError(.badRequest, "Only zones of private databases can be shared")
    }
    let body = try JSONValue.request(exchange.request.body)
    guard body["share"]?.isNull ?? true || body["share"]?.string != nil else {
      throw RecordError(.badRequest, "share is the name of the share's record")
    }
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("operations")
    writer.beginArray()
    writer.beginObject()
    writer.member("operationType", "forceDelete")
    writer.key("record")
    writer.beginObject()
    writer.member("recordName", body["share"]?.string ?? ReservedName.zoneShareRecordName)
    writer.endObject()
    writer.endObject()
    writer.endArray()
    writer.key("zoneID")
    writer.beginObject()
    writer.member("zoneName", match.names[1])
    writer.endObject()
    writer.endObject()
    let act = try await begin(exchange, caller, in: container, isChange: true)
    let request = DatabaseRequest(
      .record(.modifyRecords), query: [:],
      database: DatabaseID(container: container, environment: environment, owner: match.names[0]), scope: .private,
      caller: Caller(userRecordName: match.names[0], member: caller.member),
      requestID: try Self.requestID(exchange, caller), baseURL: options.publicAddress.url(for: exchange.request))
    let operations = writer.bytes
    return try await carryOut(act) { () async throws(RecordError) in
      Self.response(try await forwarding.forward(request, body: operations))
    }
  }

  private static func response(_ answer: Answer<DatabaseRequest.Reply>) -> HTTPResponse {
    var headers = [(name: "Content-Type", value: answer.reply.contentType ?? ErrorAnswer.jsonHeader.value)]
    if let seconds = answer.reply.retryAfter { headers.append(("Retry-After", String(seconds))) }
    return HTTPResponse(status: answer.reply.status, headers: headers, body: .bytes(answer.body))
  }

  /// The database or store that a held request of the object plane waits for; nil for calls that are never held.
  private static func waitingSubject(of request: DatabaseRequest) -> ChangeWaiters.Subject? {
    guard case .store(let call, let store, _) = request.route, call.canWait else { return nil }
    return call == .fetchChanges ? .database(request.database) : .store(request.database, store)
  }

  /// What a request waits for; nil for one that is answered at once. A parameter `wait` that a call does not know, or
  /// that stands for no time, is no wait.
  static func wait(of request: HTTPRequest, _ match: RouteMatch) -> IncomingRequest.Wait? {
    guard case .store(let call, _, _)? = match.databaseRoute else { return nil }
    let text = request.query("wait")
    if call == .saveTransactions { return text == "export" ? .export : nil }
    if call == .fetchEvents, wantsStream(request) { return .change }
    // Dropped because the call refuses what is no number of seconds.
    return call.canWait && (try? wait(text)) != nil ? .change : nil
  }

  /// Calls that operators look at in trouble. They fail sooner than clients' calls.
  private static let views: Set<String> = [
    "status", "workers", "shards", "stores", "zones", "events", "quarantine", "sample", "history", "logs",
  ]
  private static let viewLimit = Duration.seconds(4)

  func operatorCall(_ exchange: IncomingRequest, _ caller: Caller) async throws(RecordError) -> HTTPResponse {
    let request = exchange.request
    let message = OperatorRequest(
      method: request.method.rawValue, path: request.pathSegments, query: Self.query(of: request),
      member: caller.member)
    let answer: Answer<OperatorRequest.Reply>
    if Self.views.contains(message.path.last ?? ""), message.method == "GET" {
      do throws(RecordError) {
        answer = try await share.call(message, body: request.body, within: Self.viewLimit)
      } catch {
        guard error.code == .tryAgainLater else { throw error }
        throw RecordError(
          .tryAgainLater,
          """
          The share service does not answer. Saves and imports of known users go on with the last cluster map. Check \
          aquifer-share and its log
          """,
          retryAfter: error.retryAfter)
      }
    } else {
      answer = try await share.call(message, body: request.body)
    }
    return HTTPResponse(answer)
  }

  /// The query without credentials. The first of several values with one name counts.
  static func query(of request: HTTPRequest) -> [String: String] {
    var query: [String: String] = [:]
    for (name, value) in request.query where !Credentials.queryNames.contains(name) && query[name] == nil {
      query[name] = value
    }
    return query
  }

  /// The idempotency key: the client's, prefixed with the user so that users can't collide, or a generated one.
  static func requestID(_ exchange: IncomingRequest, _ caller: Caller) throws(RecordError) -> String {
    guard let own = exchange.request.header("x-request-id") else { return "gateway:" + exchange.uuid }
    guard HTTPRequest.isTraceID(own) else {
      throw RecordError(.badRequest, "X-Request-ID has 1 to 128 printable characters without spaces")
    }
    // A call of the staff never repeats one of the user whose data it concerns.
    return (caller.member == nil ? caller.userRecordName ?? "-" : "-") + ":" + own
  }

  /// A name for an object that the client lets the server name: the same in every repetition of a request, otherwise
  /// unique.
  static func name(drawnFor requestID: String) -> String { SpelledDigest(digest: SHA256.hash(requestID)).uuid() }

  /// Spells a digest as a UUID by posing as a random source.
  private struct SpelledDigest: RandomSource {
    let digest: [UInt8]
    func bytes(_ count: Int) -> [UInt8] { Array(digest.prefix(count)) }
  }

  /// The seconds of a long poll, at most `longestWaitSeconds`; nil without a wait.
  static func wait(_ text: String?) throws(RecordError) -> Duration? {
    guard let text else { return nil }
    guard let seconds = Int(text), seconds >= 0 else {
      throw RecordError(.badRequest, "wait is a number of seconds, at most \(longestWaitSeconds)")
    }
    return seconds == 0 ? nil : .seconds(min(seconds, longestWaitSeconds))
  }
}

extension StoreRoute {
  /// True if a client can ask to wait until the call has something new to tell.
  fileprivate var canWait: Bool { self == .fetchChanges || self == .fetchEvents || self == .status }
}

extension HTTPResponse {
  /// The share service's answer to an operator call.
  init(_ answer: Answer<OperatorRequest.Reply>) {
    var headers = [("Content-Type", answer.reply.contentType)]
    if let retryAfter = answer.reply.retryAfter { headers.append(("Retry-After", String(retryAfter))) }
    self.init(status: answer.reply.status, headers: headers, body: .bytes(answer.body))
  }
}
