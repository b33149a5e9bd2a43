// Decides which addresses the bus may use: without keys it does not encrypt, so its data must not leave the machine.

public enum Endpoint {
  /// One sentence with the reason why an endpoint may be neither bound nor connected to; nil if it may.
  ///
  /// Without keys the transport accepts `ipc://path` and `tcp://` on literal loopback addresses: a host name could
  /// resolve to any address. Services without keys use `ipc://` alone (`BusEndpoints`), because other users of the
  /// machine are not trusted. With keys any `tcp://` address is fit, but a bound one must be an address that others can
  /// connect to, since they are told it.
  public static func refusal(_ endpoint: String, hasKeys: Bool = false, isBound: Bool = false) -> String? {
    if endpoint.hasPrefix("ipc://") {
      let path = endpoint.dropFirst(6)
      if path.isEmpty { return "\(endpoint) names no path: use ipc:// with the path of a socket" }
      // sun_path holds 108 bytes with its final zero.
      return path.utf8.count <= 107
        ? nil : "\(endpoint) is longer than a socket's path may be (107 bytes): use a shorter path"
    }
    guard endpoint.hasPrefix("tcp://"), let colon = endpoint.lastIndex(of: ":") else {
      return "\(endpoint) is not an endpoint of the bus: use ipc:// with the path of a socket"
    }
    let host = endpoint[
      endpoint.index(endpoint.startIndex, offsetBy: 6)..<max(colon, endpoint.index(endpoint.startIndex, offsetBy: 6))]
    if isLoopback(host) { return nil }
    guard hasKeys else {
      return
        """
        \(endpoint) could carry unencrypted data beyond this machine: give the process a key (--bus-key and \
        --bus-peers), or use ipc:// with the path of a socket
        """
    }
    if host.isEmpty { return "\(endpoint) names no host: use tcp:// with an address and a port" }
    guard isBound, everybody.contains(host) else { return nil }
    return "\(endpoint) is not an address that others can connect to: use this machine's address"
  }

  /// Hosts that stand for all addresses of the machine.
  private static let everybody: Set<Substring> = ["*", "0.0.0.0", "::", "[::]"]

  private static func isLoopback(_ host: Substring) -> Bool {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127"
      && parts.allSatisfy { part in part.allSatisfy(\.isASCII) && part.allSatisfy(\.isNumber) && UInt8(part) != nil }
  }
}
