// Translates refusals of the HTTP server itself into the protocol's error codes.

public import Records
import ServiceKit

extension RecordError {
  /// The error for a request that no handler saw.
  /// - Parameter status: the status that the server would answer.
  public init(refusedWith status: Int, reason: String) {
    switch status {
    case 404: self.init(.notFound, reason)
    case 429: self.init(.throttled, reason, retryAfter: RetryPlan.retryAfterSeconds)
    case 503: self.init(.tryAgainLater, reason, retryAfter: RetryPlan.retryAfterSeconds)
    case 400..<500: self.init(.badRequest, reason, httpStatus: status)
    default: self.init(.internalError, reason, httpStatus: status)
    }
  }
}
