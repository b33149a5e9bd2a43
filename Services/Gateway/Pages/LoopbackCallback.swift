// Callbacks of programs that listen on this device: they learn their port when they start (RFC 8252, 7.3).

/// Compares an address that a program asks to be called back at with the one that its API token is registered with.
enum LoopbackCallback {
  /// Names such as localhost are missing because a resolver decides where they lead.
  private static let hosts = ["http://127.0.0.1", "http://[::1]"].map { Array($0.utf8) }

  /// The shape of a nonce: letters, digits, `-` and `_`, with room for 128 bits and more.
  private static let nonceLengths = 22...128

  /// True when both have the same spelling but for the port, on the same loopback address. The asked one may have a
  /// nonce behind it, by which the program tells its callback from requests of others.
  static func allows(_ asked: String, registered: String) -> Bool {
    let (asked, registered) = (Array(asked.utf8), Array(registered.utf8))
    return hosts.contains { host in
      guard let own = rest(of: registered, behind: host), let other = rest(of: asked, behind: host) else {
        return false
      }
      return own.elementsEqual(other) || isNonce(other, behind: own)
    }
  }

  /// True for the registered path and query with one member `nonce` added at its end.
  private static func isNonce(_ asked: ArraySlice<UInt8>, behind registered: ArraySlice<UInt8>) -> Bool {
    let query = registered.firstIndex(of: UInt8(ascii: "?")).map { registered[($0 + 1)...] }
    let name = Array("nonce=".utf8)
    if let query, query.split(separator: UInt8(ascii: "&")).contains(where: { $0.starts(with: name) }) { return false }
    let start = registered + CollectionOfOne(UInt8(ascii: query == nil ? "?" : "&")) + name
    guard asked.starts(with: start) else { return false }
    let value = asked.dropFirst(start.count)
    return nonceLengths.contains(value.count)
      && value.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x61...0x7a).contains(byte | 0x20) || byte == UInt8(ascii: "-")
          || byte == UInt8(ascii: "_")
      }
  }

  /// The path and query behind host and port; nil for an address of another host, and for one with anything else there.
  private static func rest(of address: [UInt8], behind host: [UInt8]) -> ArraySlice<UInt8>? {
    guard address.starts(with: host) else { return nil }
    var rest = address.dropFirst(host.count)
    if rest.first == UInt8(ascii: ":") {
      let digits = rest.dropFirst().prefix { (0x30...0x39).contains($0) }
      guard (1...5).contains(digits.count), digits.first != UInt8(ascii: "0"),
        digits.reduce(0, { $0 * 10 + Int($1 & 0xf) }) <= 65_535
      else { return nil }
      rest = rest.dropFirst(1 + digits.count)
    }
    return rest.isEmpty || rest.first == UInt8(ascii: "/") || rest.first == UInt8(ascii: "?") ? rest : nil
  }
}
