// What gateways ask of workers.

public import Records

/// Who makes a request, as the gateway authenticated it.
public struct Caller: Hashable, Sendable, Codable {
  /// nil for an API token without a user, and for operators.
  public let userRecordName: String?
  /// Presented an operator token.
  public let isOperator: Bool
  /// nil: nothing was granted to the user, and no quota was set for him.
  public let standing: UserStanding?

  public init(userRecordName: String?, isOperator: Bool = false, standing: UserStanding? = nil) {
    self.userRecordName = userRecordName
    self.isOperator = isOperator
    self.standing = standing
  }

  /// The custom roles that the caller has.
  public var roles: [String] { standing?.roles ?? [] }

  /// Who takes turns with others wherever requests wait: a user, whatever he asks and by how many tokens; of a container those without a user
  /// together, and its operators.
  public func party(in container: ContainerID) -> String {
    "\(container.rawValue)\u{0}\(userRecordName ?? (isOperator ? "operator" : ""))"
  }
}

/// What an operator gave a user in a container's environment.
public struct UserStanding: Hashable, Sendable, Codable {
  /// Custom roles (`CREATE ROLE` of the schema), ascending.
  public let roles: [String]
  /// Bytes that each of the user's databases may hold; 0: any number; nil: the workers' `--user-quota`.
  public let quotaByteCount: Int64?

  public init(roles: [String] = [], quotaByteCount: Int64? = nil) {
    self.roles = roles
    self.quotaByteCount = quotaByteCount
  }
}

/// One HTTP request to the record plane or the object plane, forwarded with its body's bytes as they came; the worker parses them,
/// and answers with the bytes of the HTTP body.
public struct DatabaseRequest: Message {
  public static let name = "database.request/1"
  public static let senders: Set<Role> = [.gateway]
  /// The worker keeps the outcome of `requestID` (record plane) or `transactionID` (object plane) in the commit itself.
  public static let isRepeatable = true

  public enum Plane: String, Codable, Sendable {
    case record, object
  }

  public struct Reply: Codable, Sendable {
    public let status: Int
    /// nil: `application/json`.
    public let contentType: String?
    /// Seconds for the `Retry-After` header.
    public let retryAfter: Int?
    /// The gateway may wait for the next change of `DatabaseRequest.database` and ask again: an import page without changes.
    public let mayWait: Bool?

    public init(status: Int, contentType: String? = nil, retryAfter: Int? = nil, mayWait: Bool? = nil) {
      self.status = status
      self.contentType = contentType
      self.retryAfter = retryAfter
      self.mayWait = mayWait
    }
  }

  public let plane: Plane
  /// GET, POST, PUT, DELETE.
  public let method: String
  /// The path after `/{database}/`, percent-decoded: `["records","modify"]`, `["stores","<id>","changes"]`.
  public let path: [String]
  /// Query parameters but credentials.
  public let query: [String: String]
  /// The database whose shard is asked.
  public let database: DatabaseID
  /// As what the client addressed it.
  public let scope: DatabaseScope
  public let caller: Caller
  /// Idempotency key of the HTTP request: the client's `X-Request-ID`, or drawn by the gateway; kept over its retries.
  public let requestID: String
  /// The gateway's public address without a final slash, for URLs in answers (asset downloads).
  public let baseURL: String
  /// What logs call the client's request (`RequestTrace`), and the `uuid` of its errors. Clients may give several requests the same one.
  public let traceID: String?

  public init(
    plane: Plane, method: String, path: [String], query: [String: String], database: DatabaseID, scope: DatabaseScope, caller: Caller,
    requestID: String, baseURL: String, traceID: String? = RequestTrace.id
  ) {
    self.plane = plane
    self.method = method
    self.path = path
    self.query = query
    self.database = database
    self.scope = scope
    self.caller = caller
    self.requestID = requestID
    self.baseURL = baseURL
    self.traceID = traceID
  }

  /// Calls of a store that only read, although they are posted.
  private static let reads: Set<String> = ["records", "permissions"]

  /// Requests of one mirrored store, and writes of one owner, start in the order they arrived; reads in any. Stores of one name of several
  /// owners, or of an owner's in several containers, have nothing to do with each other.
  public var orderingKey: String? {
    if plane == .object, path.count >= 2, path[0] == "stores", method != "GET", !Self.reads.contains(path[path.count - 1]) {
      return ["store", database.container.rawValue, database.environment.rawValue, database.owner, path[1]].joined(separator: "\u{0}")
    }
    // Writes of several users to one database have no order among them: nobody waits for a crowd of another's.
    if plane == .record, path.last == "modify" { return ["owner", database.owner, caller.party(in: database.container)].joined(separator: "\u{0}") }
    return nil
  }

  public var party: String { caller.party(in: database.container) }
}

/// What a worker tells an operator (`status`, `workers`, `shards`, `stores`); the answer's body is JSON.
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

/// What an operator has workers do on the shards they hold (`quarantine/retry`); the answer's body is JSON. Done twice is done once.
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

/// Has the holder of a shard remove what the shard has of a user who was deleted: his databases, and what is his in others'. Durable when it is
/// answered; done twice is done once.
public struct ForgetUser: Message {
  public static let name = "worker.forget-user/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true

  public struct Reply: Codable, Hashable, Sendable {
    /// How much there was; nothing where it was done before.
    public let zoneCount: Int
    /// Shares of others that he left.
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
