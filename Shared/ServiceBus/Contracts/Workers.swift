// Requests of gateways and of the share service to workers.

public import Records

/// The caller of a request, as the gateway authenticated it.
public struct Caller: Hashable, Sendable, Codable {
  /// nil for an API token without a user, and for operators.
  public let userRecordName: String?
  /// The caller presented an operator token.
  public let isOperator: Bool
  /// nil if the user was granted no role and no quota.
  public let standing: UserStanding?
  /// The operator or developer behind an operator call; nil for a client's call.
  public let member: StaffMember?

  public init(
    userRecordName: String?, isOperator: Bool = false, standing: UserStanding? = nil, member: StaffMember? = nil
  ) {
    self.userRecordName = userRecordName
    self.isOperator = isOperator
    self.standing = standing
    self.member = member
  }

  public var roles: [String] { standing?.roles ?? [] }

  /// The party that takes turns with others where requests wait: a user with all of their tokens; in each container all
  /// callers without a user together, and its operators together.
  public func party(in container: ContainerID) -> String {
    String(nulSeparated: [container.rawValue, nameInContainer])
  }

  /// The caller's name among those who take turns in a container.
  fileprivate var nameInContainer: String { userRecordName ?? (isOperator ? "operator" : "") }
}

extension String {
  /// The parts with NUL bytes between them. Each request has three such texts, and `joined` and interpolation grow a
  /// text part by part.
  fileprivate init(nulSeparated parts: [String]) {
    let byteCount = parts.reduce(parts.count - 1) { $0 + $1.utf8.count }
    self.init(unsafeUninitializedCapacity: byteCount) { buffer in
      var place = 0
      for (index, var part) in parts.enumerated() {
        if index > 0 {
          buffer.initializeElement(at: place, to: 0)
          place += 1
        }
        part.withUTF8 { bytes in
          _ = buffer[place...].initialize(fromContentsOf: bytes)
          place += bytes.count
        }
      }
      return place
    }
  }
}

/// A user's roles and quota in a container's environment, granted by an operator.
public struct UserStanding: Hashable, Sendable, Codable {
  /// Custom roles (`CREATE ROLE` of the schema), ascending.
  public let roles: [String]
  /// Bytes that each of the user's databases may hold; 0: no limit; nil: the workers' `--user-quota`.
  public let quotaByteCount: Int64?

  public init(roles: [String] = [], quotaByteCount: Int64? = nil) {
    self.roles = roles
    self.quotaByteCount = quotaByteCount
  }
}

/// One HTTP request to the record plane or the object plane, forwarded with its body unchanged. The worker parses the
/// body and answers with the bytes of the HTTP body.
public struct DatabaseRequest: Message {
  public static let name = "database.request/1"
  public static let senders: Set<Role> = [.gateway]
  /// The worker stores the outcome by `requestID` (record plane) or `transactionID` (object plane) in the same commit.
  public static let isRepeatable = true

  public enum Plane: String, Codable, Sendable {
    case record, object
  }

  public struct Reply: Codable, Sendable {
    public let status: Int
    /// nil for `application/json`.
    public let contentType: String?
    /// Seconds for the `Retry-After` header.
    public let retryAfter: Int?
    /// The gateway may wait for the next change of `DatabaseRequest.database` and ask again: the answer is an import
    /// page without changes.
    public let mayWait: Bool?
    /// The error of which the body is the text; nil for an answer that is none, and from a worker of an earlier
    /// release.
    let refusal: Refusal?

    public init(
      status: Int, contentType: String? = nil, retryAfter: Int? = nil, mayWait: Bool? = nil, error: RecordError? = nil
    ) {
      self.init(
        status: status, contentType: contentType, retryAfter: retryAfter, mayWait: mayWait,
        refusal: error.map(Refusal.init))
    }

    init(status: Int, contentType: String?, retryAfter: Int?, mayWait: Bool?, refusal: Refusal?) {
      self.status = status
      self.contentType = contentType
      self.retryAfter = retryAfter
      self.mayWait = mayWait
      self.refusal = refusal
    }

    /// The error of a refused request; nil for one that was answered.
    public var error: RecordError? {
      if let refusal { return refusal.error(retryAfter: retryAfter) }
      return (200..<300).contains(status)
        ? nil : RecordError(.internalError, "A worker refused with status \(status)", retryAfter: retryAfter)
    }
  }

