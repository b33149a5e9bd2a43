// The error that every layer above the transports throws; ErrorTable.swift explains its codes.

/// An error that every layer above the transports throws and every wire renders.
public struct RecordError: Error, Hashable, Sendable {
  public let code: ServerErrorCode
  /// One sentence with the fault and its place; never a user's field value.
  public let reason: String
  /// Seconds until a retry makes sense, for the retryable codes.
  public var retryAfter: Int?
  public var cocoaErrorCode: CocoaErrorCode?
  /// A status that replaces the table's, such as 410 for an expired history token.
  public var httpStatus: Int?
  /// A CKError number that replaces the table's, such as 21 for an expired import token.
  public var specialCKErrorCode: Int?
  /// The address of the sign-in page, for `authenticationRequired`.
  public var redirectURL: String?

  public init(
    _ code: ServerErrorCode, _ reason: String, retryAfter: Int? = nil, cocoaErrorCode: CocoaErrorCode? = nil,
    httpStatus: Int? = nil,
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

  /// The store of assets does not answer.
  public static let assetsAway = RecordError(
    .tryAgainLater, "Assets are out of service; the server's log has the reason for its operator",
    retryAfter: noSpace.retryAfter)

  /// The disk is full. The server recovers without a restart: it serves the first request after there is space again.
  public static let noSpace = RecordError(
    .tryAgainLater, "The server has no space left; nothing was stored", retryAfter: 5)

  public var status: Int { httpStatus ?? code.row.httpStatus }
  public var ckErrorCode: Int { specialCKErrorCode ?? code.row.ckErrorCode }
}
