// The operator's HTTP calls, from path to answer: `/admin/1/…` and the model and schema calls of the mirror API.

import JSON
import Records
import SQLite
import ServiceBus
import ServiceKit
import WebServices

/// An HTTP answer.
struct OperatorAnswer: Sendable {
  var status = 200
  var contentType = "application/json"
  var body: [UInt8]
  /// Seconds after which the same request may succeed; nil: none are told.
  var retryAfter: Int?

  init(status: Int = 200, contentType: String = "application/json", body: [UInt8]) {
    self.status = status
    self.contentType = contentType
    self.body = body
  }

  init(_ error: RecordError, uuid: String) {
    self.init(status: error.status, body: error.dictionary(uuid: uuid))
    retryAfter = error.retryAfter
  }

  init(text: String) { self.init(contentType: "text/plain; charset=utf-8", body: Array(text.utf8)) }

  /// An object with the members that `write` writes.
  init(_ write: (inout JSONWriter) throws -> Void) rethrows {
    var writer = JSONWriter()
    writer.beginObject()
    try write(&writer)
    writer.endObject()
    self.init(body: writer.bytes)
  }

  /// An object with one array of objects, whose members `write` writes.
  init<Row>(list name: String, _ rows: [Row], _ write: (Row, inout JSONWriter) -> Void) {
    self.init { writer in
      writer.key(name)
      writer.beginArray()
      for row in rows {
        writer.beginObject()
        write(row, &writer)
        writer.endObject()
      }
      writer.endArray()
    }
  }
}

/// Carries out the operators' calls. The gateway has authenticated the operator with `Authenticate` before.
struct OperatorAPI: Sendable {
  let directory: Directory
  let jobs: StorageJobs
  let removals: UserRemovals
  let passwords: PasswordHasher
  let random: any RandomSource
  let log: Log
  /// Tells all peers that cached answers are stale; returns when every peer that answers in time knows.
  let publish: @Sendable (DirectoryChanged) async -> Void
  /// Answers the status calls from a subject and a query.
  let report: @Sendable (_ subject: String, _ query: [String: String]) async -> OperatorAnswer?
  /// The rows of all workers about a subject; nil for a subject without a list, and before the workers can be asked.
  let list: @Sendable (_ subject: String, _ query: [String: String]) async -> ClusterList?
  /// Sends the workers a command with a subject and a query.
  let command: @Sendable (_ subject: String, _ query: [String: String]) async -> OperatorAnswer?
  /// The pings that notifiers sent lately; none before they can be asked.
  var sentPings: @Sendable (FetchPings) async -> PingList = { _ in PingList() }
  /// The latest mail that a server did not take.
  var lastMailFailure: @Sendable () async -> InvitationMails.Failure? = { nil }
  /// What became of the pushes to some registrations.
  var pushRecords: @Sendable ([Int64]) async -> PushRecordList = { _ in PushRecordList() }
  /// Answers the calls on the processes' own figures and log lines.
  var records: @Sendable (_ subject: String, _ query: [String: String]) async throws -> OperatorAnswer? = { _, _ in nil
  }
  /// The latest map; nil before the first.
  var map: @Sendable () async -> ClusterMap? = { nil }
  /// The weights of the shards whose workers tell them.
  var shardFigures: @Sendable () async -> [Int: ShardBalance.Figures] = { [:] }
  /// The shards that their workers have open.
  var openShards: @Sendable () async -> Set<Int> = { [] }
  /// Says that the clusters of shards have changed.
  var clustersChanged: @Sendable () async -> Void = {}

  /// A request as the gateway forwarded it.
  struct Request: Sendable {
    let method: String
    /// The path's segments behind the call's noun.
    let rest: [String]
    let query: [String: String]
    let body: [UInt8]
    /// Identifies the request in error dictionaries and in the log.
    let uuid: String
    let member: StaffMember

    func flag(_ name: String) -> Bool { query[name] == "true" || query[name] == "1" }
  }

  /// Answers a request. Errors become answers, so it never throws.
  func answer(_ message: OperatorRequest, body: [UInt8]) async -> OperatorAnswer {
    let uuid = random.uuid()
    do {
      return try await judged(message, body) { try await route($0, body, uuid) }
    } catch let error as RecordError {
      return OperatorAnswer(error, uuid: uuid)
    } catch {
      log.error("directory failed", ["uuid": .text(uuid), "error": .text(String(describing: error))])
      return OperatorAnswer(RecordError(ofDirectory: error), uuid: uuid)
    }
  }

