// How clients reach this gateway: as configured, as a trusted proxy says, or where it turned out to listen.

import HTTPServer
import Synchronization

/// The address that URLs in answers begin with.
final class PublicAddress: Sendable {
  /// Whole, without a final slash; nil: not configured.
  private let configured: String?
  /// Known when the server listens; nobody can ask before.
  private let listening = Mutex("")

  init(configured: String?) { self.configured = configured }

  func listens(at url: String) { listening.withLock { $0 = url } }

  /// Without a final slash. What is configured counts more than what a proxy says, which may be one of several names.
  func url(for request: HTTPRequest) -> String { configured ?? request.forwardedOrigin ?? listening.withLock { $0 } }
}
