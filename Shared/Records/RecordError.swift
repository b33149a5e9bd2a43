// The error that every layer above the transports throws; what its codes mean is in ErrorTable.swift.

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

  /// The disk is full. Nothing needs to be opened or started again when there is space: the first request that comes then is served.
  public static let noSpace = RecordError(.tryAgainLater, "The server has no space left; nothing was stored", retryAfter: 5)

  public var status: Int { httpStatus ?? code.row.httpStatus }
  public var ckErrorCode: Int { specialCKErrorCode ?? code.row.ckErrorCode }
}
