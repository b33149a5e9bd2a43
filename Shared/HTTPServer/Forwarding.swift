// Reads the client's address and origin from the headers of trusted proxies. Headers of other peers are ignored.

/// The client of a request that came through proxies.
struct Forwarding: Hashable {
  /// nil when the proxy names no address.
  let clientAddress: String?
  /// `scheme://host[:port]`; nil when the proxy names neither scheme nor host.
  let origin: String?
}

extension HTTPServer.Configuration {
  func isTrustedProxy(_ address: String) -> Bool { !trustedProxies.isEmpty && trustedProxies.contains(address) }

  /// - Parameter peer: the address that the connection came from.
  /// - Returns: nil unless the peer is a trusted proxy.
  func forwarding(of headers: [(name: String, value: String)], from peer: String) -> Forwarding? {
    guard isTrustedProxy(peer) else { return nil }
    return Forwarding(clientAddress: clientAddress(headers), origin: origin(headers))
  }

  /// The last address of the chain that is no trusted proxy. The addresses before it are the client's own claims.
  private func clientAddress(_ headers: [(name: String, value: String)]) -> String? {
    var furthest: String?
    for text in Self.elements(of: "x-forwarded-for", headers).reversed() {
      guard let address = Self.address(text) else { break }
      furthest = address
      if !trustedProxies.contains(address) { break }
    }
    return furthest
  }

  private func origin(_ headers: [(name: String, value: String)]) -> String? {
    let scheme = Self.elements(of: "x-forwarded-proto", headers).last.map { $0.lowercased() }.flatMap {
      ["http", "https"].contains($0) ? $0 : nil
    }
    let host = Self.elements(of: "x-forwarded-host", headers).last.flatMap { Self.isHost($0) ? String($0) : nil }
    guard scheme != nil || host != nil else { return nil }
    // A proxy that passes the client's `Host` header on need not repeat it.
    guard
      let host = host
        ?? headers.first(where: { $0.name == "host" }).flatMap({ Self.isHost($0.value[...]) ? $0.value : nil })
    else { return nil }
    return "\(scheme ?? (certificate == nil ? "http" : "https"))://\(host)"
  }

  private static func elements(of name: String, _ headers: [(name: String, value: String)]) -> [Substring] {
    headers.filter { $0.name == name }.flatMap { $0.value.split(separator: ",") }.map { element in
      var element = element.drop { $0 == " " || $0 == "\t" }
      while element.last == " " || element.last == "\t" { element = element.dropLast() }
      return element
    }
  }

  /// Reads an address with or without brackets and port, because proxies use both forms.
  private static func address(_ text: Substring) -> String? {
    var text = text
    if text.first == "[", let end = text.firstIndex(of: "]") {
      text = text[text.index(after: text.startIndex)..<end]
    } else if text.count(where: { $0 == ":" }) == 1, let colon = text.firstIndex(of: ":") {
      text = text[..<colon]
    }
    return NetworkList.bytes(String(text)) == nil ? nil : String(text)
  }

  /// Accepts letters, digits and the punctuation of names, addresses and ports, because the host ends up in URLs.
  private static func isHost(_ text: Substring) -> Bool {
    !text.isEmpty && text.utf8.count <= 255
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: ".-_:[]".utf8.contains(byte)
        }
      }
  }
}
