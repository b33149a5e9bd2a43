// The error table, one row per error. HTTP statuses, retry classes, counters and docs/operating/ERRORS.md derive from
// it.

/// An error explained to clients and operators, in a sentence or two for each.
public struct ErrorAdvice: Hashable, Sendable {
  public let meaning: String
  /// The client's remedy.
  public let client: String
  /// The places where the operator should look.
  public let operators: String
}

/// Every error code that clients see (docs/protocol/record-plane.md#errors). The raw value is `serverErrorCode`.
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

  /// A row of the table.
  public struct Row: Sendable {
    /// The status when the whole request fails; an item that fails alone travels in a 200.
    public let httpStatus: Int
    public let ckErrorCode: Int
    /// True if the same request may succeed later, unchanged.
    public let isRetryable: Bool
    public let advice: ErrorAdvice

    fileprivate init(
      _ httpStatus: Int, _ ckErrorCode: Int, retry isRetryable: Bool = false, _ meaning: String, client: String,
      operators: String
    ) {
      self.httpStatus = httpStatus
      self.ckErrorCode = ckErrorCode
      self.isRetryable = isRetryable
      advice = ErrorAdvice(meaning: meaning, client: client, operators: operators)
    }
  }

  public var row: Row {
    switch self {
    case .accessDenied:
      Row(
        403, 10, "The caller has no permission for this endpoint, database, zone or record.",
        client: "Give up the change, or ask for access; on the object plane the change is undone locally.",
        operators:
          """
          GRANTs and roles (`aquifer role list`), the share's participants (`aquifer share show`); \
          `aquifer_zone_access_denied_total` if there are many.
          """
      )
    case .atomicError:
      Row(
        400, 22, "Another item of the same atomic batch failed; the server stored nothing of the batch.",
        client: "Find the item with another code, correct it, and send the batch again.",
        operators: "Nothing: the other item's code says why.")
    case .authenticationFailed:
      Row(
        401, 9, "The server rejects the credentials.",
        client: "Use other credentials; the server rejects these again.",
        operators:
          """
          The token or key: it may be revoked, or belong to another container or environment (`aquifer token list`, \
          `aquifer key list`). The page's origin: the token may not allow it.
          """
      )
    case .authenticationRequired:
      Row(
        421, 9, "The request needs a signed-in user.",
        client: "Sign in at `redirectURL`, then send it again with the new token.",
        operators:
          """
          The user and the session: the user may be disabled (`aquifer user list`), or the session ended (`aquifer \
          session list`).
          """
      )
    case .badRequest:
      Row(
        400, 12, "The request is malformed or does not fit the schema.",
        client:
          """
          Correct the request: `reason` names the place. The cause is a programming error, or a schema that is not \
          deployed.
          """,
        operators:
          "The environment's schema: the app may expect another one (`aquifer schema diff`, `aquifer model push`).")
    case .conflict:
      Row(
        409, 14, "The record changed since the client read it.",
        client: "Take the server's record, apply the change to it and save that.",
        operators: "Nothing; for stores with leases, the process that has the lease.")
    case .exists:
      Row(
        409, 15, "The resource exists already.",
        client: "Use the existing resource.",
        operators: "Nothing.")
    case .internalError:
      Row(
        500, 1, retry: true, "The server failed; its log has the request's identifier.",
        client: "Try again later, with longer and longer pauses.",
        operators:
          "The logs of gateway and worker, searched for the answer's `uuid`; `aquifer status`; damage and disks.")
    case .notFound:
      Row(
        404, 11, "The record or resource does not exist.",
        client: "Forget it, or create it again.",
        operators:
          "The container and the store: the container may not exist (`aquifer container list`), or the store was reset."
      )
    case .quotaExceeded:
      Row(
        413, 25, "A size or storage limit is reached.",
        client: "Delete something, or make the value smaller; the server still takes saves that free bytes.",
        operators:
          "`aquifer user quota`, `--user-quota`, `--asset-limit`, `--user-stores`; the bytes that the user stores.")
    case .throttled:
      Row(
        429, 7, retry: true, "The caller sends too much; retry after the given time.",
        client: "Wait for `retryAfter` seconds, and send less.",
        operators:
          """
          `aquifer_http_requests_throttled_total`, `aquifer_http_clients_refused_total`, \
          `aquifer_shared_requests_refused_total`; `--rate-limit`, `--user-requests`, `--user-waits`, \
          `--container-requests`, `--user-uploads`, `--user-devices`, `--connections-per-address`.
          """
      )
    case .tryAgainLater:
      Row(
        503, 6, retry: true, "A service is overloaded, restarting or moving; retry after the given time.",
        client: "Wait for `retryAfter` seconds and send the same request with the same identifier.",
        operators:
          "`aquifer status`: shards without a worker, silent processes, a full disk, a missing key, long queues.")
    case .uniqueFieldError:
      Row(
        409, 19, "A unique constraint would be violated.",
        client: "Use the object that `conflicts` names instead.",
        operators: "`aquifer rules export`, `aquifer duplicates list`.")
    case .validatingReferenceError:
      Row(
        412, 31, "A validating reference would dangle.",
        client: "Save the target first; delete the records that point to it before you delete it.",
        operators: "Nothing.")
    case .zoneNotFound:
      Row(
        404, 26, "The zone does not exist, or the caller has no access to it.",
        client: "Create the zone if it is the user's own; else forget it.",
        operators: "`aquifer zones`; a purge of the zone, or the end of a share.")
    case .zoneBusy:
      Row(
        503, 23, retry: true, "The zone is handling too many requests; retry after the given time.",
        client: "Wait for `retryAfter` seconds and send it again.",
        operators: "`aquifer_store_queue_length_max`; a user who floods a shard.")
    }
  }
}

