// How clients reach this gateway: as configured, or where it turned out to listen.

import Synchronization

/// The address that URLs in answers begin with.
final class PublicAddress: Sendable {
  private let prefix: String
  /// 0: the prefix is all of it.
  private let port: Atomic<UInt16>

  /// - Parameter url: whole, without a final slash.
  init(_ url: String) {
    prefix = url
    port = Atomic(0)
  }

  /// An address without its port, which is known when the server listens; nobody can ask before.
  init(host: String) {
    prefix = "http://" + (host.contains(":") ? "[\(host)]" : host)
    port = Atomic(0)
  }

  func listens(at port: UInt16) { self.port.store(port, ordering: .relaxed) }

  /// Without a final slash.
  var url: String {
    let port = port.load(ordering: .relaxed)
    return port == 0 ? prefix : "\(prefix):\(port)"
  }
}
