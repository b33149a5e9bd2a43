// A request's head and form as far as this code parses them: libmicrohttpd has split the lines.

import Authentication
import Crypto
@testable import Gateway
@testable import HTTPServer
import ServiceBus
import ServiceKit

extension FuzzTarget {
  /// Input: `METHOD target`, headers as `name: value`, an empty line, a body.
  static let http = FuzzTarget(name: "http-request") { bytes in
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    guard let first = lines.first, let space = first.firstIndex(of: UInt8(ascii: " ")) else { return }
    let method = HTTPMethod(rawValue: String(decoding: first[..<space], as: UTF8.self)) ?? .get
    let target = String(decoding: first[(space + 1)...], as: UTF8.self)
    let head = lines.dropFirst().prefix { !$0.isEmpty }
    let body = lines.dropFirst(head.count + 2).joined(separator: [UInt8(ascii: "\n")])
    let headers = try readHeaders(head)
    try checkForm(Array(body))
    guard let parts = try taken({ try RequestTarget(target) }, orRefused: checkHeadRefusal) else { return }
    try checkSpelling(parts)
    let request = HTTPRequest(
      method: method, target: target, pathSegments: parts.pathSegments, query: parts.query, headers: headers,
      body: Array(body), remoteAddress: "127.0.0.1")
    try checkRoute(of: request)
    try checkCredentials(of: request)
    try checkForwarding(headers)
    for byteCount: UInt64 in [0, 1, 1000, .max] { try checkRange(request.header("range"), of: byteCount) }
  }

  private static let routes = RouteTable()
  private static let key = P256PublicKey(der: [UInt8](repeating: 1, count: 91))

  private static func checkHeadRefusal(_ error: any Error) throws {
    guard let refusal = error as? Refusal else { throw Broken(description: "refused with \(error)") }
    try hold(refusal.status == 400 && !refusal.reason.isEmpty, "refused with \(refusal.status) '\(refusal.reason)'")
  }

  private static func readHeaders(_ lines: ArraySlice<ArraySlice<UInt8>>) throws -> [(name: String, value: String)] {
    var headers: [(name: String, value: String)] = []
    var policy = HeaderPolicy()
    for line in lines {
      let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
      let name = String(decoding: line[..<colon], as: UTF8.self).lowercased()
      let value = Array(line[colon...].dropFirst().drop { $0 == UInt8(ascii: " ") })
      value.withUnsafeBufferPointer { policy.take(name: name, value: $0) }
      headers.append((name, String(decoding: value, as: UTF8.self)))
    }
    for isHTTP10 in [false, true] {
      guard let framing = try taken({ try policy.framing(isHTTP10: isHTTP10) }, orRefused: checkHeadRefusal) else {
        continue
      }
      let lengths = headers.filter { $0.name == "content-length" }
      let codings = headers.filter { $0.name == "transfer-encoding" }
      switch framing {
      case .none:
        try hold(
          codings.isEmpty && (lengths.isEmpty || lengths.count == 1 && UInt64(lengths[0].value) == 0),
          "a body is overlooked")
      case .length(let count):
        try hold(
          codings.isEmpty && lengths.count == 1 && UInt64(lengths[0].value) == count,
          "a body of \(count) bytes that nobody announced")
      case .chunked:
        try hold(codings.count == 1 && lengths.isEmpty && !isHTTP10, "a chunked body that nobody announced")
      }
    }
    return headers
  }

  /// The meaning of a target does not depend on its spelling.
  private static func checkSpelling(_ parts: RequestTarget) throws {
    let path = "/" + parts.pathSegments.map(escaped).joined(separator: "/")
    let query = parts.query.map { escaped($0.name) + "=" + escaped($0.value) }.joined(separator: "&")
    for spelling in [path + (query.isEmpty ? "" : "?" + query), "http://host" + path + "?" + query] {
      guard let again = try taken({ try RequestTarget(spelling) }) else {
        throw Broken(description: "refuses its own target \(spelling)")
      }
      try holdEqual(again.pathSegments, parts.pathSegments, "\(spelling) has another path")
      try hold(again.query.elementsEqual(parts.query) { $0 == $1 }, "\(spelling) has another query")
    }
  }