/// Mirroring errors of Core Data, sent as `cocoaErrorCode` (docs/protocol/mirror-api.md#errors).
public enum CocoaErrorCode: Int, Sendable, Codable, CaseIterable {
  /// A model or object graph that can't be mirrored.
  case mirroring = 134060
  /// A record above the size limit.
  case recordTooLarge = 134411
  /// A history token from before the oldest history that is kept.
  case historyTokenExpired = 134301
  /// A run that was interrupted, and continues by itself.
  case interrupted = 134409
  /// The store belongs to an account other than the one that is signed in.
  case accountChanged = 134405
  /// A state that needs help from outside: another process has the store, or the store is reset again and again.
  case unrecoverable = 134410
  /// An invitation that a store of a database other than the shared one accepts.
  case noSharedStore = 134091
  /// An object of a shared store that has no zone to go to.
  case noZoneAssigned = 2988

  public var advice: ErrorAdvice {
    switch self {
    case .mirroring:
      ErrorAdvice(
        meaning: "A model or object graph that can't be mirrored.",
        client: "Correct the model or the relationship across zones that `reason` names.",
        operators: "`aquifer model validate`; where the objects are: `aquifer explain OBJECT`.")
    case .recordTooLarge:
      ErrorAdvice(
        meaning: "A record larger than a record can be.", client: "Make its values smaller, or save them as assets.",
        operators: "`aquifer quarantine list`; `--asset-threshold`.")
    case .historyTokenExpired:
      ErrorAdvice(
        meaning: "A history token that is older than the kept history.",
        client: "Read the history again from its beginning, or reset the store.",
        operators: "`--history-retention` of the workers.")
    case .interrupted:
      ErrorAdvice(
        meaning: "A run that was interrupted, and continues by itself.",
        client: "Nothing: the next event shows its end.",
        operators: "Restarts of workers, and moves of shards, at that time.")
    case .accountChanged:
      ErrorAdvice(
        meaning: "The store does not belong to the account that is signed in.",
        client: "Do what `accountChange` says with the local copy.",
        operators: "Nothing.")
    case .unrecoverable:
      ErrorAdvice(
        meaning:
          """
          A problem that the client can't solve: another process has the store, or the store is reset again and again.
          """,
        client: "Stop the other process; import to the end before resetting again.",
        operators: "`aquifer events`: the store, and the time of the first failure.")
    case .noSharedStore:
      ErrorAdvice(
        meaning: "An invitation that is accepted into a store outside of the shared database.",
        client: "Accept it into a store of the shared database.",
        operators: "Nothing.")
    case .noZoneAssigned:
      ErrorAdvice(
        meaning: "An object of a shared store without a zone.",
        client: "Connect it with an object that is in a zone, or save it to the private store.",
        operators: "Nothing.")
    }
  }
}

/// CKError numbers that replace the table's where they are more precise.
public enum SpecialCKErrorCode: Int, Sendable, CaseIterable {
  /// A token of a database that was restored, reset or created anew, or text that is no token.
  case changeTokenExpired = 21
  /// A share with more participants than the limit.
  case tooManyParticipants = 29
  /// A record or zone that has a share already.
  case alreadyShared = 30
  /// A person with a pending invitation, which they have to accept.
  case participantAlreadyInvited = 37

  public var advice: ErrorAdvice {
    switch self {
    case .changeTokenExpired:
      ErrorAdvice(
        meaning: "A token of a database that was restored, reset or created again, or a text that is not a token.",
        client: "Import from the beginning (`recovery` says how).",
        operators: "A restore of a backup, or a reset of an environment, at that time.")
    case .tooManyParticipants:
      ErrorAdvice(
        meaning: "A share with more participants than it can have.", client: "Remove some first.",
        operators: "`aquifer share show`.")
    case .alreadyShared:
      ErrorAdvice(
        meaning: "A record or zone that is shared already.", client: "Use the existing share.",
        operators: "`aquifer share list`.")
    case .participantAlreadyInvited:
      ErrorAdvice(
        meaning: "A person who is already invited and has to accept that invitation.", client: "Accept it.",
        operators: "`aquifer share show`.")
    }
  }
}
