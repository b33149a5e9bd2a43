// What the server says when it refuses, and what a client does about it.

/// The error dictionary of a failed request.
public struct ServerError: Error, Hashable, Sendable {
  /// A duplicate that a rule rejects (D6).
  public struct Duplicate: Hashable, Sendable, Codable {
    public let objectID: String
    public let entity: String
    /// The object to use instead; nil: the caller may not know it.
    public let winner: String?

    public init(objectID: String, entity: String, winner: String?) {
      self.objectID = objectID
      self.entity = entity
      self.winner = winner
    }
  }

  /// A field of the client's model that the environment does not have; nil: the record type itself.
  public struct MissingField: Hashable, Sendable, Codable {
    public let recordType: String
    public let field: String?

    public init(recordType: String, field: String?) {
      self.recordType = recordType
      self.field = field
    }
  }

  /// Of HTTP.
  public var status: Int
  public var serverErrorCode: String
  public var reason: String
  public var ckErrorCode: Int?
  public var cocoaErrorCode: Int?
  /// The request's name in the server's logs.
  public var requestID: String?
  /// Seconds.
  public var retryAfter: Double?
  /// The sign-in page.
  public var redirectURL: String?
  /// A sum of the steps of P6.
  public var recovery: Int?
  public var schemaGap: [MissingField]?
  public var duplicates: [Duplicate]?

  public init(
    status: Int, serverErrorCode: String, reason: String = "", ckErrorCode: Int? = nil, cocoaErrorCode: Int? = nil,
    requestID: String? = nil, retryAfter: Double? = nil, redirectURL: String? = nil, recovery: Int? = nil,
    schemaGap: [MissingField]? = nil, duplicates: [Duplicate]? = nil
  ) {
    self.status = status
    self.serverErrorCode = serverErrorCode
    self.reason = reason
    self.ckErrorCode = ckErrorCode
    self.cocoaErrorCode = cocoaErrorCode
    self.requestID = requestID
    self.retryAfter = retryAfter
    self.redirectURL = redirectURL
    self.recovery = recovery
    self.schemaGap = schemaGap
    self.duplicates = duplicates
  }
}

extension ServerError {
  /// What the client does next.
  public enum Remedy: Hashable, Sendable {
    /// Sends the same again, after so many seconds where the server names them.
    case tryAgain(after: Double?)
    /// Sends the same again: something on the way answered, and the server may not have been asked.
    case reachServer
    case signIn
    /// Waits until an operator has pushed the model.
    case waitForModel
    /// Another process has the store.
    case giveUpLease
    /// Imports from the beginning.
    case importAnew
    /// Sends what the server may have lost, and imports from the beginning: it was restored from a backup.
    case restore
    /// Sets the store up and sends the same again.
    case setUpAgain
    /// Nothing: the request itself is wrong.
    case none
  }

  public var remedy: Remedy {
    switch status {
    case 408, 429, 500...599: .tryAgain(after: retryAfter)
    case _ where !isOfServer: .reachServer
    case 421, 401: .signIn
    case 410 where (recovery ?? 0) & Self.everyObject != 0: .restore
    case 410: .importAnew
    case 409 where schemaGap != nil: .waitForModel
    case 409 where cocoaErrorCode == Self.unrecoverable: .giveUpLease
    case 404 where !isAboutContent && serverErrorCode == "NOT_FOUND": .setUpAgain
    default: .none
    }
  }

  /// The server wrote it. A page of a proxy, or of a network that asks for a sign-in, has no code.
  public var isOfServer: Bool { !serverErrorCode.isEmpty }

  /// Numbers of `cocoaErrorCode`.
  public static let accountChanged = 134_405
  public static let unrecoverable = 134_410
  /// The step of `recovery` that looks over every object (P6).
  private static let everyObject = 256

  /// The reason names a place within the request's body.
  private var isAboutContent: Bool { reason.hasPrefix("transactions[") }

  /// A save names contents by receipts that ended, or that are another user's.
  public var isAboutReceipt: Bool { status == 400 && isAboutContent && reason.contains("receipt") }

  /// The index of the refused transaction within the request, where the reason begins with it.
  public var refusedTransaction: Int? {
    guard isAboutContent else { return nil }
    return Int(reason.dropFirst("transactions[".count).prefix { $0 != "]" })
  }
}

extension ServerError: Codable {
  private enum CodingKeys: String, CodingKey {
    case status, serverErrorCode, reason, ckErrorCode, cocoaErrorCode, retryAfter, redirectURL, recovery, schemaGap
    case requestID = "uuid"
    case duplicates = "conflicts"
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    status = try container.decodeIfPresent(Int.self, forKey: .status) ?? 0
    serverErrorCode = try container.decode(String.self, forKey: .serverErrorCode)
    reason = try container.decodeIfPresent(String.self, forKey: .reason) ?? ""
    ckErrorCode = try container.decodeIfPresent(Int.self, forKey: .ckErrorCode)
    cocoaErrorCode = try container.decodeIfPresent(Int.self, forKey: .cocoaErrorCode)
    requestID = try container.decodeIfPresent(String.self, forKey: .requestID)
    retryAfter = try container.decodeIfPresent(Double.self, forKey: .retryAfter)
    redirectURL = try container.decodeIfPresent(String.self, forKey: .redirectURL)
    recovery = try container.decodeIfPresent(Int.self, forKey: .recovery)
    schemaGap = try container.decodeIfPresent([MissingField].self, forKey: .schemaGap)
    duplicates = try container.decodeIfPresent([Duplicate].self, forKey: .duplicates)
  }
}

/// The problem of one object, as pages, events and the quarantine list it.
public struct ObjectProblem: Hashable, Sendable, Codable {
  public let objectID: String
  public let entity: String
  public let ckErrorCode: Int
  public let serverErrorCode: String
  public let cocoaErrorCode: Int?
  public let reason: String

  public init(
    objectID: String, entity: String, ckErrorCode: Int, serverErrorCode: String, cocoaErrorCode: Int? = nil,
    reason: String
  ) {
    self.objectID = objectID
    self.entity = entity
    self.ckErrorCode = ckErrorCode
    self.serverErrorCode = serverErrorCode
    self.cocoaErrorCode = cocoaErrorCode
    self.reason = reason
  }
}
