// Lists of addresses and networks, for machines that are trusted.

internal import Glibc

/// A list of networks such as `10.0.0.0/8` and `fd00::/8`, and of single addresses.
public struct NetworkList: Hashable, Sendable {
  private struct Network: Hashable {
    /// 4 or 16 bytes.
    let address: [UInt8]
    let prefixBitCount: Int
  }

  private let networks: [Network]

  public init() { networks = [] }

  /// Parses a list.
  /// - Parameter text: addresses and networks, separated by commas; blanks are ignored. Bits behind a prefix are
  ///   ignored too.
  /// - Returns: nil when a part is neither an address nor a network.
  public init?(_ text: String) {
    var networks: [Network] = []
    for part in text.split(separator: ",") {
      let part = part.drop { $0 == " " }.prefix { $0 != " " }
      guard let network = Self.network(part) else { return nil }
      networks.append(network)
    }
    self.networks = networks
  }

  public var isEmpty: Bool { networks.isEmpty }

  /// True when a network of the list contains the address.
  /// - Parameter address: an IP address as text; other text is in no network. An IPv4 address in IPv6 form
  ///   (`::ffff:192.0.2.1`) counts as IPv4.
  public func contains(_ address: String) -> Bool {
    guard !networks.isEmpty, let bytes = Self.bytes(address) else { return false }
    return networks.contains { network in
      guard network.address.count == bytes.count else { return false }
      let whole = network.prefixBitCount / 8
      guard bytes[..<whole] == network.address[..<whole] else { return false }
      let rest = network.prefixBitCount % 8
      return rest == 0 || (bytes[whole] ^ network.address[whole]) >> (8 - rest) == 0
    }
  }

  private static func network(_ text: Substring) -> Network? {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count <= 2, let first = parts.first, let address = bytes(String(first)) else { return nil }
    guard parts.count == 2 else { return Network(address: address, prefixBitCount: address.count * 8) }
    guard parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int(parts[1]),
      count <= address.count * 8
    else { return nil }
    return Network(address: address, prefixBitCount: count)
  }

  static func bytes(_ text: String) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: 4)
    if inet_pton(AF_INET, text, &bytes) == 1 { return bytes }
    bytes = [UInt8](repeating: 0, count: 16)
    guard inet_pton(AF_INET6, text, &bytes) == 1 else { return nil }
    let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xff && bytes[11] == 0xff
    return isMapped ? Array(bytes[12...]) : bytes
  }
}
