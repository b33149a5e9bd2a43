// Which addresses the bus may use: what it sends is not encrypted, so it must not leave the machine.

enum Endpoint {
  /// One sentence why an endpoint may be neither bound nor connected to; nil when it may.
  ///
  /// Allowed are `ipc://path` and `tcp://` on literal loopback addresses: a name could resolve to anything.
  static func refusal(_ endpoint: String) -> String? {
    if endpoint.hasPrefix("ipc://") {
      let path = endpoint.dropFirst(6)
      if path.isEmpty { return "\(endpoint) names no path: use ipc:// with the path of a socket" }
      // sun_path holds 108 bytes with its final zero.
      return path.utf8.count <= 107 ? nil : "\(endpoint) is longer than a socket's path may be (107 bytes): use a shorter path"
    }
    guard endpoint.hasPrefix("tcp://"), let colon = endpoint.lastIndex(of: ":") else {
      return "\(endpoint) is no endpoint of the bus: use ipc:// with the path of a socket"
    }
    let host = endpoint[endpoint.index(endpoint.startIndex, offsetBy: 6)..<max(colon, endpoint.index(endpoint.startIndex, offsetBy: 6))]
    return isLoopback(host) ? nil : "\(endpoint) could carry unencrypted data beyond this machine: use ipc://, or tcp:// on 127.0.0.1"
  }

  private static func isLoopback(_ host: Substring) -> Bool {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { part in part.allSatisfy(\.isASCII) && part.allSatisfy(\.isNumber) && UInt8(part) != nil }
  }
}