  /// The call, as the gateway has read it from the method and the path.
  public let route: DatabaseRoute
  /// Query parameters without credentials.
  public let query: [String: String]
  /// The database whose shard answers.
  public let database: DatabaseID
  /// The scope in which the client addressed the database.
  public let scope: DatabaseScope
  public let caller: Caller
  /// The idempotency key of the HTTP request: the client's `X-Request-ID`, or one that the gateway draws. Retries keep
  /// it.
  public let requestID: String
  /// The gateway's public address without a final slash, for URLs in answers (asset downloads).
  public let baseURL: String
  /// The request's identifier in logs (`RequestTrace`), and the `uuid` of its errors. A client may give several
  /// requests the same one.
  public let traceID: String?
  /// The asking process puts the answer into one of its own: it gets `AnswerParts`, `StoreEventPage` or what the call
  /// says, in `AnswerForm.contentType`. Calls that have no such form answer as ever, and so do earlier releases.
  public var takesParts = false

  public init(
    _ route: DatabaseRoute, query: [String: String], database: DatabaseID, scope: DatabaseScope, caller: Caller,
    requestID: String, baseURL: String,
    traceID: String? = RequestTrace.id
  ) {
    self.route = route
    self.query = query
    self.database = database
    self.scope = scope
    self.caller = caller
    self.requestID = requestID
    self.baseURL = baseURL
    self.traceID = traceID
  }

  /// A request that arrives spelled: path is the part after `/{database}/`, percent-decoded.
  public init(
    plane: Plane, method: String, path: [String], query: [String: String], database: DatabaseID, scope: DatabaseScope,
    caller: Caller,
    requestID: String, baseURL: String, traceID: String? = RequestTrace.id
  ) {
    self.init(
      DatabaseRoute(plane, method: method, path: path), query: query, database: database, scope: scope, caller: caller,
      requestID: requestID,
      baseURL: baseURL, traceID: traceID)
  }

  public var plane: Plane { route.plane }

  /// The same call with another query.
  public func asking(_ query: [String: String]) -> DatabaseRequest {
    var request = DatabaseRequest(
      route, query: query, database: database, scope: scope, caller: caller, requestID: requestID, baseURL: baseURL,
      traceID: traceID)
    request.takesParts = takesParts
    return request
  }

  /// The same call, answered for a process.
  public var inParts: DatabaseRequest {
    var request = self
    request.takesParts = true
    return request
  }

  /// Requests of one mirrored store, and writes of one owner, start in the order of arrival; reads in any order. Stores
  /// with one name are independent if their owners or containers differ.
  public var orderingKey: String? {
    switch route {
    case .store(let route, let store, _): route.isRead ? nil : orderingKey(ofStore: store)
    case .guest(let route, let store): route.method == "GET" ? nil : orderingKey(ofStore: store)
    // Writes of several users to one database are unordered, so that no user waits for another's crowd of requests.
    case .record(.modifyRecords), .record(.modifyZones), .record(.modifySubscriptions):
      String(nulSeparated: ["owner", database.owner, database.container.rawValue, caller.nameInContainer])
    case .record, .zone, .unknown: nil
    }
  }

  private func orderingKey(ofStore store: String) -> String {
    String(nulSeparated: [
      "store", database.container.rawValue, database.environment.rawValue, database.owner, store,
    ])
  }

  public var party: String { caller.party(in: database.container) }
}

/// A worker's report for an operator (`status`, `workers`, `shards`, `stores`); the answer's body is JSON.
public struct WorkerReport: Message {
  public static let name = "worker.report/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// `summary`, `stores`, `zones`, `events` …
  public let subject: String
  public let query: [String: String]

  public init(subject: String, query: [String: String] = [:]) {
    self.subject = subject
    self.query = query
  }
}

/// An operator's command for the shards that a worker holds (`quarantine/retry`); the answer's body is JSON. A
/// repetition has no further effect.
public struct WorkerCommand: Message {
  public static let name = "worker.command/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let subject: String
  public let query: [String: String]

  public init(subject: String, query: [String: String] = [:]) {
    self.subject = subject
    self.query = query
  }
}

/// Removes everything of a deleted user from a shard: the user's databases, and their part in other users' databases.
/// Durable when it is answered; a repetition has no further effect.
public struct ForgetUser: Message {
  public static let name = "worker.forget-user/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true

  public struct Reply: Codable, Hashable, Sendable {
    /// The numbers of removed items; zero for a repetition.
    public let zoneCount: Int
    /// Shares of other users that the user left.
    public let shareCount: Int
    public let storeCount: Int
    public let subscriptionCount: Int

    public init(zoneCount: Int, shareCount: Int, storeCount: Int, subscriptionCount: Int) {
      self.zoneCount = zoneCount
      self.shareCount = shareCount
      self.storeCount = storeCount
      self.subscriptionCount = subscriptionCount
    }
  }

  public let shard: Int
  public let userRecordName: String

  public init(shard: Int, userRecordName: String) {
    self.shard = shard
    self.userRecordName = userRecordName
  }
}
