// An error as one process tells it to another, beside the text that is for clients.

import Records

/// A `RecordError` on the bus; its seconds until a retry are the reply's own. A class, because nearly all replies have
/// none and would carry its space.
final class Refusal: Sendable, Codable {
  let code: String
  let reason: String
  let cocoaErrorCode: Int?
  /// Differs from the code's own status.
  let httpStatus: Int?
  /// Differs from the code's own number.
  let ckErrorCode: Int?

  init(code: String, reason: String, cocoaErrorCode: Int?, httpStatus: Int?, ckErrorCode: Int?) {
    self.code = code
    self.reason = reason
    self.cocoaErrorCode = cocoaErrorCode
    self.httpStatus = httpStatus
    self.ckErrorCode = ckErrorCode
  }

  convenience init(_ error: RecordError) {
    self.init(
      code: error.code.rawValue, reason: error.reason, cocoaErrorCode: error.cocoaErrorCode?.rawValue,
      httpStatus: error.httpStatus, ckErrorCode: error.specialCKErrorCode)
  }

  func error(retryAfter: Int?) -> RecordError {
    RecordError(
      // A code of a newer release.
      ServerErrorCode(rawValue: code) ?? .internalError, reason, retryAfter: retryAfter,
      cocoaErrorCode: cocoaErrorCode.flatMap(CocoaErrorCode.init(rawValue:)), httpStatus: httpStatus,
      specialCKErrorCode: ckErrorCode)
  }
}
