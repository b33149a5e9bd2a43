// The network that limits count a client by: a client of IPv6 chooses among many addresses.

/// The addresses that one client controls: one address of IPv4, a /64 of IPv6.
public struct ClientNetwork: Hashable, Sendable, CustomStringConvertible {
  private let bits: UInt64
  private let isIPv4: Bool

  /// - Parameter address: an address as text. All malformed texts count as one network.
  public init(_ address: String) {
    let bytes = NetworkList.bytes(address) ?? []
    bits = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    isIPv4 = bytes.count == 4
  }

  /// Like `192.0.2.1` and `2001:db8:0:1::/64`.
  public var description: String {
    if isIPv4 { return [24, 16, 8, 0].map { String(bits >> $0 & 0xff) }.joined(separator: ".") }
    return [48, 32, 16, 0].map { String(bits >> $0 & 0xffff, radix: 16) }.joined(separator: ":") + "::/64"
  }
}

extension HTTPRequest {
  /// The client's network.
  public var clientNetwork: ClientNetwork { ClientNetwork(remoteAddress) }
}
