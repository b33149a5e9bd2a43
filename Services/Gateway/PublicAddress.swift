// The address at which clients reach this gateway: configured, told by a trusted proxy, or the one it listens on.

import HTTPServer
import Synchronization

/// The address that URLs in answers begin with.
final class PublicAddress: Sendable {
  /// A complete URL without a final slash; nil: not configured.
  private let configured: String?
  /// Set when the server listens, which is before the first request.
  private let listening = Mutex("")

  init(configured: String?) { self.configured = configured }

  func listens(at url: String) { listening.withLock { $0 = url } }

  /// Without a final slash. The configured address wins over a proxy's, which may be one of several names.
  func url(for request: HTTPRequest) -> String { configured ?? request.forwardedOrigin ?? listening.withLock { $0 } }
}
