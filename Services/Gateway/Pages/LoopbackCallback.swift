// Callbacks of programs that listen on this device: they learn their port when they start (RFC 8252, 7.3).

/// Compares an address that a program asks to be called back at with the one that its API token is registered with.
enum LoopbackCallback {
  /// Names such as localhost are missing because a resolver decides where they lead.
  private static let hosts = ["http://127.0.0.1", "http://[::1]"].map { Array($0.utf8) }

  /// True when both have the same spelling but for the port, on the same loopback address.
  static func allows(_ asked: String, registered: String) -> Bool {
    let (asked, registered) = (Array(asked.utf8), Array(registered.utf8))
    return hosts.contains { host in
      guard let own = rest(of: registered, behind: host), let other = rest(of: asked, behind: host) else {
        return false
      }
      return own.elementsEqual(other)
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
