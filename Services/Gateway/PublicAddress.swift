// The address at which clients reach this gateway: configured, told by a trusted proxy, or the one it listens on.

import HTTPServer
import ServiceKit
import Synchronization

/// The address that URLs in answers begin with.
final class PublicAddress: Sendable {
  /// A complete URL without a final slash; nil: not configured.
  private let configured: String?
  /// Set when the server listens, which is before the first request.
  private let listening = Mutex("")

  init(configured: String?) { self.configured = configured }

  /// - Parameter option: the value of `--public-url`; nil: not given.
  /// - Throws: when it is more than scheme, host and port. Pages lead to each other, and cookies return, by paths that
  ///   begin at the host; below a path, a name and its password would be sent to another site of the host.
  convenience init(option: String?) throws(ExitError) {
    if let option, !PageOrigin.isOrigin(option) {
      throw ExitError(
        .configuration,
        "--public-url is \(option); the gateway needs a host or port of its own: https://HOST or https://HOST:PORT.")
    }
    self.init(configured: option)
  }

  func listens(at url: String) { listening.withLock { $0 = url } }

  /// Without a final slash. The configured address wins over a proxy's, which may be one of several names.
  func url(for request: HTTPRequest) -> String { configured ?? request.forwardedOrigin ?? listening.withLock { $0 } }
}
