// The error table: one row an error. HTTP statuses, retry classes, counters and deploy/ERRORS.md derive from it.

/// Every error code clients see (wire-protocol section 10). The raw value is `serverErrorCode`.
public enum ServerErrorCode: String, Hashable, Sendable, CaseIterable, Codable {
  case accessDenied = "ACCESS_DENIED"
  case atomicError = "ATOMIC_ERROR"
  case authenticationFailed = "AUTHENTICATION_FAILED"
  case authenticationRequired = "AUTHENTICATION_REQUIRED"
  case badRequest = "BAD_REQUEST"
  case conflict = "CONFLICT"
  case exists = "EXISTS"
  case internalError = "INTERNAL_ERROR"
  case notFound = "NOT_FOUND"
  case quotaExceeded = "QUOTA_EXCEEDED"
  case throttled = "THROTTLED"
  case tryAgainLater = "TRY_AGAIN_LATER"
  case uniqueFieldError = "UNIQUE_FIELD_ERROR"
  case validatingReferenceError = "VALIDATING_REFERENCE_ERROR"
  case zoneNotFound = "ZONE_NOT_FOUND"
  case zoneBusy = "ZONE_BUSY"

  /// What one row of the table says.
  public struct Row: Sendable {
    /// The status when the whole request fails; single items travel in a 200.
    public let httpStatus: Int
    /// CKError's number.
    public let ckErrorCode: Int
    /// Whether the same request may succeed later without a change.
    public let isRetryable: Bool
    /// One sentence for the operator.
    public let meaning: String
  }

  public var row: Row {
    switch self {
    case .accessDenied: Row(httpStatus: 403, ckErrorCode: 10, isRetryable: false, meaning: "The caller has no permission for this endpoint, database, zone or record.")
    case .atomicError:
      Row(httpStatus: 400, ckErrorCode: 22, isRetryable: false, meaning: "Another item of the same atomic batch failed; nothing of the batch was stored.")
    case .authenticationFailed: Row(httpStatus: 401, ckErrorCode: 9, isRetryable: false, meaning: "The credentials were rejected.")
    case .authenticationRequired: Row(httpStatus: 421, ckErrorCode: 9, isRetryable: false, meaning: "The request needs a signed-in user.")
    case .badRequest: Row(httpStatus: 400, ckErrorCode: 12, isRetryable: false, meaning: "The request is malformed or does not fit the schema.")
    case .conflict: Row(httpStatus: 409, ckErrorCode: 14, isRetryable: false, meaning: "The record changed since the client read it.")
    case .exists: Row(httpStatus: 409, ckErrorCode: 15, isRetryable: false, meaning: "The resource exists already.")
    case .internalError: Row(httpStatus: 500, ckErrorCode: 1, isRetryable: true, meaning: "The server failed; the log has the request id.")
    case .notFound: Row(httpStatus: 404, ckErrorCode: 11, isRetryable: false, meaning: "The record or resource does not exist.")
    case .quotaExceeded: Row(httpStatus: 413, ckErrorCode: 25, isRetryable: false, meaning: "A size or storage limit is reached.")
    case .throttled: Row(httpStatus: 429, ckErrorCode: 7, isRetryable: true, meaning: "The caller sends too much; retry after the given time.")
    case .tryAgainLater: Row(httpStatus: 503, ckErrorCode: 6, isRetryable: true, meaning: "A service is overloaded, restarting or moving; retry after the given time.")
    case .uniqueFieldError: Row(httpStatus: 409, ckErrorCode: 19, isRetryable: false, meaning: "A unique constraint would be violated.")
    case .validatingReferenceError: Row(httpStatus: 412, ckErrorCode: 31, isRetryable: false, meaning: "A validating reference would dangle.")
    case .zoneNotFound: Row(httpStatus: 404, ckErrorCode: 26, isRetryable: false, meaning: "The zone does not exist, or not for this caller.")
    case .zoneBusy: Row(httpStatus: 503, ckErrorCode: 23, isRetryable: true, meaning: "The zone is handling too many requests; retry after the given time.")
    }
  }
}

/// Mirroring errors of Core Data, sent as `cocoaErrorCode` (semantics section 9).
public enum CocoaErrorCode: Int, Sendable, Codable {
  /// A model or object graph that can't be mirrored.
  case mirroring = 134060
  /// A record larger than a record can be.
  case recordTooLarge = 134411
  /// A history token older than the history that is kept.
  case historyTokenExpired = 134301
  /// A run that was cut short, and goes on by itself.
  case interrupted = 134409
  /// The store belongs to another account than the one that is signed in.
  case accountChanged = 134405
  /// What only somebody else can solve: another process has the store, or it is reset again and again.
  case unrecoverable = 134410
  /// An invitation that is accepted into a store of another database than the shared one.
  case noSharedStore = 134091
  /// An object of a shared store with no zone to go to.
  case noZoneAssigned = 2988
}

/// The error every layer above the transports throws and every wire renders.
public struct RecordError: Error, Hashable, Sendable {
  public let code: ServerErrorCode
  /// One sentence naming what and where; never a user's field value.
  public let reason: String
  /// Seconds, for the retryable codes.
  public var retryAfter: Int?
  public var cocoaErrorCode: CocoaErrorCode?
  /// A status other than the table's, e.g. 410 for an expired history token.
  public var httpStatus: Int?
  /// CKError's number where it is not the table's, e.g. 21 for an expired import token.
  public var specialCKErrorCode: Int?
  /// Where to sign in, with `authenticationRequired`.
  public var redirectURL: String?

  public init(
    _ code: ServerErrorCode, _ reason: String, retryAfter: Int? = nil, cocoaErrorCode: CocoaErrorCode? = nil, httpStatus: Int? = nil,
    specialCKErrorCode: Int? = nil, redirectURL: String? = nil
  ) {
    self.code = code
    self.reason = reason
    self.retryAfter = retryAfter
    self.cocoaErrorCode = cocoaErrorCode
    self.httpStatus = httpStatus
    self.specialCKErrorCode = specialCKErrorCode
    self.redirectURL = redirectURL
  }

  public var status: Int { httpStatus ?? code.row.httpStatus }
  public var ckErrorCode: Int { specialCKErrorCode ?? code.row.ckErrorCode }
}