  /// Every byte as hexadecimal digits.
  private static func escaped(_ text: String) -> String { text.utf8.map { "%" + Hex.encode([$0]) }.joined() }

  private static func checkRoute(of request: HTTPRequest) throws {
    var isKnown: Bool?
    for method: HTTPMethod in [.get, .post, .put, .delete] {
      switch routes.outcome(of: method, request.pathSegments) {
      case .match(let match):
        if let route = match.databaseRoute, route.hasPossibleName {
          try hold(
            DatabaseRoute(route.plane, method: route.method, path: route.path) == route,
            "a call is spelled as another one")
        }
        for capture in [match.container, match.environment, match.database].compactMap({ $0 }) + match.names {
          try hold(request.pathSegments.contains(capture), "captured what is not in the path")
        }
        try hold(isKnown != false, "a path exists for some methods only")
        isKnown = true
      case .wrongMethod: isKnown = isKnown ?? true
      case .unknown:
        try hold(isKnown != true, "a path exists for some methods only")
        isKnown = false
      }
    }
  }

  private static func checkCredentials(of request: HTTPRequest) throws {
    let credentials = Credentials(of: request)
    for text in [credentials.apiToken, credentials.userToken] {
      try hold(text?.isEmpty != true, "an empty text became a credential")
    }
    guard let signature = credentials.signature else { return }
    // No signature can be valid for a key that is invalid.
    try hold(signature.proof(for: request, by: key, now: 1_795_160_004_123) == nil, "a key that is none has signed")
    if signature.isPlausible { try hold(Hex.decode(signature.keyID)?.count == 32, "a plausible key ID is no digest") }
  }

  private static func checkForwarding(_ headers: [(name: String, value: String)]) throws {
    var configuration = HTTPServer.Configuration()
    guard let proxies = NetworkList("127.0.0.1,10.0.0.0/8") else {
      throw Broken(description: "the list of proxies is none")
    }
    try hold(configuration.forwarding(of: headers, from: "127.0.0.1") == nil, "somebody is believed who is not trusted")
    configuration.trustedProxies = proxies
    try hold(configuration.forwarding(of: headers, from: "192.0.2.1") == nil, "somebody is believed who is not trusted")
    let forwarding = configuration.forwarding(of: headers, from: "127.0.0.1")
    if let address = forwarding?.clientAddress {
      try hold(NetworkList.bytes(address) != nil, "\(address) is no address")
    }
    if let origin = forwarding?.origin {
      try hold(origin.hasPrefix("http://") || origin.hasPrefix("https://"), "\(origin) is no origin")
      try hold(
        !origin.utf8.contains { $0 <= 0x20 || $0 >= 0x7f || "\"'<>\\".utf8.contains($0) },
        "\(origin) could end a quotation")
    }
  }

  private static func checkRange(_ header: String?, of byteCount: UInt64) throws {
    let range = ByteRange(header, of: byteCount)
    let text = range.contentRange(of: byteCount)
    guard case .part(let offset, let count) = range else { return }
    try hold(count > 0 && offset < byteCount && count <= byteCount - offset, "\(text) is no part")
  }

  private static func checkForm(_ body: [UInt8]) throws {
    guard let form = FormBody(body) else { return }
    let spelling = ["user", "a b", ""].compactMap { name in form[name].map { escaped(name) + "=" + escaped($0) } }
      .joined(separator: "&")
    let again = FormBody(Array(spelling.utf8))
    for name in ["user", "a b", ""] {
      try holdEqual(again?[name], form[name], "the form's field '\(name)' depends on how it is spelled")
    }
  }
}