  private func route(_ message: OperatorRequest, _ body: [UInt8], _ uuid: String) async throws -> OperatorAnswer {
    func request(after count: Int) -> Request {
      Request(
        method: message.method, rest: Array(message.path.dropFirst(count)), query: message.query, body: body,
        uuid: uuid, member: message.member ?? .tokenHolder)
    }
    let path = message.path
    if path.count >= 5, path[0] == "mirror", path[1] == "1" {
      let key = try Self.environment(path[2], path[3])
      switch path[4] {
      case "model": return try await model(request(after: 5), key)
      case "schema": return try await schema(request(after: 5), key)
      case "rules": return try await rules(request(after: 5), key)
      default: throw Self.noSuchCall(path)
      }
    }
    guard path.count >= 3, path[0] == "admin", path[1] == "1", let noun = OperatorNoun(rawValue: path[2]) else {
      throw Self.noSuchCall(path)
    }
    switch noun {
    case .containers: return try await containers(request(after: 3))
    case .users: return try await users(request(after: 3))
    case .tokens: return try await tokens(request(after: 3))
    case .keys: return try await keys(request(after: 3))
    case .roles: return try await roles(request(after: 3))
    case .sessions: return try await sessions(request(after: 3))
    case .usage: return try await usage(request(after: 3))
    case .explain: return try await explain(request(after: 3))
    case .pings: return try await pings(request(after: 3))
    case .audit: return try await audit(request(after: 3))
    case .signIns: return try await signIns(request(after: 3))
    case .identities: return try await identities(request(after: 3))
    case .invitations: return try await invitations(request(after: 3))
    case .mail: return try await mail(request(after: 3))
    case .pushServices: return try await pushServices(request(after: 3))
    case .registrations: return try await registrations(request(after: 3))
    case .backup: return try await storage(request(after: 3), .backup)
    case .scrub: return try await storage(request(after: 3), .scrub)
    case .verification: return try await storage(request(after: 3), .verification)
    case .backups: return try await backups(request(after: 3))
    case .models, .schema, .rules:
      guard path.count >= 5 else { throw Self.noSuchCall(path) }
      let (request, key) = (request(after: 5), try Self.environment(path[3], path[4]))
      switch noun {
      case .models: return try await models(request, key)
      case .schema: return try await schema(request, key)
      default: return try await rules(request, key)
      }
    case .shards where path.count == 4 && path[3] == "accept":
      guard message.method == "POST" else { throw Self.noSuchCall(request(after: 3)) }
      return try await acceptData(body)
    case .shards where path.count == 4 && path[3] == "balance":
      guard message.method == "POST" else { throw Self.noSuchCall(request(after: 3)) }
      return try await balanceShards(message.query)
    case .shards where path.count == 5 && path[4] == "move":
      guard message.method == "POST" else { throw Self.noSuchCall(request(after: 3)) }
      return try await moveShard(path[3], body)
    case .shards where path.count == 5 && path[4] == "split":
      guard message.method == "POST" else { throw Self.noSuchCall(request(after: 3)) }
      return try await splitShard(path[3], body)
    case .quarantine where path.count == 4 && path[3] == "retry":
      guard message.method == "POST" else { throw Self.noSuchCall(request(after: 3)) }
      guard let answer = await command("quarantine/retry", try retryQuery(message.query)) else {
        throw Self.noSuchCall(path)
      }
      return answer
    case .sample, .history, .logs:
      guard path.count == 3, message.method == "GET" else { throw Self.noSuchCall(request(after: 3)) }
      guard let answer = try await records(path[2], message.query) else {
        throw RecordError(.tryAgainLater, "The service is starting", retryAfter: 1)
      }
      return answer
    case .status, .workers, .shards, .stores, .zones, .subscriptions, .events, .quarantine, .duplicates, .shares,
      .participants:
      guard path.count == 3, message.method == "GET", let answer = await report(path[2], message.query) else {
        throw Self.noSuchCall(path)
      }
      return answer
    }
  }

  /// Refuses unknown parameters, since a misspelt restriction would otherwise apply to everything.
  private func retryQuery(_ query: [String: String]) throws(RecordError) -> [String: String] {
    if let unknown = query.keys.sorted().first(where: { !["container", "environment", "user"].contains($0) }) {
      throw RecordError(.badRequest, "\(unknown): retry takes container, environment and user")
    }
    return query
  }

  // MARK: Parts

  static func noSuchCall(_ path: [String]) -> RecordError {
    RecordError(.notFound, "There is no operator call '/\(path.joined(separator: "/"))'")
  }

  /// For a path that exists with other methods or a different number of segments.
  static func noSuchCall(_ request: Request) -> RecordError {
    RecordError(
      .badRequest, "This call takes no \(request.method) with '\(request.rest.joined(separator: "/"))'", httpStatus: 405
    )
  }

  /// - Throws: `notFound`, also for an invalid name: no container can have it.
  static func container(_ name: String) throws(RecordError) -> ContainerID {
    guard let id = ContainerID(rawValue: name) else { throw Directory.noContainer(name) }
    return id
  }

  static func environment(_ container: String, _ environment: String) throws(RecordError) -> EnvironmentKey {
    guard let name = Environment(rawValue: environment) else {
      throw RecordError(.badRequest, "The environment is development or production, not '\(environment)'")
    }
    return EnvironmentKey(container: try Self.container(container), environment: name)
  }
}
