// What the HTTP server refuses by itself, in the words of the error table.

public import Records
import ServiceKit

extension RecordError {
  /// The error that stands for a request that no handler was asked about.
  /// - Parameter status: what the server would answer.
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
